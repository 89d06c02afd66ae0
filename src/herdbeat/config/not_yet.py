"""Keys that are checked, stored and shown, and do not act yet. `validate` warns of them, `doctor` reports a problem.

When a key begins to act, delete its line here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
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
TARGET_KEYS: tuple[InertKey, ...] = (
    InertKey("executor", "its runs happen on the node", lambda node: node.value != "local"),
)
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
