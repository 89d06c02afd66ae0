"""What a live line says of the files: what they have changed, or why they have changed nothing."""

from herdbeat.errors import shown
from herdbeat.events import FilesApplied, FilesRefused
from herdbeat.faces.cli.marks import counted, short_label
from herdbeat.faces.cli.terminal import printable

_NAMED = 3
"""Schedules that are named one by one; more are counted."""


def files_words(event: FilesApplied | FilesRefused) -> tuple[str, str, str]:
    """Glyph, colour and words."""
    if isinstance(event, FilesRefused):
        more = f" (and {event.problems - 1} more)" if event.problems > 1 else ""
        what = f"{printable(event.where)}  {shown(event.reason, 100)}{more}"
        return "✗", "red", f"files refused: {what}   nothing changed; see: herdbeat validate"
    parts = [
        _part("+", "added", event.added),
        _part("~", "changed", event.changed),
        _part("-", "removed", event.removed),
        f"from the next start: {', '.join(event.unheeded)}" if event.unheeded else "",
    ]
    return "~", "cyan", f"files applied: {'   '.join(part for part in parts if part)}"


def _part(sign: str, word: str, labels: tuple[str, ...]) -> str:
    if len(labels) > _NAMED:
        return f"{counted(len(labels), 'schedule')} {word}"
    return " ".join(f"{sign}{printable(short_label(label))}" for label in labels)
