"""The keys of one rule under `adapt:`."""

from herdbeat.config.diagnostics import Diagnostics, key_name
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import DURATION, EXPRESSION, NAME, TEXT
from herdbeat.config.schema.table import AnyOf, Field, Table
from herdbeat.config.schema.types import Boolean, Integer
from herdbeat.error_codes import Code

RULE_ACTIONS = ("every", "run_in", "pause", "clear", "trigger")


class RuleTable(Table):
    """A rule is either `use: <set>`, or a `when` with exactly one action."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        if not isinstance(node.value, dict):
            return
        if "use" in node.value:
            self._report_keys_beside_use(node, diagnostics)
            return
        if "when" not in node.value:
            hint = "Add the expression that must hold."
            diagnostics.error(Code.MISSING_KEY, 'A rule needs "when".', node.location, hint)
        self._check_single_action(node, diagnostics)

    def _report_keys_beside_use(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        for name, child in node.items():
            if name != "use":
                message = f'"{name}" cannot stand beside "use".'
                diagnostics.error(Code.CONFLICTING_KEYS, message, child.report_location, "Keep one of the two.")

    def _check_single_action(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        actions = [child for name, child in node.items() if name in RULE_ACTIONS]
        choices = ", ".join(RULE_ACTIONS)
        if not actions:
            diagnostics.error(Code.MISSING_KEY, "The rule does nothing.", node.location, f"Add one of {choices}.")
        for extra in actions[1:]:
            message = f'A rule has one action, and "{key_name(actions[0])}" is already there.'
            diagnostics.error(Code.CONFLICTING_KEYS, message, extra.report_location, f"Keep one of {choices}.")


RULE = RuleTable(
    "A rule",
    Field("name", NAME, "Shown by explain; part of ids and metrics."),
    Field("use", NAME, "A named set under `rules:` to put in here."),
    Field("when", EXPRESSION, "The expression that must hold after a run."),
    Field("until", EXPRESSION, "Keeps the hint until this holds; prevents flapping."),
    Field("for_runs", Integer(1, 20), "Runs in a row on which it must hold.", "1"),
    Field("cooldown", DURATION, "Not again within this time.", unset="none"),
    Field("every", DURATION, "Action: run at this pace."),
    Field("run_in", DURATION, "Action: run once, after this time."),
    Field("pause", DURATION, "Action: pause for this time."),
    Field("clear", AnyOf(scalar=Boolean()), "Action: drop the rule's hints."),
    Field("trigger", TEXT, "Action: run a sibling."),
    Field("for", DURATION, "How long the hint lasts.", "15m"),
    Field("reason", TEXT, "Why, for people; may name values in {{ }}."),
)
