"""From a row of the schedule table to the value that the scheduler reads."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import StoreUnavailable
from herdbeat.governor.state import Pause
from herdbeat.store.base import ScheduleSnapshot
from herdbeat.store.microseconds import from_micros
from herdbeat.store.record_mapping import PLACEHOLDER_PLAN, apply_arm, describe_read_error

_TIME_COLUMNS = (6, 7, 10, 11, 12)
_SOURCE_COLUMN, _RARE_COLUMN = 8, 18
_SOURCES_BY_VALUE = {source.value: source for source in Source}
_MAX_MICROSECONDS = 200_000_000_000_000_000  # the year 8307, in microseconds


def read_snapshot(row: list[Any], plan: Callable[[int], ScheduleSpec]) -> ScheduleSnapshot:
    """In the order of the statement `standing`."""
    run_at = from_micros(row[6])
    snapshot = ScheduleSnapshot(
        *(row[0], row[1], row[2], plan(row[3]), row[4], bool(row[5])),
        run_at,
        # Mostly the very same moment, and reading one is dear.
        run_at if row[7] == row[6] else from_micros(row[7]),
        _SOURCES_BY_VALUE[row[_SOURCE_COLUMN]] if row[_SOURCE_COLUMN] else None,
        row[9],
        run_at if row[10] == row[6] else from_micros(row[10]),
        from_micros(row[11]),
        from_micros(row[12]),
        bool(row[13]),
        *row[14:_RARE_COLUMN],
    )
    return snapshot if row[_RARE_COLUMN] is None else _apply_rare_columns(snapshot, row[_RARE_COLUMN])


def _apply_rare_columns(snapshot: ScheduleSnapshot, rare: list[Any]) -> ScheduleSnapshot:
    disabled_by, arm, paused, until, paused_by, paused_reason, tail_id, tail, quarantine, skips, hints = rare
    return snapshot._replace(
        enabled=snapshot.enabled and disabled_by is None,
        disabled_by=disabled_by,
        plan=apply_arm(snapshot.plan, arm),
        arm=arm,
        pause=Pause(until=from_micros(until), by=paused_by, reason=paused_reason) if paused else None,
        tail_id=tail_id,
        tail=tail,
        quarantine=quarantine,
        skips=skips,
        hints=tuple(_read_hint(each) for each in hints),
    )


def read_snapshot_safely(row: list[Any], plan: Callable[[int], ScheduleSpec]) -> ScheduleSnapshot:
    """The same for a batch in which a row cannot be read: that one comes without its plan, and says why."""
    try:
        return read_snapshot(row, plan)
    except (sqlite3.Error, StoreUnavailable):
        raise  # that is the disk's fault or the server's, not the row's
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one row, its neighbours are to be read
        return _unreadable_snapshot(row, error)


def _unreadable_snapshot(row: list[Any], error: Exception) -> ScheduleSnapshot:
    readable = list(row)
    for column in _TIME_COLUMNS:
        readable[column] = _clamp_time(row[column])
    readable[_SOURCE_COLUMN] = None  # it may be what is wrong, and so may the pause and the hints
    if readable[_RARE_COLUMN] is not None:
        disabled_by, arm, *_, tail_id, tail, quarantine, skips, _ = readable[_RARE_COLUMN]
        readable[_RARE_COLUMN] = [disabled_by, arm, 0, None, "", "", tail_id, tail, quarantine, skips, ()]
    snapshot = read_snapshot(readable, lambda _: PLACEHOLDER_PLAN)
    return snapshot._replace(unreadable=describe_read_error(error))


def _clamp_time(micros: Any) -> Any:
    return micros if micros is None or (isinstance(micros, int) and abs(micros) < _MAX_MICROSECONDS) else 0


def _read_hint(row: list[Any]) -> Hint:
    origin, every, at, reason, expires_at, created_at = row
    return Hint(
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
    )
