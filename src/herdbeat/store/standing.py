"""From a row of the schedule table to the value that the scheduler reads."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.plan import Plan
from herdbeat.errors import StoreUnavailable
from herdbeat.governor.state import Pause
from herdbeat.store.base import Standing
from herdbeat.store.micros import from_micros
from herdbeat.store.plans import STAND_IN, armed, why_unreadable

_TIMES = (6, 7, 10, 11, 12)
_SOURCE, _RARE = 8, 18
_SOURCES = {source.value: source for source in Source}
_FOREVER = 200_000_000_000_000_000  # the year 8307, in microseconds


def read_standing(row: list[Any], plan: Callable[[int], Plan]) -> Standing:
    """In the order of the statement `standing`."""
    run_at = from_micros(row[6])
    standing = Standing(
        *(row[0], row[1], row[2], plan(row[3]), row[4], bool(row[5])),
        run_at,
        # Mostly the very same moment, and reading one is dear.
        run_at if row[7] == row[6] else from_micros(row[7]),
        _SOURCES[row[_SOURCE]] if row[_SOURCE] else None,
        row[9],
        run_at if row[10] == row[6] else from_micros(row[10]),
        from_micros(row[11]),
        from_micros(row[12]),
        bool(row[13]),
        *row[14:_RARE],
    )
    return standing if row[_RARE] is None else _with_rare(standing, row[_RARE])


def _with_rare(standing: Standing, rare: list[Any]) -> Standing:
    disabled_by, arm, paused, until, paused_by, paused_reason, tail_id, tail, quarantine, skips, hints = rare
    return standing._replace(
        enabled=standing.enabled and disabled_by is None,
        disabled_by=disabled_by,
        plan=armed(standing.plan, arm),
        arm=arm,
        pause=Pause(until=from_micros(until), by=paused_by, reason=paused_reason) if paused else None,
        tail_id=tail_id,
        tail=tail,
        quarantine=quarantine,
        skips=skips,
        hints=tuple(_hint(each) for each in hints),
    )


def read_contained(row: list[Any], plan: Callable[[int], Plan]) -> Standing:
    """The same for a batch in which a row cannot be read: that one comes without its plan, and says why."""
    try:
        return read_standing(row, plan)
    except (sqlite3.Error, StoreUnavailable):
        raise  # that is the disk's fault or the server's, not the row's
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one row, its neighbours are to be read
        return _unreadable(row, error)


def _unreadable(row: list[Any], error: Exception) -> Standing:
    bare = list(row)
    for place in _TIMES:
        bare[place] = _possible(row[place])
    bare[_SOURCE] = None  # it may be what is wrong, and so may the pause and the hints
    if bare[_RARE] is not None:
        disabled_by, arm, *_, tail_id, tail, quarantine, skips, _ = bare[_RARE]
        bare[_RARE] = [disabled_by, arm, 0, None, "", "", tail_id, tail, quarantine, skips, ()]
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
