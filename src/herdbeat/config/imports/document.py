"""The result of an import: targets in the keys of a fleet file, with notes for the reader about each."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from herdbeat.config.nodes import PlainData
from herdbeat.domain.references import escape_references
from herdbeat.domain.target import TargetKind
from herdbeat.errors import SourceLocation
from herdbeat.redaction import is_secret_value, redact, register_secrets

_NON_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]+")
_UNPRINTABLE_PATTERN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MAX_NAME_CHARS = 60
_COMMENT_WIDTH = 110


class NoteKind(StrEnum):
    """How much a note matters."""

    NOT_CARRIED = "not_carried"  # it is missing in the new file
    CHANGED = "changed"  # it is there, and does not mean quite the same
    HINT = "hint"  # nothing is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationNote:
    """How one place in the old files was converted. Without `where` it applies to all of them."""

    kind: NoteKind
    message: str
    hint: str = ""
    where: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDocument:
    """One target in the keys of its section. `source` is what it was made from, as it was written."""

    kind: TargetKind
    name: str
    keys: Mapping[str, PlainData]
    where: SourceLocation | None = None
    source: str = ""
    notes: tuple[MigrationNote, ...] = ()

    @property
    def schedule_count(self) -> int:
        schedules = self.keys.get("schedules")
        return len(schedules) if isinstance(schedules, dict) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDocument:
    """A fleet file that is not written yet. `notes` are those that belong to no target.

    `settings` are the keys above the targets. `comments` are lines at the end of the file, to be used by hand.
    Relative paths in it count from `home`, if it has any.
    """

    origin: str
    targets: tuple[TargetDocument, ...] = ()
    notes: tuple[MigrationNote, ...] = ()
    settings: Mapping[str, PlainData] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    verb: str = "Imported"
    home: str = ""

    @property
    def all_notes(self) -> tuple[MigrationNote, ...]:
        """Every note, in the order of the old files; those about all of them come last."""
        notes = [*(note for target in self.targets for note in target.notes), *self.notes]
        located = sorted((each for each in notes if each.where is not None), key=_sort_key)
        return (*located, *(each for each in notes if each.where is None))


def _sort_key(note: MigrationNote) -> tuple[str, int]:
    return (note.where.file, note.where.line) if note.where is not None else ("", 0)


def make_name(text: str, fallback: str = "job") -> str:
    """Return a text as the name of a target."""
    return _NON_NAME_CHARS.sub("-", text).strip("-_")[:_MAX_NAME_CHARS].strip("-_") or fallback


def unify_names(targets: Iterable[TargetDocument]) -> tuple[TargetDocument, ...]:
    """Return the targets, the second of a name with a number behind it."""
    used: set[str] = set()
    unified = []
    for target in targets:
        name, number = target.name, 2
        while name in used:
            name, number = f"{target.name}-{number}", number + 1
        used.add(name)
        unified.append(replace(target, name=name))
    return tuple(unified)


def hide_secrets(
    values: Mapping[str, str], where: SourceLocation, prefix: str = ""
) -> tuple[dict[str, PlainData], list[MigrationNote]]:
    """Return named values as a file has them: secrets as references to variables, with a note on each."""
    written: dict[str, PlainData] = {}
    notes = []
    for name, value in values.items():
        if not value or not is_secret_value(name, value):
            written[name] = escape_references(value)
            continue
        variable = re.sub(r"[^A-Z0-9_]+", "_", f"{prefix}{name}".upper()).strip("_")
        written[name] = f"${{{variable}}}"
        register_secrets([value])  # the comment with the old line must not show it either
        message = f"The value of {name} looks like a secret and was not copied."
        hint = f"Put {variable}=… into a file .env beside the fleet file, or into the environment of herdbeat."
        notes.append(MigrationNote(kind=NoteKind.CHANGED, message=message, hint=hint, where=where))
    return written, notes


def render_fleet(fleet: FleetDocument) -> str:
    """Return the text of the fleet file, with comments that say where each target comes from and what changes."""
    lines = [f"# {fleet.verb} by herdbeat from {_to_one_line(fleet.origin)}."]
    lines += [f"# {line}" for note in fleet.notes if note.where is None for line in _wrap_note(note)]
    lines += ["", "version: 1", *_dump(dict(fleet.settings))]
    for kind in TargetKind:
        targets = [target for target in fleet.targets if target.kind is kind]
        if targets:
            lines += ["", f"{kind.section}:"]
            for target in targets:
                lines += _render_target(target)
    lost = [note for note in fleet.notes if note.where is not None]
    if lost:
        lines += ["", "# About other lines:", *(f"# {line}" for note in lost for line in _wrap_note(note))]
    lines += ["", *(f"# {_UNPRINTABLE_PATTERN.sub(' ', each)}" for each in fleet.comments)] if fleet.comments else []
    return "\n".join(lines) + "\n"


def _render_target(target: TargetDocument) -> Iterator[str]:
    place = f"{target.where.file}:{target.where.line}" if target.where is not None else ""
    yield f"  # {'  '.join(filter(None, [place, _to_one_line(redact(target.source))]))}"
    for note in target.notes:
        yield from (f"  # {line}" for line in _wrap_note(note, has_place=False))
    first, *others = _dump({"name": target.name, **target.keys})
    yield f"  - {first}"
    yield from (f"    {line}".rstrip() for line in others)


def _wrap_note(note: MigrationNote, *, has_place: bool = True) -> Iterator[str]:
    from textwrap import wrap  # noqa: PLC0415 -- reading a fleet needs none of this

    place = f"{note.where.file}:{note.where.line}: " if note.where is not None and has_place else ""
    mark = {NoteKind.NOT_CARRIED: "NOT CARRIED", NoteKind.CHANGED: "Changed", NoteKind.HINT: "Note"}[note.kind]
    hint = f" {note.hint}" if note.hint else ""
    yield from wrap(_to_one_line(f"{place}{mark}: {note.message}{hint}"), _COMMENT_WIDTH, subsequent_indent="  ")


def _to_one_line(text: str) -> str:
    return _UNPRINTABLE_PATTERN.sub(" ", text).strip()


def _dump(data: Mapping[str, PlainData]) -> Sequence[str]:
    """Return the lines of a mapping: short lists and mappings on one line, long texts as blocks."""
    import yaml  # noqa: PLC0415

    class BlockTextDumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks."""

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # A block that begins with a blank needs a number for its indent, which is wrong once the lines are indented.
        is_block = not text[:1].isspace() and not _UNPRINTABLE_PATTERN.search(text.replace("\n", "").replace("\t", ""))
        style = ("|" if is_block else '"') if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    BlockTextDumper.add_representer(str, represent_text)
    lines: list[str] = []
    for name, value in data.items():
        # A mapping of nothing but scalars would be written in braces, the whole of it.
        is_scalar = not isinstance(value, dict | list) or not value
        style = False if is_scalar else None
        text = yaml.dump(
            {name: value},
            Dumper=BlockTextDumper,
            sort_keys=False,
            allow_unicode=True,
            width=120,
            default_flow_style=style,
        )
        lines += split_lines(text)
    return lines


def split_lines(text: str) -> list[str]:
    """Return the lines as other programs count them: only a line feed, with or without a carriage return, ends one.

    `str.splitlines` also ends them at U+2028, U+0085 and others, which stand inside of commands and addresses.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]
