"""The keys of one schedule: its trigger, its prompt, and the policies."""

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.agent import ACCOUNT, ON_DENIED, SESSION
from herdbeat.config.schema.formats import HEADER_NAME, TEXT, VARIABLE_NAME
from herdbeat.config.schema.isolation import SCHEDULE_ISOLATION, SCHEDULE_WORKSPACE
from herdbeat.config.schema.policies import FOREIGN_KEY_SUGGESTIONS, POLICIES
from herdbeat.config.schema.table import AnyOf, Field, ListOf, Table
from herdbeat.config.schema.types import Boolean, Choice, EnumValue, ParsedText, Text
from herdbeat.config.schema.work import WORK_SOURCE_TABLE
from herdbeat.domain.target import OnDenied, ToolMode
from herdbeat.domain.trigger import IntervalAnchor, TriggerKind
from herdbeat.domain.webhook import PRESET_NAMES
from herdbeat.error_codes import Code

TYPE = Field(
    "type",
    Choice(tuple(TriggerKind), {"once": "delay", "at": "delay", "every": "interval", "event": "webhook"}),
    "Kind of trigger; optional with `interval`, `cron` or `at`.",
)
# These three are parsed where the schedule is built: cron needs its zone, and only the trigger in force is checked.
_INTERVAL_TYPE = ParsedText("a duration", str, examples=("30s", "5m", "1h"), accepts_numbers=True)
_CRON_TYPE = ParsedText("a cron expression", str, examples=("0 9 * * MON-FRI", "@daily"), accepts_numbers=True)
_AT_TYPE = ParsedText(
    "a date and time with UTC offset", str, examples=("2026-12-01T09:00:00+01:00",), accepts_numbers=True
)
INTERVAL = Field(
    "interval", _INTERVAL_TYPE, "Time from the end of one run to the next: 30s, 5m, 1h, 1d.", aliases=("every",)
)
ANCHOR = Field(
    "anchor",
    EnumValue(IntervalAnchor),
    "Interval: what it is measured from. With `start`, the time between due instants is fixed, however long runs take.",
    "end",
)
CRON = Field(
    "cron",
    _CRON_TYPE,
    "Cron expression: five fields, six with seconds first, or a name such as @daily.",
    aliases=("expression",),
)
AT = Field("at", _AT_TYPE, "Run once, at this date and time with UTC offset.", aliases=("run_at",))
PROMPT = Field(
    "prompt", Text(allows_empty=True), "Instructions for the agent; {{variables}} are filled in.", nullable=True
)
ENABLED = Field("enabled", Boolean(), "With false, the schedule runs only when a person starts it.", "true")
WORK_SOURCE = Field("work_source", WORK_SOURCE_TABLE, "Where each run takes one item of work from.", nullable=True)
RESUME_SESSION = Field("resume_session", Boolean(), "herdctl's name for `session: resume`.", "false")
OUTPUT_TO_FILE = Field(
    "outputToFile", Boolean(), "Also write the output to a file.", "false", aliases=("output_to_file",)
)
SECRET_ENV = Field(
    "secret_env", VARIABLE_NAME, "webhook: environment variable with the signing secret.", unset="the fleet's"
)

SECRET = Field("secret", TEXT, "webhook: the signing secret as ${NAME}; prefer secret_env.")
HOOK_PRESET = Field("preset", Choice(PRESET_NAMES), "Whose signatures to verify.", "github")
HOOK_TOKEN = Field("token", Boolean(), "With true, callers send a token of the server instead of a signature.", "false")
HOOK_SECRETS = Field(
    "secret_env",
    AnyOf(scalar=VARIABLE_NAME, sequence=ListOf(VARIABLE_NAME, at_least=1)),
    "Environment variables with the signing secrets; two while one replaces the other.",
    unset="the fleet's",
)
HOOK_HEADER = Field("header", HEADER_NAME, "generic: header with the signature.")
HOOK_SIGNED = Field(
    "signed", TEXT, "generic: what is signed, with {body} and, if signed, {timestamp} and {id}.", "{body}"
)
HOOK_ENCODING = Field("encoding", Choice(("hex", "base64")), "generic: how the signature is written.", "hex")
HOOK_PREFIX = Field("prefix", TEXT, "generic: text before the signature, such as sha256=.", unset="none")
HOOK_TIMESTAMP = Field("timestamp_header", HEADER_NAME, "generic: header with the time in seconds.", unset="none")
HOOK_DELIVERY = Field(
    "delivery_header", HEADER_NAME, "generic: header with the id of the delivery.", unset="Idempotency-Key"
)
GENERIC_KEYS = (HOOK_HEADER, HOOK_SIGNED, HOOK_ENCODING, HOOK_PREFIX, HOOK_TIMESTAMP, HOOK_DELIVERY)
WEBHOOK_AUTH_TABLE = Table("An auth block", HOOK_PRESET, HOOK_TOKEN, HOOK_SECRETS, *GENERIC_KEYS)
WEBHOOK_AUTH = Field(
    "auth",
    AnyOf(scalar=Choice(("none",)), mapping=WEBHOOK_AUTH_TABLE),
    "webhook: how callers prove who they are; `none` accepts everybody.",
    unset="the fleet's secret, preset github",
)
MODE = Field("mode", EnumValue(ToolMode), "How to interpret the list.", "allow_all")
TOOLS = Field("tools", ListOf(TEXT), "Tools, as `Bash` or `Bash(git *)`.", unset="none")


class ToolPolicyTable(Table):
    """Also reports a list of allowed tools that names none: the agent could do nothing at all."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        mode = node.child(MODE.name)
        if mode is None or mode.value != ToolMode.ALLOW_LIST:
            return
        tools = node.child(TOOLS.name)
        if tools is None or not tools.value:
            message = 'Mode "allow_list" lists no tools.'
            diagnostics.error(Code.MISSING_KEY, message, (tools or mode).report_location, "Add tools, or use deny_all.")


_TOOL_POLICY_TABLE = ToolPolicyTable("A tool policy", MODE, TOOLS)
TOOL_POLICY = Field("tool_policy", _TOOL_POLICY_TABLE, "Tools that a run is allowed to use.", unset="the agent's")

TRIGGER_KEYS: tuple[Field[object], ...] = (TYPE, INTERVAL, CRON, AT)
SCHEDULE_SESSION = Field("session", SESSION.field_type, SESSION.meaning, unset="the agent's")
SCHEDULE_ON_DENIED = Field("on_denied", EnumValue(OnDenied), ON_DENIED.meaning, unset="the agent's")
SCHEDULE_ACCOUNT = Field("account", TEXT, ACCOUNT.meaning, unset="the agent's")
_RUN_KEYS = (
    PROMPT,
    ENABLED,
    WORK_SOURCE,
    SCHEDULE_SESSION,
    RESUME_SESSION,
    SCHEDULE_ACCOUNT,
    SCHEDULE_ON_DENIED,
    SCHEDULE_WORKSPACE,
    SCHEDULE_ISOLATION,
    OUTPUT_TO_FILE,
)
SCHEDULE_KEYS: tuple[Field[object], ...] = (*_RUN_KEYS, WEBHOOK_AUTH, SECRET_ENV, SECRET, TOOL_POLICY, ANCHOR)

SCHEDULE = Table(
    "A schedule", *TRIGGER_KEYS, *SCHEDULE_KEYS, *POLICIES, ignores_unknown=True, suggestions=FOREIGN_KEY_SUGGESTIONS
)
