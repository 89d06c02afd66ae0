"""Who changed what: the record, found and told."""

from datetime import datetime

from herdbeat.domain.change import Change
from herdbeat.domain.ids import short_id
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.service.questions import find_schedule
from herdbeat.service.selecting import parts_of
from herdbeat.store.reader import Filter, Reader


def find_changes(
    reader: Reader, selector: str | None, *, since: datetime | None, before: int | None, limit: int
) -> list[Change]:
    """Newest first: of everything, of a target and its schedules, or of one schedule. Raises NotFound."""
    target, name = (None, None) if selector is None else parts_of(selector)
    found = reader.changes(Filter(target=target, name=name, since=since, before=before, limit=limit))
    if not found and selector is not None:
        find_schedule(reader, selector)  # what was removed keeps its record, so that comes first
    return found


def change_object(change: Change) -> Json:
    return {
        "id": short_id(change.id),
        "at": moment_or_null(change.at),
        "who": change.who,
        "what": change.what,
        "subject": change.subject,
        "before": None if change.before is None else dict(change.before),
        "after": None if change.after is None else dict(change.after),
    }
