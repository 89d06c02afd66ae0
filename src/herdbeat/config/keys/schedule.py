"""The keys of one schedule: its trigger, its prompt, and the policies."""

from herdbeat.config.forms import TEXT, VARIABLE
from herdbeat.config.keys.policies import OTHER_WORDS, POLICIES
from herdbeat.config.keys.work import WORK_SOURCE_TABLE
from herdbeat.config.shapes import Choice, Flag, OneOf, Parsed, Text
from herdbeat.config.tables import Key, ListOf, Table
from herdbeat.domain.target import ToolMode
from herdbeat.domain.trigger import TriggerKind

TYPE = Key(
    "type",
    Choice(tuple(TriggerKind), {"once": "delay", "at": "delay", "every": "interval", "event": "webhook"}),
    "What fires it; may be left out beside `interval`, `cron` or `at`.",
)
# The three are checked where the schedule is built: cron needs its zone, and only the trigger in force counts.
_INTERVAL = Parsed("a duration", str, examples=("30s", "5m", "1h"), takes_numbers=True)
_CRON = Parsed("a cron expression", str, examples=("0 9 * * MON-FRI", "@daily"), takes_numbers=True)
_AT = Parsed("a date and time with offset", str, examples=("2026-12-01T09:00:00+01:00",), takes_numbers=True)
INTERVAL = Key("interval", _INTERVAL, "Time from the end of one run to the next: 30s, 5m, 1h, 1d.", aliases=("every",))
CRON = Key("cron", _CRON, "Five fields, or six with seconds first, or @daily.", aliases=("expression",))
AT = Key("at", _AT, "Once, at this date and time with offset.", aliases=("run_at",))
PROMPT = Key("prompt", Text(may_be_empty=True), "What the agent is told; {{names}} are filled in.", may_be_null=True)
ENABLED = Key("enabled", Flag(), "false: nothing fires it but a person.", "true")
WORK_SOURCE = Key("work_source", WORK_SOURCE_TABLE, "Takes one item of work before each run.", may_be_null=True)
SESSION = Key("session", Choice(("fresh", "resume")), "Whether the agent goes on in its last session.", "fresh")
RESUME_SESSION = Key("resume_session", Flag(), "herdctl's word for `session: resume`.", "false")
OUTPUT_TO_FILE = Key("outputToFile", Flag(), "Also write the output to a file.", "false", aliases=("output_to_file",))
SECRET_ENV = Key("secret_env", VARIABLE, "webhook: the variable with the secret of its signatures.", "the fleet's")

SECRET = Key("secret", TEXT, "webhook: the secret itself, as ${NAME}; secret_env is the better way.")
MODE = Key("mode", OneOf(ToolMode), "How the list is meant.", "allow_all")
TOOLS = Key("tools", ListOf(TEXT), "Tools, as `Bash` or `Bash(git *)`.", "none")
TOOL_POLICY = Key("tool_policy", Table("A tool policy", (MODE, TOOLS)), "Which tools a run may use.", "the agent's")

TRIGGER_KEYS: tuple[Key[object], ...] = (TYPE, INTERVAL, CRON, AT)
OWN_KEYS: tuple[Key[object], ...] = (
    PROMPT,
    ENABLED,
    WORK_SOURCE,
    SESSION,
    RESUME_SESSION,
    OUTPUT_TO_FILE,
    SECRET_ENV,
    SECRET,
    TOOL_POLICY,
)

SCHEDULE = Table("A schedule", (*TRIGGER_KEYS, *OWN_KEYS, *POLICIES), drops_unknown=True, others=OTHER_WORDS)
