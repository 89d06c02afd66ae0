"""YAML text -> Located tree, with YAML 1.2 meaning and every place kept.

Of two equal keys YAML's loaders keep the last, silently; here the second is a problem with a place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from herdbeat.codes import Code
from herdbeat.config.compose import DEEPEST, MOST_NODES, RawNode, compose
from herdbeat.config.report import Misfit, Report
from herdbeat.config.scalars import resolve
from herdbeat.errors import Place
from herdbeat.located import Located, Scalar


def read_tree(text: str, file: str, report: Report) -> Located | None:
    """The document as a tree, or None after the reason was reported."""
    try:
        return _Placer(file=file, report=report).placed(compose(text, file), _Way())
    except Misfit as error:
        report.misfit(error, Located(None, Place(file=file, line=1, column=1)))
    except yaml.YAMLError as error:
        report.error(Code.YAML_SYNTAX, _syntax(error), _error_place(error, file), _syntax_hint(error))
    return None


class _Way(NamedTuple):
    """How to get to a node, in the two forms of a Place."""

    path: str = ""
    pointer: str = ""

    def key(self, name: str) -> "_Way":
        return _Way(_joined(self.path, name), f"{self.pointer}/{name.replace('~', '~0').replace('/', '~1')}")

    def item(self, index: int, name: str | None) -> "_Way":
        """`agents.scout` says more than `agents[3]`, but only to people."""
        return _Way(_joined(self.path, name) if name else f"{self.path}[{index}]", f"{self.pointer}/{index}")


@dataclass(slots=True)
class _Placer:
    """Raw nodes -> Located tree: aliases copied to where they stand, keys made text, merge keys followed."""

    file: str
    report: Report

    def placed(self, raw: RawNode, way: _Way, key: Place | None = None) -> Located:
        place = self._place(raw, way)
        if not way.pointer:
            self._bound(raw, place)
        if raw.is_map:
            return Located(self._mapping(raw, way), place, key)
        if isinstance(raw.content, list):
            return Located([self.placed(item, there) for item, there in _steps(raw, way)], place, key)
        value = self._scalar(raw)
        return Located(value, place, key, written=raw.content, style=raw.style)

    def _bound(self, root: RawNode, place: Place) -> None:
        # Sizes were added up while composing, so a bomb is seen before a single copy is made.
        if root.size > MOST_NODES:
            hint = "Write the repeated part out, or split the file."
            message = f"Its aliases repeat values until there are more than {MOST_NODES:,}."
            raise Misfit(Code.YAML_LIMIT, message, hint=hint, where=place)
        if root.depth > DEEPEST:
            message = f"Its aliases nest deeper than {DEEPEST} levels."
            raise Misfit(Code.YAML_LIMIT, message, hint="Flatten what is nested.", where=place)

    def _scalar(self, raw: RawNode) -> Scalar:
        assert isinstance(raw.content, str)
        return raw.content if raw.style or raw.is_text else resolve(raw.content)

    def _mapping(self, raw: RawNode, way: _Way) -> dict[str, Located]:
        found: dict[str, Located] = {}
        merged: dict[str, Located] = {}
        for key, value in _pairs(raw):
            if key.content == "<<" and not key.style:
                self._merge(value, way, merged)
                continue
            name = self._key_name(key, way)
            if name is None:
                continue
            there = way.key(name)
            place = self._place(key, there)
            if name in found:
                self._refuse_twice(name, place, found[name])
                continue
            found[name] = self.placed(value, there, place)
        return merged | found if merged else found

    def _merge(self, raw: RawNode, way: _Way, merged: dict[str, Located]) -> None:
        is_list = isinstance(raw.content, list) and not raw.is_map
        for source in _list(raw) if is_list else [raw]:
            if not source.is_map:
                raise Misfit(
                    Code.YAML_SYNTAX,
                    'The merge key "<<" needs a mapping.',
                    hint="Point it at an anchored mapping: <<: *name.",
                    where=self._place(source, way),
                )
            for name, node in self._mapping(source, way).items():
                merged.setdefault(name, node)

    def _key_name(self, key: RawNode, way: _Way) -> str | None:
        name = key.content if isinstance(key.content, list) else self._scalar(key)
        if isinstance(name, str):
            return name
        shown = f'"{key.content}"' if isinstance(key.content, str) and key.content else "This key"
        self.report.error(
            Code.WRONG_TYPE,
            f"{shown} is not a text, so it cannot be a key.",
            self._place(key, way),
            "Put the key in quotes if it is meant as text.",
        )
        return None

    def _refuse_twice(self, name: str, place: Place, first: Located) -> None:
        self.report.error(
            Code.DUPLICATE_KEY,
            f'The key "{name}" is written twice; the first is on line {first.label.line}.',
            place,
            "Remove one of the two.",
        )

    def _place(self, raw: RawNode, way: _Way) -> Place:
        path, pointer = way
        return Place(file=self.file, line=raw.line, column=raw.column, width=raw.width, path=path, pointer=pointer)


def _pairs(raw: RawNode) -> list[tuple[RawNode, RawNode]]:
    assert isinstance(raw.content, list)
    return [pair for pair in raw.content if isinstance(pair, tuple)]


def _list(raw: RawNode) -> list[RawNode]:
    assert isinstance(raw.content, list)
    return [item for item in raw.content if isinstance(item, RawNode)]


def _steps(raw: RawNode, way: _Way) -> Iterator[tuple[RawNode, _Way]]:
    """Each item of a list, and the way to it."""
    for index, item in enumerate(_list(raw)):
        yield item, way.item(index, _own_name(item))


def _own_name(raw: RawNode) -> str | None:
    if not raw.is_map:
        return None
    names = (value.content for key, value in _pairs(raw) if key.content == "name")
    name = next(names, None)
    return name if isinstance(name, str) and len(name) <= 60 and "\n" not in name else None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _syntax(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text is not YAML"
    context = getattr(error, "context", None)
    return f"YAML cannot be read: {problem}{f' ({context})' if context else ''}."


def _syntax_hint(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", ""))
    if "cannot start any token" in problem or "tab character" in problem:
        return "Indent with spaces, not tabs; put text that starts with a special character in quotes."
    return "Look at this line and the one above it: a colon, a quote or an indentation is the usual cause."


def _error_place(error: yaml.YAMLError, file: str) -> Place:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Place(file=file, line=1, column=1)
    return Place(file=file, line=mark.line + 1, column=mark.column + 1)
