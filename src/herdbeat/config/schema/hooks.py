"""The keys of hooks, which are executed after a run and cannot change its outcome."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import ARGV, DURATION, HOURS, NAME, TEXT, URL, VARIABLE_NAME, ExpressionType
from herdbeat.config.schema.table import AnyOf, Field, ListOf, MapOf, Table
from herdbeat.config.schema.types import Boolean, Choice, FieldType, Integer, ParsedText, Text
from herdbeat.domain.hooks import HOOK_ROOTS, is_dotted_path
from herdbeat.domain.notification import RECOVERED, ConditionKind
from herdbeat.error_codes import Code
from herdbeat.triggers.cron import Cron

HOOK_EVENTS = ("completed", "failed", "timeout", "cancelled")
_REQUIRED_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "shell": (("command",),),
    "command": (("command",),),
    "webhook": (("url",),),
    "slack": (("url", "channel_id"),),
    "discord": (("url", "channel_id"),),
    "ntfy": (("topic",),),
    "email": (("host",), ("from",), ("to",)),
}
"""By type: of each group of keys, one is needed."""


@dataclass(frozen=True, slots=True)
class DurationOrMilliseconds(FieldType[object]):
    """A duration; a bare number is milliseconds, as herdctl writes it."""

    description = "a duration, or milliseconds"

    def read(self, node: ConfigNode) -> object:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value > 0:
            return node.value
        return DURATION.read(node)

    def to_json_schema(self) -> dict[str, object]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, DURATION.to_json_schema()]}


@dataclass(frozen=True, slots=True)
class HookCondition(FieldType[str]):
    """A dotted path to something that counts as true, as herdctl has it, or an expression over the run."""

    description = "a dotted path or an expression"

    def read(self, node: ConfigNode) -> str:
        if isinstance(node.value, str) and is_dotted_path(node.value):
            return node.value
        return _HOOK_EXPRESSION.read(node)

    def to_json_schema(self) -> dict[str, object]:
        return {"type": ["string", "boolean"], "examples": ["metadata.changed", "run.duration_ms > 60000"]}


_HOOK_EXPRESSION = ExpressionType(HOOK_ROOTS)


def parse_digest(text: str) -> str:
    """Check a cron expression, and return it as it is written."""
    Cron.parse(text, ZoneInfo("UTC"))
    return text


class HookTable(Table):
    """A hook names a channel under `notify:`, or is of a type with what that type needs."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        if not isinstance(node.value, dict) or "notify" in node.value:
            return
        kind = node.value.get("type")
        if kind is None:
            self._report_missing_type(node, diagnostics)
            return
        for alternatives in _REQUIRED_KEYS.get(str(kind.value), ()):
            if not any(name in node.value for name in alternatives):
                article = "An" if str(kind.value)[0] in "ae" else "A"
                message = f'{article} {kind.value} {self.word} needs "{alternatives[0]}".'
                hint = f"Add {' or '.join(alternatives)}."
                diagnostics.error(Code.MISSING_KEY, message, node.location, hint)

    word = "hook"

    def _report_missing_type(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        hint = "Add type: shell, command, webhook, slack, discord, ntfy or email; or notify: and a name."
        diagnostics.error(Code.MISSING_KEY, 'A hook needs "type" or "notify".', node.location, hint)


class ChannelTable(HookTable):
    """A channel under `notify:`."""

    word = "channel"

    def _report_missing_type(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        hint = "Add type: webhook, slack, discord, email, ntfy or command."
        diagnostics.error(Code.MISSING_KEY, 'A channel needs "type".', node.location, hint)


_CHANNEL_KEYS: tuple[Field[object], ...] = (
    Field("type", Choice(tuple(_REQUIRED_KEYS)), "Kind of receiver."),
    Field("command", AnyOf(scalar=TEXT, sequence=ARGV), "shell, command: the command to run."),
    Field(
        "env", ListOf(VARIABLE_NAME), "shell, command: environment variables that it gets.", unset="a small base list"
    ),
    Field("url", URL, "webhook: the URL. slack, discord: that of an incoming webhook. ntfy: that of the server."),
    Field("secret_env", VARIABLE_NAME, "webhook: environment variable with the secret that signs each message."),
    Field("method", Choice(("POST", "PUT")), "webhook: the method.", "POST"),
    Field("headers", MapOf(Text(allows_empty=True)), "webhook: headers."),
    Field("channel_id", TEXT, "slack, discord: the channel to which a bot posts."),
    Field("bot_token_env", VARIABLE_NAME, "slack, discord: environment variable with the token of the bot."),
    Field("topic", TEXT, "ntfy: the topic."),
    Field("token_env", VARIABLE_NAME, "ntfy: environment variable with the access token."),
    Field("host", TEXT, "email: the mail server."),
    Field("port", Integer(1, 65_535), "email: its port.", unset="587; tls: 465; none: 25"),
    Field("security", Choice(("starttls", "tls", "none")), "email: how the connection is protected.", "starttls"),
    Field("username", TEXT, "email: the login.", unset="none"),
    Field("password_env", VARIABLE_NAME, "email: environment variable with the password."),
    Field("from", TEXT, "email: the sender."),
    Field("to", AnyOf(scalar=TEXT, sequence=ListOf(TEXT, at_least=1)), "email: the recipients."),
    Field("timeout", DurationOrMilliseconds(), "Time that one attempt may take.", unset="15s; shell, command: 30s"),
)
HOOK = HookTable(
    "A hook",
    Field("notify", NAME, "Name of a channel under the fleet's `notify:`."),
    *_CHANNEL_KEYS,
    Field("name", TEXT, "Name of the hook."),
    Field("continue_on_error", Boolean(), "Accepted as in herdctl: a hook never prevents another one.", "true"),
    Field("on_events", ListOf(Choice(HOOK_EVENTS)), "Run outcomes for which the hook is executed.", unset="all"),
    Field("when", HookCondition(), "Condition that must be true."),
)
_ONLY_TABLE = Table(
    "A selection of schedules",
    Field("tags", ListOf(TEXT), "Schedules with one of these tags.", unset="none"),
    Field("targets", ListOf(TEXT), "Schedules of these targets.", unset="none"),
    Field("schedules", ListOf(TEXT), "These schedules.", unset="none"),
)
CHANNEL = ChannelTable(
    "A notify channel",
    *_CHANNEL_KEYS,
    Field(
        "conditions",
        ListOf(Choice((*ConditionKind, RECOVERED))),
        "The conditions that the channel reports. `recovered` means that their ends are reported, too.",
        unset="missed, failing, needs_you, node_lost, recovered",
    ),
    Field("failing_after", Integer(1, 1_000), "Failures in a row before a schedule counts as failing.", "1"),
    Field("only", _ONLY_TABLE, "The schedules that the channel reports.", unset="all"),
    Field("quiet_hours", HOURS, "Hours without messages. What begins in them is reported at their end.", unset="none"),
    Field("digest", ParsedText("a cron expression", parse_digest), "When to send a summary.", unset="never"),
    Field("group_within", DURATION, "Conditions that begin within this time are one message.", "30s"),
)

AFTER_RUN = Field("after_run", ListOf(HOOK), "Hooks after every run.")
ON_ERROR = Field("on_error", ListOf(HOOK), "Hooks after a failed run.")
ON_CHANGE = Field(
    "on_change", ListOf(HOOK), "Hooks after a run that failed although the one before did not, or vice versa."
)
HOOKS = Field("hooks", Table("A hooks block", AFTER_RUN, ON_ERROR, ON_CHANGE), "Actions after a run.")
