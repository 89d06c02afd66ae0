"""The tree of a configuration. Every value keeps its file, line and key path, through merging and overriding."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from herdbeat.domain.references import ExpandedText
from herdbeat.errors import SourceLocation

Scalar = str | int | float | bool | None
PlainData = Scalar | list["PlainData"] | dict[str, "PlainData"]
"""The same data without locations: what JSON can hold."""

PUBLIC_KEYS = frozenset(
    {
        *("name", "description", "type", "interval", "every", "cron", "expression", "at", "run_at", "timezone"),
        *("model", "runtime", "method", "working_directory", "working_dir", "root", "path", "repo", "owner", "agent"),
        *("tags", "group", "runs_on", "agentd", "allow", "host", "port", "call"),
    }
)
"""Keys whose values every screen shows, also if `${…}` put them in: names, times, folders and hosts."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A scalar, a list or a mapping of further nodes, and its location.

    - `key` is the location of the key, for a value in a mapping: an error about the key itself points there.
    - `raw` is a scalar as the file has it, `style` its quote or block mark.
    - `variable_names` are those that `${…}` put in, `secret_parts` the values that came from the environment, and
      `written` is the text with its `${…}`.
    - `undefined_variable` is one that is not set, or `${NAME` if its brace is not closed. It is an error only if
      something reads the value.
    """

    value: "Scalar | list[ConfigNode] | dict[str, ConfigNode]"
    location: SourceLocation
    key: SourceLocation | None = None
    raw: str = ""
    style: str = ""
    variable_names: str = ""
    undefined_variable: str = ""
    secret_parts: tuple[str, ...] = ()
    written: str = ""

    @property
    def report_location(self) -> SourceLocation:
        """The location of the key, or of the value if it has none."""
        return self.key or self.location

    def to_data(self) -> PlainData:
        """Return the data without locations."""
        if isinstance(self.value, dict):
            return {name: node.to_data() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.to_data() for node in self.value]
        return self.value

    def find(self, path: "tuple[str | int, ...]") -> "ConfigNode":
        """Return the node at the path, or the deepest one on the way there: an error can always point somewhere."""
        node = self
        for step in path:
            child = node.child(step)
            if child is None:
                return node
            node = child
        return node

    def child(self, step: str | int) -> "ConfigNode | None":
        value = self.value
        if isinstance(value, dict):
            return value.get(step if type(step) is str else str(step))
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            return value[step]
        return None

    def items(self) -> "Iterator[tuple[str, ConfigNode]]":
        """Yield the entries of a mapping; nothing for anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def elements(self) -> "Iterator[ConfigNode]":
        """Yield the elements of a list; nothing for anything else."""
        if isinstance(self.value, list):
            yield from self.value

    def walk(self) -> "Iterator[tuple[tuple[str | int, ...], ConfigNode]]":
        """Yield this node and every one below it with its path, in file order."""
        yield (), self
        children: Iterable[tuple[str | int, ConfigNode]] = (*self.items(), *enumerate(self.elements()))
        for step, node in children:
            for path, deeper in node.walk():
                yield (step, *path), deeper


def get_list_data(node: ConfigNode, name: str) -> list[PlainData]:
    """Return the elements of a list below the node as plain data; empty if there is no such list."""
    child = node.child(name)
    return [item.to_data() for item in child.elements()] if child is not None else []


def get_mapping_data(node: ConfigNode, name: str) -> dict[str, PlainData]:
    """Return the entries of a mapping below the node as plain data; empty if there is no such mapping."""
    child = node.child(name)
    return {key: value.to_data() for key, value in child.items()} if child is not None else {}


def mark_references(node: ConfigNode) -> ConfigNode:
    """Return the tree whose texts also know how they are written, for what is stored with its references."""
    if isinstance(node.value, dict | list):
        if not any(child.written for _, child in node.walk()):
            return node  # as nearly all are: to copy a hundred thousand of them takes seconds
        if isinstance(node.value, list):
            return replace(node, value=[mark_references(child) for child in node.value])
        return replace(node, value={name: mark_references(child) for name, child in node.value.items()})
    if not node.written or not isinstance(node.value, str):
        return node
    return replace(node, value=ExpandedText(node.value, node.written))


def merge_nodes(base: ConfigNode | None, override: ConfigNode | None) -> ConfigNode:
    """Return the base with the override on top. Mappings are merged key by key, all else is replaced."""
    if base is None or override is None:
        tree = override or base
        assert tree is not None, "merging needs at least one tree"
        return tree
    if not isinstance(base.value, dict) or not isinstance(override.value, dict):
        return override
    merged = dict(base.value)
    for name, node in override.value.items():
        merged[name] = merge_nodes(merged.get(name), node)
    return replace(override, value=merged)


def select_keys(node: ConfigNode | None, names: Collection[str]) -> ConfigNode | None:
    """Return the mapping with these keys alone; None for anything else."""
    if node is None or not isinstance(node.value, dict):
        return None
    return replace(node, value={name: child for name, child in node.value.items() if name in names})


def drop_keys(node: ConfigNode, *names: str) -> ConfigNode:
    """Return the mapping without these keys."""
    if not isinstance(node.value, dict):
        return node
    return replace(node, value={name: child for name, child in node.value.items() if name not in names})


def rename_key(node: ConfigNode, old: str, new: str) -> ConfigNode:
    """Return the mapping with a key under another name, in the same position. An existing key of that name stays."""
    if not isinstance(node.value, dict) or old not in node.value:
        return node
    if new in node.value:
        return drop_keys(node, old)
    return replace(node, value={(new if name == old else name): child for name, child in node.value.items()})
