"""The keys of one rule under `adapt:`."""

from contextlib import suppress

from herdbeat.config.diagnostics import Diagnostics, key_name
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import DURATION, NAME, PACE, RULE_EXPRESSION, TEXT
from herdbeat.config.schema.table import AnyOf, Field, Table
from herdbeat.config.schema.types import Boolean, Integer
from herdbeat.domain.hint import MAX_HINT_TTL
from herdbeat.durations import format_duration, parse_duration
from herdbeat.error_codes import Code
from herdbeat.errors import ExpressionError, SchedulerError
from herdbeat.rules.expression import parse_expression
from herdbeat.rules.rule import find_placeholders

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
            hint = "Add the condition of the rule."
            diagnostics.error(Code.MISSING_KEY, 'A rule needs "when".', node.location, hint)
        self._check_single_action(node, diagnostics)
        self._check_values(node, diagnostics)

    def _check_values(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        clear = node.child("clear")
        if clear is not None and clear.value is False:
            hint = "Write clear: true, or remove the rule."
            diagnostics.error(Code.INVALID_VALUE, "clear can only be true.", clear.location, hint)
        for name in ("every", "run_in", "for"):
            child = node.child(name)
            if child is not None and isinstance(child.value, str) and _is_too_long(child.value):
                message = f'"{child.value}" is longer than a hint can last: {format_duration(MAX_HINT_TTL)}.'
                diagnostics.error(Code.INVALID_VALUE, message, child.location, "Write a shorter duration.")
        reason = node.child("reason")
        if reason is not None and isinstance(reason.value, str):
            self._warn_unread_values(node, reason, diagnostics)

    def _warn_unread_values(self, node: ConfigNode, reason: ConfigNode, diagnostics: Diagnostics) -> None:
        """A reason shows what the conditions have read, and nothing else."""
        conditions = [node.find((name,)).value for name in ("when", "until")]
        with suppress(ExpressionError):  # reported with its own key
            read = {path for text in conditions if isinstance(text, str) for path in parse_expression(text).paths}
            for name in find_placeholders(str(reason.value)):
                if name not in read:
                    message = f"{{{{ {name} }}}} stays as it is written: when and until do not read it."
                    known = ", ".join(sorted(read)) or "nothing"
                    hint = f"The conditions of this rule read {known}."
                    diagnostics.warning(Code.INVALID_VALUE, message, reason.location, hint)

    def _report_keys_beside_use(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        for name, child in node.items():
            if name != "use":
                message = f'"{name}" cannot be used together with "use".'
                diagnostics.error(Code.CONFLICTING_KEYS, message, child.report_location, "Remove one of them.")

    def _check_single_action(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        actions = [child for name, child in node.items() if name in RULE_ACTIONS]
        choices = ", ".join(RULE_ACTIONS)
        if not actions:
            diagnostics.error(Code.MISSING_KEY, "The rule has no action.", node.location, f"Add one of {choices}.")
        for extra in actions[1:]:
            message = f'A rule has only one action, and "{key_name(actions[0])}" is already set.'
            diagnostics.error(Code.CONFLICTING_KEYS, message, extra.report_location, f"Keep one of {choices}.")


def _is_too_long(text: str) -> bool:
    with suppress(SchedulerError):  # a factor, or reported with its own key
        return parse_duration(text) > MAX_HINT_TTL
    return False


RULE = RuleTable(
    "A rule",
    Field("name", NAME, "Name of the rule in `explain`, ids and metrics."),
    Field("use", NAME, "Name of a rule set under `rules:` to include."),
    Field("when", RULE_EXPRESSION, "Condition that is evaluated after each run."),
    Field("until", RULE_EXPRESSION, "Keep the hint until this condition is true; prevents flapping."),
    Field("for_runs", Integer(1, 20), "Number of consecutive runs for which the condition must be true.", "1"),
    Field("cooldown", DURATION, "Minimum time before the rule acts again.", unset="none"),
    Field("every", PACE, "Action: run at this interval, or at a multiple of the one in force: 2x."),
    Field("run_in", DURATION, "Action: run once, after this time."),
    Field("pause", DURATION, "Action: pause for this time."),
    Field("clear", AnyOf(scalar=Boolean()), "Action: remove the rule's hints."),
    Field("trigger", TEXT, "Action: run another schedule of the group."),
    Field("for", DURATION, "How long the hint lasts.", "15m"),
    Field("reason", TEXT, "Reason for readers; can contain {{ }} variables."),
)
