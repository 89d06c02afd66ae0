"""The keys of hooks, which run after a run and off its path (SPEC 6)."""

from dataclasses import dataclass

from herdbeat.codes import Code
from herdbeat.config.forms import ARGV, DURATION, EXPRESSION, NAME, TEXT, URL, VARIABLE
from herdbeat.config.report import Report
from herdbeat.config.shapes import Choice, Flag, Shape, Text
from herdbeat.config.tables import Either, Key, ListOf, MapOf, Table
from herdbeat.located import Located

EVENTS = ("completed", "failed", "timeout", "cancelled")
_NEEDS = {"shell": "command", "command": "command", "webhook": "url", "slack": "channel_id", "discord": "channel_id"}


@dataclass(frozen=True, slots=True)
class Milliseconds(Shape[object]):
    """A duration; a bare number is milliseconds, as herdctl writes it."""

    def expected(self) -> str:
        return "a duration, or milliseconds"

    def read(self, node: Located) -> object:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value > 0:
            return node.value
        return DURATION.read(node)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, DURATION.schema()]}


@dataclass(frozen=True, slots=True)
class HookTable(Table):
    """A hook names a channel under `notify:`, or is of a type with what that type needs."""

    def check(self, node: Located, report: Report) -> None:
        Table.check(self, node, report)
        if not isinstance(node.value, dict) or "notify" in node.value:
            return
        kind = node.value.get("type")
        if kind is None:
            hint = "Add type: shell, command, webhook, slack or discord; or notify: and a name."
            report.error(Code.MISSING_KEY, 'A hook needs "type" or "notify".', node.place, hint)
            return
        needed = _NEEDS.get(str(kind.value))
        if needed and needed not in node.value:
            message = f'A {kind.value} hook needs "{needed}".'
            report.error(Code.MISSING_KEY, message, node.place, f"Add {needed}.")


_CHANNEL: tuple[Key[object], ...] = (
    Key("type", Choice(tuple(_NEEDS)), "How it is told."),
    Key("command", Either(scalar=TEXT, sequence=ARGV), "shell, command: what to run."),
    Key("url", URL, "webhook: the address."),
    Key("method", Choice(("POST", "PUT")), "webhook: the method.", "POST"),
    Key("headers", MapOf(Text(may_be_empty=True)), "webhook: headers."),
    Key("timeout", Milliseconds(), "How long it may take.", "30s; webhook: 10s"),
    Key("channel_id", TEXT, "slack, discord: the channel."),
    Key("bot_token_env", VARIABLE, "slack, discord: the variable with the token."),
)
HOOK = HookTable(
    "A hook",
    (
        Key("notify", NAME, "A channel under the fleet's `notify:`."),
        *_CHANNEL,
        Key("name", TEXT, "Its name in the log."),
        Key("continue_on_error", Flag(), "Whether the next hook runs if this one fails.", "true"),
        Key("on_events", ListOf(Choice(EVENTS)), "The endings it is for.", "all"),
        Key("when", EXPRESSION, "Only if this holds."),
    ),
)
CHANNEL = HookTable("A notify channel", _CHANNEL)

AFTER_RUN = Key("after_run", ListOf(HOOK), "Hooks after every run.")
ON_ERROR = Key("on_error", ListOf(HOOK), "Hooks after a failed run.")
HOOKS = Key("hooks", Table("A hooks block", (AFTER_RUN, ON_ERROR)), "What happens after a run.")
