"""From a row of the schedule table to the value that the scheduler reads."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.plan import Plan
from herdbeat.governor.state import Pause
from herdbeat.store.base import Standing
from herdbeat.store.micros import from_micros
from herdbeat.store.plans import STAND_IN, why_unreadable

_TIMES = (8, 9, 12, 13, 26)
_FOREVER = 200_000_000_000_000_000  # the year 8307, in microseconds


def read_standing(row: list[Any], plan: Callable[[int], Plan]) -> Standing:
    """In the order of the columns that `due_schedules` and `some_schedules` name."""
    return Standing(
        id=row[0],
        target_id=row[1],
        label=f"{row[2]}/{row[3]}",
        plan=plan(row[4]),
        revision=row[5],
        enabled=bool(row[6]) and row[7] is None,
        next_run_at=from_micros(row[8]),
        next_due_at=from_micros(row[9]),
        next_source=Source(row[10]) if row[10] else None,
        next_origin=row[11],
        wake_at=from_micros(row[26]),
        anchor_at=from_micros(row[12]),
        settled_until=from_micros(row[13]),
        is_new=bool(row[14]),
        failures=row[15],
        runs=row[16],
        running=row[17],
        waiting=row[18],
        arm=row[19],
        pause=Pause(until=from_micros(row[21]), by=row[22], reason=row[23]) if row[20] else None,
        tail_id=row[24],
        tail=row[25],
        hints=tuple(_hint(each) for each in row[27] or ()),
        quarantine=row[28],
        disabled_by=row[7],
    )


def read_contained(row: list[Any], plan: Callable[[int], Plan]) -> Standing:
    """The same for a batch in which a row cannot be read: that one comes without its plan, and says why."""
    try:
        return read_standing(row, plan)
    except sqlite3.Error:
        raise  # that is the disk's fault, not the row's
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one row, its neighbours are to be read
        return _unreadable(row, error)


def _unreadable(row: list[Any], error: Exception) -> Standing:
    bare = list(row)
    for place in _TIMES:
        bare[place] = _possible(row[place])
    bare[10], bare[20], bare[27] = None, 0, None  # source, pause and hints: any of them may be what is wrong
    standing = read_standing(bare, lambda _: STAND_IN)
    return standing._replace(unreadable=why_unreadable(error))


def _possible(micros: Any) -> Any:
    return micros if micros is None or (isinstance(micros, int) and abs(micros) < _FOREVER) else 0


def _hint(row: list[Any]) -> Hint:
    origin, every, at, reason, expires_at, created_at = row
    return Hint(
        origin=origin,
        every=None if every is None else timedelta(microseconds=every),
        at=from_micros(at),
        reason=reason,
        expires_at=from_micros(expires_at),
        created_at=from_micros(created_at),
    )
