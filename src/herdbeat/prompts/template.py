"""Prompt templates: one pass over `{{dotted.names}}`, and no second one.

A value is put in as it is and never looked at again. agentd scanned values too, so an issue whose title
said `{{source_id}}` could write its own prompt.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from herdbeat.errors import TemplateError, truncate_for_message

ESCAPE_HINT = 'Write "\\{{" for braces that are meant as text.'

_OPENING = re.compile(r"\\?\{\{")
_ENDING = re.compile(r"\{\{|\}\}")
_DOTTED_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One `{{name}}` as it stands in a template: `offset` and `width` cover the braces too."""

    name: str
    offset: int
    written: str

    @property
    def width(self) -> int:
        return len(self.written)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text that has to stand on lines of its own, wherever its name was written."""

    text: str


ValueFormatter = Callable[[Placeholder, object], str | TextBlock]
"""How a found value (None if there is none) becomes text."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template, parsed once and rendered often."""

    text: str
    parts: tuple[str | Placeholder, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template. Raises the first TemplateError: a `{{` without end, or without a name inside."""
        template, errors = scan_template(text)
        if errors:
            raise errors[0]
        return template

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """Every name in the order of writing; one that is written twice is here twice."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    def render(self, values: Mapping[str, object], format_value: ValueFormatter | None = None) -> str:
        """Put the values in. A name without a value becomes empty text; `show` may decide otherwise."""
        format_value = format_value or _format_plain
        shown = (
            part if isinstance(part, str) else format_value(part, resolve_name(values, part.name))
            for part in self.parts
        )
        return _join_pieces(shown)


def scan_template(text: str) -> tuple[Template, list[TemplateError]]:
    """Read a template and collect every error in it; what cannot be read stays in it as text."""
    parts: list[str | Placeholder] = []
    errors: list[TemplateError] = []
    at = 0
    while opening := _OPENING.search(text, at):
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
    """Follow a dotted name through mappings and lists, and nothing else: no attribute is ever read."""
    found: object = values
    for step in name.split("."):
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, Sequence) and not isinstance(found, str | bytes) and step.isdecimal():
            found = found[int(step)] if len(step) < 10 and int(step) < len(found) else None
        else:
            return None
    return found


def to_text(value: object) -> str:
    """A value as a prompt says it: text as it is, yes and no as in JSON, containers as compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_default)


def _parse_placeholder(text: str, opening: re.Match[str]) -> str | Placeholder | TemplateError:
    """What begins at an opening: literal braces, a name, or an error that says why it is neither."""
    start = opening.start()
    if opening.group().startswith("\\"):
        return "{{"
    ending = _ENDING.search(text, opening.end())
    if ending is None or ending.group() == "{{":
        return TemplateError('A "{{" is not closed.', offset=start, hint=f'Close it with "}}}}". {ESCAPE_HINT}')
    written = text[start : ending.end()]
    name = written[2:-2].strip()
    if not name:
        return TemplateError(f'"{written}" names nothing.', offset=start, width=len(written), hint=ESCAPE_HINT)
    if not _DOTTED_NAME.fullmatch(name):
        hint = f"A name is made of letters, digits, _ and -, parted by dots. {ESCAPE_HINT}"
        return TemplateError(
            f'"{truncate_for_message(written)}" is not a name.', offset=start, width=len(written), hint=hint
        )
    return Placeholder(name, start, written)


def _format_plain(_: Placeholder, value: object) -> str:
    return to_text(value)


def _join_pieces(pieces: Iterable[str | TextBlock]) -> str:
    """Put the pieces together; a block gets the line breaks that its neighbours do not bring."""
    out: list[str] = []
    needs_newline = False
    for piece in pieces:
        text = piece.text if isinstance(piece, TextBlock) else piece
        if not text:
            continue
        before = out[-1] if out else "\n"
        if (needs_newline and not text.startswith("\n")) or (
            isinstance(piece, TextBlock) and not before.endswith("\n")
        ):
            out.append("\n")
        out.append(text)
        needs_newline = isinstance(piece, TextBlock)
    return "".join(out)


def _json_default(value: object) -> object:
    """What JSON does not know by itself: mappings and lists of another make, and then its text."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else str(value)
