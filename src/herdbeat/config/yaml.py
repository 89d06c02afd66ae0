"""YAML text to a tree of ConfigNodes, with the meaning of YAML 1.2 and the location of every value.

PyYAML's parser gives the events. Composing is done here, because PyYAML's composer recurses without a bound, builds
what tags tell it to, and keeps the last of two equal keys silently; here the second one is a problem with a location.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.nodes import ConfigNode, Scalar
from herdbeat.config.schema.types import resolve_scalar
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation

MAX_DEPTH = 50
MAX_NODES = 250_000
"""Values in one file, those that aliases repeat counted each time: ten lines of aliases can mean a billion."""

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What the parser counts as the end of a line, so that its line numbers find their lines here.
_LINE_BREAK_PATTERN = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_EXPRESSION_LINE_PATTERN = re.compile(
    r"\s*(?:- )?(?P<key>when|until|ok):\s+"
    r"(?P<expression>[^'\s|>].*?|[|>]\s*[^\s|>#+-].*?|'(?:[^']|'')*'\s*[^\s#].*?)\s*"
)
_TEXT_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNode:
    """A node as composed: not yet copied to where an alias repeats it, so its location has no path.

    `children` are the items of a list, or the keys and values of a mapping by turns.
    """

    location: SourceLocation
    text: str = ""
    style: str = ""
    is_text: bool = False
    is_list: bool = False
    is_map: bool = False
    children: Sequence["RawNode"] = ()
    size: int = 1
    depth: int = 1

    def pairs(self) -> "Iterator[tuple[RawNode, RawNode]]":
        return zip(self.children[::2], self.children[1::2], strict=True)

    def resolve(self) -> Scalar:
        """Return the value of a scalar. A quoted or tagged one is text, whatever it looks like."""
        return self.text if self.style or self.is_text else resolve_scalar(self.text)


def compose_document(text: str, file: str) -> RawNode:
    """Return the one document of a text. Raises ValidationError, or YAMLError where the grammar is broken."""
    return _Composer(file=file, lines=_LINE_BREAK_PATTERN.split(text)).compose_root(text)


@dataclass(slots=True)
class _Composer:
    """Makes raw nodes of parser events. A node that aliases repeat is shared."""

    file: str
    lines: list[str]
    anchors: dict[str, RawNode] = field(default_factory=dict)
    count: int = 0

    def compose_root(self, text: str) -> RawNode:
        events = yaml.parse(text, Loader=_PARSER)
        next(events)  # the start of the stream
        opening = next(events)
        if isinstance(opening, yaml.StreamEndEvent):
            hint = "Add at least one target."
            raise ValidationError(Code.MISSING_KEY, "The file is empty.", hint, self._locate(opening))
        root = self._compose_node(next(events), events, 1)
        next(events)  # the end of the document
        if isinstance(more := next(events), yaml.DocumentStartEvent):
            message = "The file contains more than one YAML document."
            hint = 'Remove the "---", or put the second document into a separate file.'
            raise ValidationError(Code.YAML_SYNTAX, message, hint, self._locate(more))
        _check_expanded_size(root)
        return root

    def _compose_node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> RawNode:
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            too_many = f"The file contains more than {MAX_NODES:,} values."
            message = too_many if self.count > MAX_NODES else f"The file is nested deeper than {MAX_DEPTH} levels."
            hint = "Split the file or reduce the nesting."
            raise ValidationError(Code.YAML_LIMIT, message, hint, self._locate(event))
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event)
        self._reject_tag(event)
        node = self._compose_event(event, events, depth)
        if anchor := getattr(event, "anchor", None):
            self.anchors[anchor] = node
        return node

    def _compose_event(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> RawNode:
        location = self._locate(event)
        if isinstance(event, yaml.ScalarEvent):
            is_text = event.tag == _TEXT_TAG
            return RawNode(location=location, text=event.value, style=event.style or "", is_text=is_text)
        is_map = isinstance(event, yaml.MappingStartEvent)
        children = list(self._compose_items(events, depth))
        size = 1 + sum(node.size for node in children)
        depth = 1 + max((node.depth for node in children), default=0)
        return RawNode(location=location, is_list=not is_map, is_map=is_map, children=children, size=size, depth=depth)

    def _compose_items(self, events: Iterator[yaml.Event], depth: int) -> Iterator[RawNode]:
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield self._compose_node(event, events, depth + 1)

    def _resolve_alias(self, event: yaml.AliasEvent) -> RawNode:
        node = self.anchors.get(event.anchor or "")
        if node is None:
            message = f'The alias "*{event.anchor}" has no anchor, or is inside its own anchor.'
            hint = f'Set the anchor "&{event.anchor}" on an earlier value.'
            raise ValidationError(Code.YAML_SYNTAX, message, hint, self._locate(event))
        return node

    def _reject_tag(self, event: yaml.Event) -> None:
        tag = getattr(event, "tag", None)
        if tag in (None, "!", _TEXT_TAG):
            return
        short_tag = tag.replace("tag:yaml.org,2002:", "!!")
        message = f'The tag "{short_tag}" is not allowed.'
        hint = "Remove it: configuration files contain plain data only."
        raise ValidationError(Code.YAML_SYNTAX, message, hint, self._locate(event))

    def _locate(self, event: yaml.Event) -> SourceLocation:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        is_block = getattr(event, "style", None) in ("|", ">")
        if isinstance(event, yaml.CollectionStartEvent) or is_block:
            width = 1
        elif end.line == start.line:
            width = max(1, end.column - start.column)
        else:
            width = max(1, len(self.lines[start.line].rstrip()) - start.column)
        return SourceLocation(file=self.file, line=start.line + 1, column=start.column + 1, width=width)


def _check_expanded_size(root: RawNode) -> None:
    # Sizes were added up while composing, so an alias bomb is seen before a single copy is made.
    if root.size > MAX_NODES:
        hint = "Write the repeated values in full, or split the file."
        message = f"Expanded aliases produce more than {MAX_NODES:,} values."
        raise ValidationError(Code.YAML_LIMIT, message, hint, root.location)
    if root.depth > MAX_DEPTH:
        message = f"Expanded aliases nest deeper than {MAX_DEPTH} levels."
        raise ValidationError(Code.YAML_LIMIT, message, "Reduce the nesting.", root.location)


def parse_yaml(text: str, file: str, diagnostics: Diagnostics, *, may_be_empty: bool = False) -> ConfigNode | None:
    """Return the document as a tree, or None after the reason was reported.

    A file that `may_be_empty` is an empty mapping then.
    """
    if may_be_empty and all(line.lstrip().startswith("#") for line in text.splitlines() if line.strip(" -")):
        return ConfigNode({}, SourceLocation(file=file, line=1, column=1))
    try:
        return _TreeBuilder(file=file, diagnostics=diagnostics).build(compose_document(text, file), _NodePath())
    except ValidationError as error:
        error.hint = _quoting_hint(text, error.where) or error.hint
        diagnostics.add(error, ConfigNode(None, SourceLocation(file=file, line=1, column=1)))
    except yaml.YAMLError as error:
        where = _error_location(error, file)
        hint = _quoting_hint(text, where) or _syntax_hint(error)
        diagnostics.error(Code.YAML_SYNTAX, _syntax_message(error), where, hint)
    return None


class _NodePath(NamedTuple):
    """The way to a node, in the two forms that a SourceLocation has."""

    path: str = ""
    pointer: str = ""

    def key(self, name: str) -> "_NodePath":
        return _NodePath(_join_path(self.path, name), f"{self.pointer}/{name.replace('~', '~0').replace('/', '~1')}")

    def item(self, index: int, name: str | None) -> "_NodePath":
        """Return the way to a list item. `agents.scout` says more than `agents[3]`, but only to people."""
        return _NodePath(_join_path(self.path, name) if name else f"{self.path}[{index}]", f"{self.pointer}/{index}")


@dataclass(slots=True)
class _TreeBuilder:
    """Makes the tree of raw nodes: aliases copied to where they stand, keys made text, merge keys followed."""

    file: str
    diagnostics: Diagnostics

    def build(self, raw: RawNode, node_path: _NodePath, key: SourceLocation | None = None) -> ConfigNode:
        """Return the node with everything below it, and report what is wrong in it."""
        location = self._locate(raw, node_path)
        if raw.is_map:
            return ConfigNode(self._build_mapping(raw, node_path), location, key)
        if raw.is_list:
            paths = (node_path.item(index, _item_name(item)) for index, item in enumerate(raw.children))
            return ConfigNode(list(map(self.build, raw.children, paths)), location, key)
        return ConfigNode(raw.resolve(), location, key, raw=raw.text, style=raw.style)

    def _build_mapping(self, raw: RawNode, node_path: _NodePath) -> dict[str, ConfigNode]:
        entries: dict[str, ConfigNode] = {}
        merged: dict[str, ConfigNode] = {}
        for key, value in raw.pairs():
            if key.text == "<<" and not key.style:
                self._merge_anchors(value, node_path, merged)
                continue
            name = self._key_name(key, node_path)
            if name is None:
                continue
            child_path = node_path.key(name)
            location = self._locate(key, child_path)
            if name in entries:
                self._report_duplicate(name, location, entries[name])
                continue
            entries[name] = self.build(value, child_path, location)
        return merged | entries if merged else entries

    def _merge_anchors(self, raw: RawNode, node_path: _NodePath, merged: dict[str, ConfigNode]) -> None:
        for source in raw.children if raw.is_list else [raw]:
            if not source.is_map:
                message = 'The merge key "<<" needs a mapping.'
                hint = "Refer to an anchored mapping: <<: *name."
                raise ValidationError(Code.YAML_SYNTAX, message, hint, self._locate(source, node_path))
            for name, node in self._build_mapping(source, node_path).items():
                merged.setdefault(name, node)

    def _key_name(self, key: RawNode, node_path: _NodePath) -> str | None:
        name = None if key.is_list or key.is_map else key.resolve()
        if isinstance(name, str):
            return name
        quoted_key = f'"{key.text}"' if key.text else "This key"
        message = f"{quoted_key} is not a string and cannot be a key."
        hint = "Put the key in quotes."
        self.diagnostics.error(Code.WRONG_TYPE, message, self._locate(key, node_path), hint)
        return None

    def _report_duplicate(self, name: str, location: SourceLocation, first: ConfigNode) -> None:
        message = f'The key "{name}" is duplicated; the first one is on line {first.report_location.line}.'
        self.diagnostics.error(Code.DUPLICATE_KEY, message, location, "Remove one of them.")

    def _locate(self, raw: RawNode, node_path: _NodePath) -> SourceLocation:
        # Not `replace`, which takes twice as long: this is done for every value of every file.
        start, (path, pointer) = raw.location, node_path
        return SourceLocation(
            file=self.file, line=start.line, column=start.column, width=start.width, path=path, pointer=pointer
        )


def _item_name(raw: RawNode) -> str | None:
    names = (value.text for key, value in raw.pairs() if key.text == "name") if raw.is_map else iter(())
    name = next(names, "")
    return name if len(name) <= 60 and "\n" not in name else None


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _syntax_message(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text is not YAML"
    context = getattr(error, "context", None)
    return f"Invalid YAML: {problem}{f' ({context})' if context else ''}."


def _syntax_hint(error: yaml.YAMLError) -> str:
    problem = str(getattr(error, "problem", ""))
    if "cannot start any token" in problem or "tab character" in problem:
        return "Indent with spaces, not tabs; quote strings that start with a special character."
    return "Check this line and the one above it for a missing colon or quote, or wrong indentation."


def _quoting_hint(text: str, where: SourceLocation | None) -> str:
    """Return how to write the expression of a line that YAML reads as something else: a tag, a list, a quoted text."""
    lines = _LINE_BREAK_PATTERN.split(text)
    line = lines[where.line - 1] if where is not None and where.line <= len(lines) else ""
    match = _EXPRESSION_LINE_PATTERN.fullmatch(line)
    if match is None:
        return ""
    expression = _strip_comment(match["expression"])
    quoted = expression.replace("'", "''")
    if expression[0] in "|>":  # alone it would be no expression, in quotes or not
        return f"Put it into single quotes, with what it compares: {match['key']}: 'response.value {quoted}'"
    return f"Put the expression into single quotes: {match['key']}: '{quoted}'"


def _strip_comment(text: str) -> str:
    """Return the text without a comment of YAML. A `#` between quotes is part of the expression."""
    for found in re.finditer(r"\s+#", text):
        before = text[: found.start()]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            return before
    return text


def _error_location(error: yaml.YAMLError, file: str) -> SourceLocation:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return SourceLocation(file=file, line=1, column=1)
    return SourceLocation(file=file, line=mark.line + 1, column=mark.column + 1)
