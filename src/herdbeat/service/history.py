"""Who changed what: the record, found and told."""

from datetime import datetime

from herdbeat.domain.change import Change
from herdbeat.domain.ids import format_short_id
from herdbeat.service.objects import JsonObject, format_optional_timestamp
from herdbeat.service.questions import find_schedule
from herdbeat.service.selecting import split_selector
from herdbeat.store.reader import Filter, Reader


def find_changes(
    reader: Reader, selector: str | None, *, since: datetime | None, before: int | None, limit: int
) -> list[Change]:
    """Newest first: of everything, of a target and its schedules, or of one schedule. Raises NotFound."""
    target, name = (None, None) if selector is None else split_selector(selector)
    found = reader.changes(Filter(target=target, name=name, since=since, before=before, limit=limit))
    if not found and selector is not None:
        find_schedule(reader, selector)  # what was removed keeps its record, so that comes first
    return found


def serialize_change(change: Change) -> JsonObject:
    return {
        "id": format_short_id(change.id),
        "at": format_optional_timestamp(change.at),
        "who": change.who,
        "what": change.what,
        "subject": change.subject,
        "before": None if change.before is None else dict(change.before),
        "after": None if change.after is None else dict(change.after),
    }
