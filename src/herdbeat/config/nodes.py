"""A config value that remembers its file, line and key path, through merging and overriding."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from herdbeat.errors import SourceLocation

Scalar = str | int | float | bool | None
PlainData = Scalar | list["PlainData"] | dict[str, "PlainData"]
"""What is left when the places are taken away: JSON-like data."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """One node of a configuration: a scalar, a list or a mapping of further nodes, and where it stands.

    `key` is the place of the key that names it, if it is a value in a mapping: a complaint about the
    key itself ("unknown key") points there. `written` is a scalar as it stands in the file, and `style`
    its quote or block mark. `expanded` names the variables that `${…}` put in, whose values may be secret;
    `undefined` names the variable that could not be put in, so that only who reads the value complains.
    """

    value: "Scalar | list[ConfigNode] | dict[str, ConfigNode]"
    location: SourceLocation
    key: SourceLocation | None = None
    raw: str = ""
    style: str = ""
    variable_names: str = ""
    undefined_variable: str = ""

    @property
    def report_location(self) -> SourceLocation:
        """The place of the key, or of the value where there is none."""
        return self.key or self.location

    def to_data(self) -> PlainData:
        """The bare data, without places."""
        if isinstance(self.value, dict):
            return {name: node.to_data() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.to_data() for node in self.value]
        return self.value

    def find(self, path: "tuple[str | int, ...]") -> "ConfigNode":
        """The node at the path, or the deepest one on the way there: a place to point at always exists."""
        node = self
        for step in path:
            child = node.child(step)
            if child is None:
                return node
            node = child
        return node

    def child(self, step: str | int) -> "ConfigNode | None":
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, list) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    def items(self) -> "Iterator[tuple[str, ConfigNode]]":
        """The entries of a mapping; nothing for anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def elements(self) -> "Iterator[ConfigNode]":
        """The elements of a list; nothing for anything else."""
        if isinstance(self.value, list):
            yield from self.value

    def walk(self) -> "Iterator[tuple[tuple[str | int, ...], ConfigNode]]":
        """Every node below and including this one, with its path, in file order."""
        yield (), self
        children: list[tuple[str | int, ConfigNode]] = []
        if isinstance(self.value, dict):
            children = list(self.value.items())
        elif isinstance(self.value, list):
            children = list(enumerate(self.value))
        for step, node in children:
            for path, deeper in node.walk():
                yield (step, *path), deeper


# Laying one tree over another: defaults, overrides, sub-fleets. Every value keeps its place.


def merge_nodes(base: ConfigNode | None, override: ConfigNode | None) -> ConfigNode:
    """Mappings are merged key by key, all else is replaced by what lies above."""
    if base is None or override is None:
        found = override or base
        assert found is not None, "merging needs at least one tree"
        return found
    if not isinstance(base.value, dict) or not isinstance(override.value, dict):
        return override
    merged = dict(base.value)
    for name, node in override.value.items():
        merged[name] = merge_nodes(merged.get(name), node)
    return replace(override, value=merged)


def select_keys(node: ConfigNode | None, names: Collection[str]) -> ConfigNode | None:
    """The mapping with these keys alone."""
    if node is None or not isinstance(node.value, dict):
        return None
    return replace(node, value={name: child for name, child in node.value.items() if name in names})


def drop_keys(node: ConfigNode, *names: str) -> ConfigNode:
    """The mapping without these keys."""
    if not isinstance(node.value, dict):
        return node
    return replace(node, value={name: child for name, child in node.value.items() if name not in names})


def rename_key(node: ConfigNode, old: str, new: str) -> ConfigNode:
    """The mapping with a key under another name, in the same position. One that exists already stays."""
    if not isinstance(node.value, dict) or old not in node.value:
        return node
    if new in node.value:
        return drop_keys(node, old)
    return replace(node, value={(new if name == old else name): child for name, child in node.value.items()})
