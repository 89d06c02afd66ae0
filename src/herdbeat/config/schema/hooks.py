"""The keys of hooks, which are executed after a run and cannot change its outcome."""

from dataclasses import dataclass

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import ARGV, DURATION, EXPRESSION, NAME, TEXT, URL, VARIABLE_NAME
from herdbeat.config.schema.table import AnyOf, Field, ListOf, MapOf, Table
from herdbeat.config.schema.types import Boolean, Choice, FieldType, Text
from herdbeat.error_codes import Code

HOOK_EVENTS = ("completed", "failed", "timeout", "cancelled")
_REQUIRED_KEYS = {
    "shell": "command",
    "command": "command",
    "webhook": "url",
    "slack": "channel_id",
    "discord": "channel_id",
}


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


class HookTable(Table):
    """A hook names a channel under `notify:`, or is of a type with what that type needs."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        if not isinstance(node.value, dict) or "notify" in node.value:
            return
        kind = node.value.get("type")
        if kind is None:
            hint = "Add type: shell, command, webhook, slack or discord; or notify: and a name."
            diagnostics.error(Code.MISSING_KEY, 'A hook needs "type" or "notify".', node.location, hint)
            return
        needed = _REQUIRED_KEYS.get(str(kind.value))
        if needed and needed not in node.value:
            message = f'A {kind.value} hook needs "{needed}".'
            diagnostics.error(Code.MISSING_KEY, message, node.location, f"Add {needed}.")


_CHANNEL_KEYS: tuple[Field[object], ...] = (
    Field("type", Choice(tuple(_REQUIRED_KEYS)), "Kind of hook."),
    Field("command", AnyOf(scalar=TEXT, sequence=ARGV), "shell, command: the command to run."),
    Field("url", URL, "webhook: the URL."),
    Field("method", Choice(("POST", "PUT")), "webhook: the method.", "POST"),
    Field("headers", MapOf(Text(allows_empty=True)), "webhook: headers."),
    Field("timeout", DurationOrMilliseconds(), "Timeout of the hook.", unset="30s; webhook: 10s"),
    Field("channel_id", TEXT, "slack, discord: the channel."),
    Field("bot_token_env", VARIABLE_NAME, "slack, discord: environment variable with the token."),
)
HOOK = HookTable(
    "A hook",
    Field("notify", NAME, "Name of a channel under the fleet's `notify:`."),
    *_CHANNEL_KEYS,
    Field("name", TEXT, "Name of the hook in the log."),
    Field("continue_on_error", Boolean(), "Run the next hook even if this one fails.", "true"),
    Field("on_events", ListOf(Choice(HOOK_EVENTS)), "Run outcomes for which the hook is executed.", unset="all"),
    Field("when", EXPRESSION, "Condition that must be true."),
)
CHANNEL = HookTable("A notify channel", *_CHANNEL_KEYS)

AFTER_RUN = Field("after_run", ListOf(HOOK), "Hooks after every run.")
ON_ERROR = Field("on_error", ListOf(HOOK), "Hooks after a failed run.")
HOOKS = Field("hooks", Table("A hooks block", AFTER_RUN, ON_ERROR), "Actions after a run.")
