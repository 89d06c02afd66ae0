"""One mapping, read key by key: each value typed, with its default, and noted for `config show`."""

from dataclasses import dataclass, field
from typing import TypeVar

from herdbeat.config.tables import Key
from herdbeat.config.values import BUILT_IN, Value, display, masked, origin_of
from herdbeat.errors import Place
from herdbeat.located import Located

T = TypeVar("T")


@dataclass(slots=True)
class Settings:
    """Takes values out of a checked mapping. `values` has each of them with its origin, in order of asking."""

    node: Located
    path: str
    values: list[Value] = field(default_factory=list)

    def take(self, key: Key[T], default: T, origin: Place | str = BUILT_IN) -> T:
        found = key.of(self.node)
        if found is None:
            return self._note(key.name, default, self._origin_of_default(key, origin))
        child = self.node.child(key.name)
        assert child is not None
        hidden = masked(child, key.name)
        is_as_written = isinstance(child.value, dict | list) or hidden != child.value
        value = hidden if is_as_written else display(found)
        self.values.append(Value(path=self._under(key.name), value=value, origin=origin_of(child)))
        return found

    def maybe(self, key: Key[T]) -> T | None:
        """A value that may be missing altogether."""
        found = key.of(self.node)
        if found is None:
            self._note(key.name, None, self._origin_of_default(key, BUILT_IN))
            return None
        return self.take(key, found)

    def inside(self, key: Key[object]) -> "Settings":
        """The settings of a block below; an empty one if it is not written."""
        child = self.node.child(key.name)
        if child is None or not isinstance(child.value, dict):
            child = Located({}, self.node.place)
        return Settings(child, self._under(key.name), self.values)

    def _origin_of_default(self, key: Key[object], origin: Place | str) -> Place | str:
        """A key written empty undoes the defaults, and that has a place."""
        child = self.node.child(key.name)
        return origin if child is None else origin_of(child)

    def _note(self, name: str, value: T, origin: Place | str) -> T:
        self.values.append(Value(path=self._under(name), value=display(value), origin=origin))
        return value

    def _under(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
