"""Prompt templates: `{{dotted.names}}` are replaced in exactly one pass.

Inserted values are never scanned for placeholders. agentd did that, so an issue whose title contained
`{{source_id}}` could change the prompt.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from herdbeat.errors import TemplateError, truncate_for_message

ESCAPE_HINT = 'Write "\\{{" for literal braces.'

# Of three braces the inner two open a name: the outer one is text.
_OPENING_PATTERN = re.compile(r"\\\{\{|\{\{(?!\{)")
_ENDING_PATTERN = re.compile(r"\{\{|\}\}")
_DOTTED_NAME_PATTERN = re.compile(r"[\w-]+(\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{name}}` in a template. `offset` and `width` include the braces."""

    name: str
    offset: int
    written: str

    @property
    def width(self) -> int:
        return len(self.written)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text that gets lines of its own, wherever its placeholder is."""

    text: str


ValueFormatter = Callable[[Placeholder, object], str | TextBlock]
"""Converts a value (None if there is none) to text."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    text: str
    parts: tuple[str | Placeholder, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Parse a template. Raises TemplateError for the first `{{` that is not closed or contains no valid name."""
        template, errors = scan_template(text)
        if errors:
            raise errors[0]
        return template

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """Every placeholder in the order of the text, repetitions included."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    def render(self, values: Mapping[str, object], format_value: ValueFormatter | None = None) -> str:
        """Return the text with the values inserted. By default, a name without a value becomes empty text."""
        pieces: list[str | TextBlock] = []
        for part in self.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            value = resolve_name(values, part.name)
            pieces.append(format_value(part, value) if format_value else to_text(value))
        return _join_pieces(pieces)


def scan_template(text: str) -> tuple[Template, list[TemplateError]]:
    """Parse a template and collect its errors. Invalid placeholders stay in the template as text."""
    parts: list[str | Placeholder] = []
    errors: list[TemplateError] = []
    at = 0
    while opening := _OPENING_PATTERN.search(text, at):
        parts.append(text[at : opening.start()])
        part = _parse_placeholder(text, opening)
        if isinstance(part, TemplateError):
            errors.append(part)
            part = text[part.offset : part.offset + part.width]
            at = opening.start() + len(part)
        else:
            at = opening.end() if isinstance(part, str) else part.offset + part.width
        parts.append(part)
    parts.append(text[at:])
    return Template(text, tuple(part for part in parts if part)), errors


def resolve_name(values: Mapping[str, object], name: str) -> object:
    """Return the value of a dotted name; None if there is none.

    It follows mappings and lists only and never reads an attribute, so a template cannot reach Python objects.
    """
    value: object = values
    for step in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and step.isdecimal():
            value = value[int(step)] if len(step) < 10 and int(step) < len(value) else None
        else:
            return None
    return value


def to_text(value: object) -> str:
    """Return a value as text: strings unchanged, None as empty text, everything else as compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_default)


def _parse_placeholder(text: str, opening: re.Match[str]) -> str | Placeholder | TemplateError:
    """Return what begins at an opening: literal braces, a placeholder, or the error."""
    start = opening.start()
    if opening.group().startswith("\\"):
        return "{{"
    ending = _ENDING_PATTERN.search(text, opening.end())
    if ending is None or ending.group() == "{{":
        return TemplateError('A "{{" is not closed.', offset=start, hint=f'Close it with "}}}}". {ESCAPE_HINT}')
    written = text[start : ending.end()]
    name = written[2:-2].strip()
    if not name:
        return TemplateError(f'"{written}" contains no name.', offset=start, width=len(written), hint=ESCAPE_HINT)
    if not _DOTTED_NAME_PATTERN.fullmatch(name):
        hint = f"A name consists of letters, digits, _ and -, separated by dots. {ESCAPE_HINT}"
        message = f'"{truncate_for_message(written)}" is not a valid name.'
        return TemplateError(message, offset=start, width=len(written), hint=hint)
    return Placeholder(name, start, written)


def _join_pieces(pieces: Iterable[str | TextBlock]) -> str:
    """Join the pieces, with a line break before and after a block where its neighbours have none."""
    out: list[str] = []
    after_block = False
    for piece in pieces:
        text = piece.text if isinstance(piece, TextBlock) else piece
        if not text:
            continue
        is_block = isinstance(piece, TextBlock)
        starts_block = is_block and bool(out) and not out[-1].endswith("\n")
        if starts_block or (after_block and not text.startswith("\n")):
            out.append("\n")
        out.append(text)
        after_block = is_block
    return "".join(out)


def _json_default(value: object) -> object:
    """Convert what the JSON encoder does not support: other mappings, other sequences, and anything else as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else str(value)
