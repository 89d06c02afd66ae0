"""YAML text -> raw nodes, within bounds on depth and size, aliases shared and tags refused.

PyYAML's parser gives the events; composing is done here, because its composer recurses without a bound and
builds what tags tell it to.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from herdbeat.codes import Code
from herdbeat.config.report import ValidationError
from herdbeat.errors import SourceLocation

MAX_DEPTH = 50
MAX_NODES = 250_000
"""Values in one file, those that aliases repeat counted each time: ten lines of aliases can mean a billion."""

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What the parser counts as the end of a line, so that its line numbers find their lines here.
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TEXT_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class RawNode:
    """A node as composed: not yet copied to where an alias repeats it, so without its path."""

    content: "str | list[RawNode] | list[tuple[RawNode, RawNode]]"
    line: int
    column: int
    width: int
    is_map: bool = False
    style: str = ""
    is_text: bool = False
    size: int = 1
    depth: int = 1


def compose_document(text: str, file: str) -> RawNode:
    """The one document of a text. Raises Misfit, or YAMLError where the grammar is broken."""
    return _Composer(file=file, lines=_LINE_BREAK.split(text)).compose_root(text)


@dataclass(slots=True)
class _Composer:
    """Events -> raw nodes, aliases shared."""

    file: str
    lines: list[str]
    anchors: dict[str, RawNode] = field(default_factory=dict)
    count: int = 0

    def compose_root(self, text: str) -> RawNode:
        events = yaml.parse(text, Loader=_PARSER)
        next(events)  # the start of the stream
        opening = next(events)
        if isinstance(opening, yaml.StreamEndEvent):
            raise ValidationError(
                Code.MISSING_KEY, "The file is empty.", hint="Write at least a target.", where=self._locate(opening)
            )
        root = self._compose_node(next(events), events, 1)
        next(events)  # the end of the document
        if isinstance(more := next(events), yaml.DocumentStartEvent):
            raise ValidationError(
                Code.YAML_SYNTAX,
                "The file holds more than one YAML document.",
                hint='Remove the "---", or put the second document into a file of its own.',
                where=self._locate(more),
            )
        return root

    def _compose_node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> RawNode:
        self.count += 1
        if self.count > MAX_NODES:
            raise self._limit_error(event, f"The file holds more than {MAX_NODES:,} values.")
        if depth > MAX_DEPTH:
            raise self._limit_error(event, f"The file is nested deeper than {MAX_DEPTH} levels.")
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event)
        self._reject_tag(event)
        node = self._compose_event(event, events, depth)
        if anchor := getattr(event, "anchor", None):
            self.anchors[anchor] = node
        return node

    def _compose_event(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> RawNode:
        if isinstance(event, yaml.SequenceStartEvent):
            items = list(self._compose_items(events, depth))
            return self._make_raw(event, items, items)
        if isinstance(event, yaml.MappingStartEvent):
            nodes = list(self._compose_items(events, depth))
            pairs = list(zip(nodes[::2], nodes[1::2], strict=True))
            return self._make_raw(event, pairs, nodes, is_map=True)
        assert isinstance(event, yaml.ScalarEvent)
        return self._make_raw(event, event.value, [], style=event.style or "", is_text=event.tag == _TEXT_TAG)

    def _compose_items(self, events: Iterator[yaml.Event], depth: int) -> Iterator[RawNode]:
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield self._compose_node(event, events, depth + 1)

    def _make_raw(
        self,
        event: yaml.Event,
        content: str | list[RawNode] | list[tuple[RawNode, RawNode]],
        below: list[RawNode],
        *,
        is_map: bool = False,
        style: str = "",
        is_text: bool = False,
    ) -> RawNode:
        location = self._locate(event)
        return RawNode(
            content=content,
            line=location.line,
            column=location.column,
            width=location.width,
            is_map=is_map,
            style=style,
            is_text=is_text,
            size=1 + sum(node.size for node in below),
            depth=1 + max((node.depth for node in below), default=0),
        )

    def _resolve_alias(self, event: yaml.AliasEvent) -> RawNode:
        node = self.anchors.get(event.anchor or "")
        if node is None:
            raise ValidationError(
                Code.YAML_SYNTAX,
                f'The alias "*{event.anchor}" stands for nothing, or for something it is part of.',
                hint=f'Set the anchor "&{event.anchor}" on a value further up.',
                where=self._locate(event),
            )
        return node

    def _reject_tag(self, event: yaml.Event) -> None:
        tag = getattr(event, "tag", None)
        if tag in (None, "!", _TEXT_TAG):
            return
        short_tag = tag.replace("tag:yaml.org,2002:", "!!")
        raise ValidationError(
            Code.YAML_SYNTAX,
            f'The tag "{short_tag}" is not allowed.',
            hint="Remove it: a configuration is plain data.",
            where=self._locate(event),
        )

    def _limit_error(self, event: yaml.Event, message: str) -> ValidationError:
        return ValidationError(
            Code.YAML_LIMIT, message, hint="Split the file, or flatten what is nested.", where=self._locate(event)
        )

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
