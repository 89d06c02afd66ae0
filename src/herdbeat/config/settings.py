"""One mapping, read key by key: each value typed, with its default, and noted for `config show`."""

from dataclasses import dataclass, field
from typing import TypeVar

from herdbeat.config.tables import Field
from herdbeat.config.values import DEFAULT_ORIGIN, ResolvedValue, mask_secrets, resolve_origin, to_config_value
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode

T = TypeVar("T")


@dataclass(slots=True)
class SectionReader:
    """Takes values out of a checked mapping. `values` has each of them with its origin, in order of asking."""

    node: ConfigNode
    path: str
    values: list[ResolvedValue] = field(default_factory=list)

    def get(self, key: Field[T], default: T, origin: SourceLocation | str = DEFAULT_ORIGIN) -> T:
        found = key.get(self.node)
        if found is None:
            return self._record(key.name, default, self._default_origin(key, origin))
        child = self.node.child(key.name)
        assert child is not None
        masked_value = mask_secrets(child, key.name)
        keeps_written_form = isinstance(child.value, dict | list) or masked_value != child.value
        value = masked_value if keeps_written_form else to_config_value(found)
        self.values.append(ResolvedValue(path=self._child_path(key.name), value=value, origin=resolve_origin(child)))
        return found

    def get_optional(self, key: Field[T]) -> T | None:
        """A value that may be missing altogether."""
        found = key.get(self.node)
        if found is None:
            self._record(key.name, None, self._default_origin(key, DEFAULT_ORIGIN))
            return None
        return self.get(key, found)

    def section(self, key: Field[object]) -> "SectionReader":
        """The settings of a block below; an empty one if it is not written."""
        child = self.node.child(key.name)
        if child is None or not isinstance(child.value, dict):
            child = ConfigNode({}, self.node.location)
        return SectionReader(child, self._child_path(key.name), self.values)

    def _default_origin(self, key: Field[object], origin: SourceLocation | str) -> SourceLocation | str:
        """A key written empty undoes the defaults, and that has a place."""
        child = self.node.child(key.name)
        return origin if child is None else resolve_origin(child)

    def _record(self, name: str, value: T, origin: SourceLocation | str) -> T:
        self.values.append(ResolvedValue(path=self._child_path(name), value=to_config_value(value), origin=origin))
        return value

    def _child_path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
