"""Planned pauses: store one, resolve its selection again when schedules are added, end it early.

What happens at its beginning and its end is decided with everything else of a schedule (`evaluate`, `governor`): here
only the rows are written that it decides by, and the schedules are woken at its edges.
"""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.planned_pause import PlannedPause
from herdbeat.domain.selection import Selection
from herdbeat.store.base import Transaction


def plan_pause(
    tx: Transaction, now: datetime, selection: Selection, *, from_at: datetime, until: datetime, by: str, reason: str
) -> PlannedPause:
    """Store a planned pause, and return it with the number of schedules that it holds."""
    pause_id = tx.pause_plan(selection, from_at=from_at, until=until, by=by, reason=reason, now=now)
    (pause,) = tx.planned_pauses(now, pause_id)
    resolve_selections(tx, now, [pause])
    (pause,) = tx.planned_pauses(now, pause_id)
    return pause


def resolve_selections(tx: Transaction, now: datetime, pauses: Sequence[PlannedPause] | None = None) -> None:
    """Resolve the selections of these planned pauses, or of all that are not over, against the schedules of now.

    A schedule stays held when it is not selected any more: its pause was announced.
    """
    pauses = tx.planned_pauses(now) if pauses is None else pauses
    if not pauses:
        return
    schedules = tx.pausable_schedules()
    for pause in pauses:
        selected = [
            each.id
            for each in schedules
            if pause.selection.includes(each.target, each.name, each.policies.tags, each.policies.group or "")
        ]
        tx.pause_hold(pause, selected)


def cancel_pause(tx: Transaction, now: datetime, pause: PlannedPause, by: str) -> None:
    """End a planned pause now. One that has begun ends like any other at its end; one that has not never begins."""
    tx.pause_end(pause, now, by)


def end_windows(tx: Transaction, now: datetime, schedule_id: int) -> None:
    """End the planned pauses that hold a schedule now, for this schedule alone."""
    current = [each for each in tx.schedules([schedule_id])[schedule_id].windows if each.contains(now)]
    tx.windows_end(schedule_id, current, now)
