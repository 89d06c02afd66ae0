"""The keys of one rule under `adapt:` (UX 8.1)."""

from dataclasses import dataclass

from herdbeat.codes import Code
from herdbeat.config.forms import DURATION, EXPRESSION, NAME, TEXT
from herdbeat.config.report import Report
from herdbeat.config.shapes import Flag, Whole
from herdbeat.config.tables import Either, Key, Table
from herdbeat.located import Located

ACTIONS = ("every", "run_in", "pause", "clear", "trigger")


@dataclass(frozen=True, slots=True)
class RuleTable(Table):
    """A rule is either `use: <set>`, or a `when` with exactly one action."""

    def check(self, node: Located, report: Report) -> None:
        Table.check(self, node, report)
        if not isinstance(node.value, dict):
            return
        if "use" in node.value:
            self._refuse_beside_use(node, report)
            return
        if "when" not in node.value:
            report.error(Code.MISSING_KEY, 'A rule needs "when".', node.place, "Add the expression that must hold.")
        self._count_actions(node, report)

    def _refuse_beside_use(self, node: Located, report: Report) -> None:
        for name, child in node.items():
            if name != "use":
                message = f'"{name}" cannot stand beside "use".'
                report.error(Code.CONFLICTING_KEYS, message, child.label, "Keep one of the two.")

    def _count_actions(self, node: Located, report: Report) -> None:
        found = [child for name, child in node.items() if name in ACTIONS]
        choices = ", ".join(ACTIONS)
        if not found:
            report.error(Code.MISSING_KEY, "The rule does nothing.", node.place, f"Add one of {choices}.")
        for extra in found[1:]:
            message = f'A rule has one action, and "{found[0].label.path.rpartition(".")[2]}" is already there.'
            report.error(Code.CONFLICTING_KEYS, message, extra.label, f"Keep one of {choices}.")


RULE = RuleTable(
    "A rule",
    (
        Key("name", NAME, "Shown by explain; part of ids and metrics."),
        Key("use", NAME, "A named set under `rules:` to put in here."),
        Key("when", EXPRESSION, "The expression that must hold after a run."),
        Key("until", EXPRESSION, "Keeps the hint until this holds; prevents flapping."),
        Key("for_runs", Whole(1, 20), "Runs in a row on which it must hold.", "1"),
        Key("cooldown", DURATION, "Not again within this time.", "none"),
        Key("every", DURATION, "Action: run at this pace."),
        Key("run_in", DURATION, "Action: run once, after this time."),
        Key("pause", DURATION, "Action: pause for this time."),
        Key("clear", Either(scalar=Flag()), "Action: drop the rule's hints."),
        Key("trigger", TEXT, "Action: run a sibling."),
        Key("for", DURATION, "How long the hint lasts.", "15m"),
        Key("reason", TEXT, "Why, for people; may name values in {{ }}."),
    ),
)
