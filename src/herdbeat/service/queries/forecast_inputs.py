"""Which schedules a forecast is about, and how they stand: from the ledger, or from files and ledger together."""

from collections.abc import Iterable
from datetime import datetime

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.service.queries.hints import build_hint
from herdbeat.service.queries.schedules import find_schedules
from herdbeat.service.queries.upcoming import ForecastInput, build_ledger_forecast, merge_files_and_ledger
from herdbeat.store.reader import Reader, ScheduleQuery

MAX_SCHEDULES = 1_000_000


def load_ledger_forecasts(
    reader: Reader, selector: str | None, now: datetime, *, has_live_node: bool
) -> list[ForecastInput]:
    """Return the schedules that a selector names, or all, as the ledger has them. Raises NotFound."""
    names = () if selector is None else (selector,)
    records = find_schedules(reader, ScheduleQuery(now=now, names=names, limit=MAX_SCHEDULES))
    hints = _find_open_hints(reader, records, now)
    return [
        build_ledger_forecast(record, hints.get(record.label, []), now, has_live_node=has_live_node)
        for record in records
    ]


def load_merged_forecasts(reader: Reader, schedules: Iterable[Schedule], now: datetime) -> list[ForecastInput]:
    """Return what the next `up` would begin with: the schedules of the files, in the state that the ledger has."""
    records = reader.find(ScheduleQuery(now=now, limit=MAX_SCHEDULES))
    return merge_files_and_ledger(schedules, records, _find_open_hints(reader, records, now), now)


def _find_open_hints(reader: Reader, records: Iterable[ScheduleRecord], now: datetime) -> dict[str, list[Hint]]:
    """Return the hints that have not ended, by the label of their schedule."""
    hints: dict[str, list[Hint]] = {}
    if reader.has_hints():
        for record in reader.hints([each.id for each in records], ended_since=now, limit=MAX_SCHEDULES):
            if record.ended_at is None:
                hints.setdefault(record.schedule, []).append(build_hint(record))
    return hints
