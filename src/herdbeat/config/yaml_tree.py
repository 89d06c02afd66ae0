"""YAML text -> Located tree, with YAML 1.2 meaning and every place kept.

Of two equal keys YAML's loaders keep the last, silently; here the second is a problem with a place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from herdbeat.codes import Code
from herdbeat.config.compose import MAX_DEPTH, MAX_NODES, RawNode, compose_document
from herdbeat.config.report import Diagnostics, ValidationError
from herdbeat.config.scalars import resolve_scalar
from herdbeat.errors import SourceLocation
from herdbeat.located import ConfigNode, Scalar


def parse_yaml(text: str, file: str, diagnostics: Diagnostics) -> ConfigNode | None:
    """The document as a tree, or None after the reason was reported."""
    try:
        return _TreeBuilder(file=file, diagnostics=diagnostics).build(compose_document(text, file), _NodePath())
    except ValidationError as error:
        diagnostics.add(error, ConfigNode(None, SourceLocation(file=file, line=1, column=1)))
    except yaml.YAMLError as error:
        diagnostics.error(Code.YAML_SYNTAX, _syntax_message(error), _error_location(error, file), _syntax_hint(error))
    return None


class _NodePath(NamedTuple):
    """How to get to a node, in the two forms of a Place."""

    path: str = ""
    pointer: str = ""

    def key(self, name: str) -> "_NodePath":
        return _NodePath(_join_path(self.path, name), f"{self.pointer}/{name.replace('~', '~0').replace('/', '~1')}")

    def item(self, index: int, name: str | None) -> "_NodePath":
        """`agents.scout` says more than `agents[3]`, but only to people."""
        return _NodePath(_join_path(self.path, name) if name else f"{self.path}[{index}]", f"{self.pointer}/{index}")


@dataclass(slots=True)
class _TreeBuilder:
    """Raw nodes -> Located tree: aliases copied to where they stand, keys made text, merge keys followed."""

    file: str
    diagnostics: Diagnostics

    def build(self, raw: RawNode, node_path: _NodePath, key: SourceLocation | None = None) -> ConfigNode:
        location = self._locate(raw, node_path)
        if not node_path.pointer:
            self._check_limits(raw, location)
        if raw.is_map:
            return ConfigNode(self._build_mapping(raw, node_path), location, key)
        if isinstance(raw.content, list):
            return ConfigNode(
                [self.build(item, child_path) for item, child_path in _iter_items(raw, node_path)], location, key
            )
        value = self._resolve_value(raw)
        return ConfigNode(value, location, key, raw=raw.content, style=raw.style)

    def _check_limits(self, root: RawNode, location: SourceLocation) -> None:
        # Sizes were added up while composing, so a bomb is seen before a single copy is made.
        if root.size > MAX_NODES:
            hint = "Write the repeated part out, or split the file."
            message = f"Its aliases repeat values until there are more than {MAX_NODES:,}."
            raise ValidationError(Code.YAML_LIMIT, message, hint=hint, where=location)
        if root.depth > MAX_DEPTH:
            message = f"Its aliases nest deeper than {MAX_DEPTH} levels."
            raise ValidationError(Code.YAML_LIMIT, message, hint="Flatten what is nested.", where=location)

    def _resolve_value(self, raw: RawNode) -> Scalar:
        assert isinstance(raw.content, str)
        return raw.content if raw.style or raw.is_text else resolve_scalar(raw.content)

    def _build_mapping(self, raw: RawNode, node_path: _NodePath) -> dict[str, ConfigNode]:
        found: dict[str, ConfigNode] = {}
        merged: dict[str, ConfigNode] = {}
        for key, value in _pairs(raw):
            if key.content == "<<" and not key.style:
                self._merge_anchors(value, node_path, merged)
                continue
            name = self._key_name(key, node_path)
            if name is None:
                continue
            child_path = node_path.key(name)
            location = self._locate(key, child_path)
            if name in found:
                self._report_duplicate(name, location, found[name])
                continue
            found[name] = self.build(value, child_path, location)
        return merged | found if merged else found

    def _merge_anchors(self, raw: RawNode, node_path: _NodePath, merged: dict[str, ConfigNode]) -> None:
        is_list = isinstance(raw.content, list) and not raw.is_map
        for source in _list_items(raw) if is_list else [raw]:
            if not source.is_map:
                raise ValidationError(
                    Code.YAML_SYNTAX,
                    'The merge key "<<" needs a mapping.',
                    hint="Point it at an anchored mapping: <<: *name.",
                    where=self._locate(source, node_path),
                )
            for name, node in self._build_mapping(source, node_path).items():
                merged.setdefault(name, node)

    def _key_name(self, key: RawNode, node_path: _NodePath) -> str | None:
        name = key.content if isinstance(key.content, list) else self._resolve_value(key)
        if isinstance(name, str):
            return name
        quoted_key = f'"{key.content}"' if isinstance(key.content, str) and key.content else "This key"
        self.diagnostics.error(
            Code.WRONG_TYPE,
            f"{quoted_key} is not a text, so it cannot be a key.",
            self._locate(key, node_path),
            "Put the key in quotes if it is meant as text.",
        )
        return None

    def _report_duplicate(self, name: str, location: SourceLocation, first: ConfigNode) -> None:
        self.diagnostics.error(
            Code.DUPLICATE_KEY,
            f'The key "{name}" is written twice; the first is on line {first.report_location.line}.',
            location,
            "Remove one of the two.",
        )

    def _locate(self, raw: RawNode, node_path: _NodePath) -> SourceLocation:
        path, pointer = node_path
        return SourceLocation(
            file=self.file, line=raw.line, column=raw.column, width=raw.width, path=path, pointer=pointer
        )


def _pairs(raw: RawNode) -> list[tuple[RawNode, RawNode]]:
    assert isinstance(raw.content, list)
    return [pair for pair in raw.content if isinstance(pair, tuple)]


def _list_items(raw: RawNode) -> list[RawNode]:
    assert isinstance(raw.content, list)
    return [item for item in raw.content if isinstance(item, RawNode)]


def _iter_items(raw: RawNode, node_path: _NodePath) -> Iterator[tuple[RawNode, _NodePath]]:
    """Each item of a list, and the way to it."""
    for index, item in enumerate(_list_items(raw)):
        yield item, node_path.item(index, _item_name(item))


def _item_name(raw: RawNode) -> str | None:
    if not raw.is_map:
        return None
    names = (value.content for key, value in _pairs(raw) if key.content == "name")
    name = next(names, None)
    return name if isinstance(name, str) and len(name) <= 60 and "\n" not in name else None


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _syntax_message(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text is not YAML"
    context = getattr(error, "context", None)
    return f"YAML cannot be read: {problem}{f' ({context})' if context else ''}."


def _syntax_hint(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", ""))
    if "cannot start any token" in problem or "tab character" in problem:
        return "Indent with spaces, not tabs; put text that starts with a special character in quotes."
    return "Look at this line and the one above it: a colon, a quote or an indentation is the usual cause."


def _error_location(error: yaml.YAMLError, file: str) -> SourceLocation:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return SourceLocation(file=file, line=1, column=1)
    return SourceLocation(file=file, line=mark.line + 1, column=mark.column + 1)
