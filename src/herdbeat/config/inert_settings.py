"""Settings that are valid and have no effect. `validate` warns of them, `doctor` reports a problem.

Some keys are checked, stored and shown, and do not act yet. When a key begins to act, delete its line here. A budget
in dollars or tokens has no effect on an agent whose use of them nobody will know.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.domain.agent_run import find_price
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Budget
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation


def _is_set(node: ConfigNode) -> bool:
    return bool(node.value)


@dataclass(frozen=True, slots=True)
class InertKey:
    """A key by its path, what happens instead, and for which values that is so."""

    path: str
    effect: str
    applies: Callable[[ConfigNode], bool] = _is_set


BUDGET_KEYS = (
    InertKey("budget.usd_per_day", "only agents report their cost, and the limit is never reached"),
    InertKey("budget.tokens_per_day", "only agents report their tokens, and the limit is never reached"),
)
"""For targets that are no agents."""
TARGET_KEYS: tuple[InertKey, ...] = ()
SCHEDULE_KEYS: tuple[InertKey, ...] = ()


@dataclass(slots=True)
class InertKeys:
    """The keys of one load that do not act yet, with their places."""

    places: dict[tuple[str, str], dict[SourceLocation, None]] = field(default_factory=dict)

    def add(self, node: ConfigNode, keys: Iterable[InertKey]) -> None:
        for key in keys:
            child = _find(node, key.path)
            if child is not None and key.applies(child):
                name = key.path.rpartition(".")[2]
                shown = f"{name}: {child.value}" if name == "type" else name
                self._add_place(shown, key.effect, child.report_location)

    def report(self, diagnostics: Diagnostics) -> None:
        """Warn of each key once, at its first place."""
        for (name, effect), places in self.places.items():
            first, *others = places
            more = f" (also used in {len(others)} more place{'' if len(others) == 1 else 's'})" if others else ""
            message = f'"{name}" does not work yet: {effect}{more}.'
            diagnostics.warning(Code.NOT_YET, message, first)

    def _add_place(self, name: str, effect: str, where: SourceLocation) -> None:
        self.places.setdefault((name, effect), {})[where] = None


def _find(node: ConfigNode, path: str) -> ConfigNode | None:
    child: ConfigNode | None = node
    for step in path.split("."):
        child = child.child(step) if child is not None else None
    return child


def warn_unknown_costs(fleet: Fleet, locations: Mapping[str, SourceLocation], diagnostics: Diagnostics) -> None:
    """Warn once per agent with a budget in dollars or tokens of which nobody will know how much is used."""
    # Most fleets have no such agent, and `validate` then needs nothing of the agents.
    for target in fleet.targets:
        if target.name in locations and (budgets := _limited_budgets(fleet, target)):
            problem = _describe_unknown_cost(fleet, target, budgets)
            if problem is not None:
                message, hint = problem
                diagnostics.warning(Code.UNKNOWN_COST, message, locations[target.name], hint)


def _limited_budgets(fleet: Fleet, target: Target) -> list[Budget]:
    """Return the budgets that count dollars or tokens of this agent."""
    own = [schedule.policies.budget for schedule in fleet.schedules if schedule.target == target.name]
    budgets = (each for each in (fleet.budget, target.budget, *own) if each is not None)
    return [each for each in budgets if each.usd_per_day is not None or each.tokens_per_day is not None]


def _describe_unknown_cost(fleet: Fleet, target: Target, budgets: list[Budget]) -> tuple[str, str] | None:
    """Return message and hint; None if the cost is known, or nothing is known of the CLI."""
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such budgets
    from herdbeat.runners.agents.price_package import is_installed  # noqa: PLC0415 - as above

    spec = target.spec
    assert isinstance(spec, AgentSpec)
    preset = find_preset(spec.runtime, {})
    if spec.preset or preset is None or preset.reports_usd:
        return None  # a definition of the user, or a program of which nothing is known, is not judged
    if not preset.reports_tokens:
        message = (
            f'Budgets in dollars and tokens have no effect on the agent "{target.name}": {preset.name} reports none.'
        )
        return message, "Set budget: { runs_per_day: ... }."
    # A budget that has tokens too is kept in tokens.
    if all(each.tokens_per_day is not None for each in budgets):
        return None
    # The package knows nearly every model, and what it does not know is shown by herdbeat cost.
    if is_installed() or find_price(fleet.prices, spec.model or "") is not None:
        return None
    subject = f'the model "{spec.model}"' if spec.model else "its model"
    message = f'The budget in dollars of the agent "{target.name}" has no effect: the price of {subject} is unknown.'
    return message, "Set budget: { tokens_per_day: ... }, add the model under prices:, or install genai-prices."
