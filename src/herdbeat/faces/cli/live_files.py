"""What a live line says of the files: what they have changed, or why they have changed nothing."""

from herdbeat.errors import truncate_for_message
from herdbeat.events import ConfigApplied, ConfigRejected
from herdbeat.faces.cli.marks import format_count, short_label
from herdbeat.faces.cli.terminal import printable

_MAX_NAMED_SCHEDULES = 3
"""Schedules that are named one by one; more are counted."""


def describe_config_event(event: ConfigApplied | ConfigRejected) -> tuple[str, str, str]:
    """Glyph, colour and words."""
    if isinstance(event, ConfigRejected):
        more = f" (and {event.problems - 1} more)" if event.problems > 1 else ""
        what = f"{printable(event.where)}  {truncate_for_message(event.reason, 100)}{more}"
        return "✗", "red", f"files refused: {what}   nothing changed; see: herdbeat validate"
    parts = [
        _format_labels("+", "added", event.added),
        _format_labels("~", "changed", event.changed),
        _format_labels("-", "removed", event.removed),
        f"from the next start: {', '.join(event.unheeded)}" if event.unheeded else "",
    ]
    return "~", "cyan", f"files applied: {'   '.join(part for part in parts if part)}"


def _format_labels(sign: str, word: str, labels: tuple[str, ...]) -> str:
    if len(labels) > _MAX_NAMED_SCHEDULES:
        return f"{format_count(len(labels), 'schedule')} {word}"
    return " ".join(f"{sign}{printable(short_label(label))}" for label in labels)
