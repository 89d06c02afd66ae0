"""Beats and runs of the ledger, newest first, of all schedules or of those that a selector names."""

from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.selectors import resolve_history_filter
from herdbeat.store.reader import Filter, Reader


def find_beats(
    reader: Reader,
    selector: str | None,
    *,
    outcome: BeatOutcome | None,
    since: datetime | None,
    before: int | None,
    limit: int,
) -> list[BeatRecord]:
    """Raises NotFound for a selector that the ledger does not know."""
    target, name = resolve_history_filter(reader, selector)
    return reader.beats(
        Filter(target=target, name=name, outcome=outcome, since=since, before=before, limit=limit),
    )


def find_runs(
    reader: Reader,
    selector: str | None,
    *,
    status: RunStatus | None,
    since: datetime | None,
    before: int | None,
    limit: int,
) -> list[RunRecord]:
    """Runs that found nothing to do are left out, unless a status is given. Raises NotFound."""
    target, name = resolve_history_filter(reader, selector)
    return reader.runs(
        Filter(
            target=target,
            name=name,
            status=status,
            since=since,
            before=before,
            limit=limit,
            include_declined=status is not None,
        )
    )
