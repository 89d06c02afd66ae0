"""A change of a schedule's timing as a unified diff of its own file: what `git apply` and `patch -p1` take.

Only the value of the trigger changes, where it is written; comments, order and quotes of all else stay. The edited text
is read again, and if anything else would change with it (an anchor that others use), there is no patch.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from herdbeat.config.yaml import RawNode, compose_document
from herdbeat.errors import HerdbeatError, SourceLocation, UsageError

TYPE_KEY = "type"
KEYS_BY_KIND = {"interval": ("every", "interval"), "cron": ("cron", "expression"), "delay": ("at", "run_at")}
"""The keys that say when, by kind. The first is written where the kind changes."""
_CONTEXT_LINES = 3
_LINE_PATTERN = re.compile(r"[^\n]*\n|[^\n]+")
"""A line as `patch` and `git apply` count them."""

_PLAIN_VALUE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


class NoPatch(UsageError):
    """The file cannot be changed by a simple patch; the message says why, the hint what to write by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingChange:
    """The new timing of the schedule whose definition begins at a line and a column. `kind` is that of its trigger."""

    line: int
    column: int
    kind: str
    value: str

    def describe(self) -> str:
        return f"{KEYS_BY_KIND[self.kind][0]}: {quote_value(self.value)}"


def build_timing_patch(text: str, name: str, change: TimingChange) -> str:
    """Return the diff of a file's text, with `name` as its path. Raises NoPatch."""
    edited = edit_timing(text, change)
    lines = difflib.unified_diff(
        _LINE_PATTERN.findall(text), _LINE_PATTERN.findall(edited), f"a/{name}", f"b/{name}", n=_CONTEXT_LINES
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def edit_timing(text: str, change: TimingChange) -> str:
    """Return the text with the new timing. Raises NoPatch."""
    root = _compose(text, change)
    section = _find_section(root, change)
    if section is None:
        raise NoPatch("The schedule is not where it was: its file has changed.", hint="Apply the file first.")
    edits = list(_plan_edits(section, change))
    edited = _apply_edits(text, edits)
    pointers = {edit.pointer for edit in edits}
    is_shared = sum(position in pointers for position in _iter_key_positions(root)) > len(pointers)
    if is_shared or not _differs_only_at(root, _compose(edited, change), pointers):
        message = "The timing is written in a place that something else uses, too."
        raise NoPatch(message, hint=f"Write into the schedule itself: {change.describe()}")
    return edited


def quote_value(value: str) -> str:
    """Return the value as YAML reads it back as the same text, inside braces too."""
    if _PLAIN_VALUE_PATTERN.fullmatch(value) and not value.isdecimal():
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """Replace `width` characters at a place. `pointer` names the value that changes, by the place of its key."""

    line: int
    column: int
    width: int
    text: str
    pointer: tuple[int, int]


def _compose(text: str, change: TimingChange) -> RawNode:
    try:
        return compose_document(text, "")
    except (HerdbeatError, yaml.YAMLError) as error:
        hint = f"Write by hand: {change.describe()}"
        raise NoPatch("The file is not plain YAML that could be patched.", hint=hint) from error


def _find_section(node: RawNode, change: TimingChange) -> RawNode | None:
    """Return the mapping whose key is at the place, or that begins there itself: an entry of a list has no key."""
    place = (change.line, change.column)
    if node.is_map:
        for key, value in node.pairs():
            if _get_position(key.location) == place and value.is_map:
                return value
        if _get_position(node.location) == place:
            return node
    children = node.children if node.is_list else [value for _, value in node.pairs()] if node.is_map else []
    return next((found for child in children if (found := _find_section(child, change)) is not None), None)


def _plan_edits(section: RawNode, change: TimingChange) -> Iterator[_Edit]:
    written = {key.text: (key, value) for key, value in section.pairs()}
    found = [(kind, key) for kind, keys in KEYS_BY_KIND.items() for key in keys if key in written]
    if len(found) != 1:
        why = "is not written in it" if not found else "is written twice"
        raise NoPatch(f"The timing of the schedule {why}.", hint=f"Write into the schedule: {change.describe()}")
    kind, name = found[0]
    key, value = written[name]
    if value.is_map or value.is_list or value.style in ("|", ">"):
        raise NoPatch("The timing is not a simple value.", hint=f"Write by hand: {change.describe()}")
    if value.location.line != key.location.line:
        raise NoPatch("The timing is not on the line of its key.", hint=f"Write by hand: {change.describe()}")
    pointer = _get_position(key.location)
    if kind != change.kind:
        yield _replace(key.location, KEYS_BY_KIND[change.kind][0], pointer)
    yield _replace(value.location, quote_value(change.value), pointer)
    if kind != change.kind and TYPE_KEY in written:
        type_key, type_value = written[TYPE_KEY]
        yield _replace(type_value.location, change.kind, _get_position(type_key.location))


def _replace(location: SourceLocation, text: str, pointer: tuple[int, int]) -> _Edit:
    return _Edit(line=location.line, column=location.column, width=location.width, text=text, pointer=pointer)


def _apply_edits(text: str, edits: list[_Edit]) -> str:
    """From the end to the beginning, so that the places of the others stay."""
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda each: (each.line, each.column), reverse=True):
        line, start = lines[edit.line - 1], edit.column - 1
        lines[edit.line - 1] = f"{line[:start]}{edit.text}{line[start + edit.width :]}"
    return "".join(lines)


def _iter_key_positions(node: RawNode) -> Iterator[tuple[int, int]]:
    """Yield the place of every key; one that an alias repeats comes as often."""
    for index, child in enumerate(node.children):
        if node.is_map and index % 2 == 0:
            yield _get_position(child.location)
        else:
            yield from _iter_key_positions(child)


def _differs_only_at(before: RawNode, after: RawNode, pointers: set[tuple[int, int]]) -> bool:
    """Whether both say the same, apart from the values whose keys are at these places of `before`."""
    if (before.is_map, before.is_list, len(before.children)) != (after.is_map, after.is_list, len(after.children)):
        return False
    if before.is_map:
        pairs = zip(before.pairs(), after.pairs(), strict=True)
        return all(
            _get_position(key.location) in pointers
            or (_differs_only_at(key, other_key, pointers) and _differs_only_at(value, other, pointers))
            for (key, value), (other_key, other) in pairs
        )
    if before.is_list:
        return all(
            _differs_only_at(one, other, pointers) for one, other in zip(before.children, after.children, strict=True)
        )
    return before.text == after.text


def _get_position(location: SourceLocation) -> tuple[int, int]:
    return location.line, location.column
