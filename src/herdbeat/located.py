"""A config value that remembers its file, line and key path, through merging and overriding."""

from collections.abc import Iterator
from dataclasses import dataclass

from herdbeat.errors import Place

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]
"""What is left when the places are taken away: JSON-like data."""


@dataclass(frozen=True, slots=True)
class Located:
    """One node of a configuration: a scalar, a list or a mapping of further nodes, and where it stands.

    `key` is the place of the key that names it, if it is a value in a mapping: a complaint about the
    key itself ("unknown key") points there. `written` is a scalar as it stands in the file, and `style`
    its quote or block mark. `expanded` names the variables that `${…}` put in, whose values may be secret;
    `undefined` names the variable that could not be put in, so that only who reads the value complains.
    """

    value: "Scalar | list[Located] | dict[str, Located]"
    place: Place
    key: Place | None = None
    written: str = ""
    style: str = ""
    expanded: str = ""
    undefined: str = ""

    @property
    def label(self) -> Place:
        """The place of the key, or of the value where there is none."""
        return self.key or self.place

    def plain(self) -> Plain:
        """The bare data, without places."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def find(self, path: "tuple[str | int, ...]") -> "Located":
        """The node at the path, or the deepest one on the way there: a place to point at always exists."""
        node = self
        for step in path:
            child = node.child(step)
            if child is None:
                return node
            node = child
        return node

    def child(self, step: str | int) -> "Located | None":
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, list) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    def items(self) -> "Iterator[tuple[str, Located]]":
        """The entries of a mapping; nothing for anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def elements(self) -> "Iterator[Located]":
        """The elements of a list; nothing for anything else."""
        if isinstance(self.value, list):
            yield from self.value

    def walk(self) -> "Iterator[tuple[tuple[str | int, ...], Located]]":
        """Every node below and including this one, with its path, in file order."""
        yield (), self
        children: list[tuple[str | int, Located]] = []
        if isinstance(self.value, dict):
            children = list(self.value.items())
        elif isinstance(self.value, list):
            children = list(enumerate(self.value))
        for step, node in children:
            for path, deeper in node.walk():
                yield (step, *path), deeper
