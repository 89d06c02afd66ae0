"""Instants that have an outcome already: a clock that is set back reaches them a second time.

Everything up to the mark of a schedule has an outcome, and nothing after it, until the clock is set back. Then the mark
moves back with it, and what had not started is withdrawn: it is in the future again. What had started stays. No row may
cover such an instant, so whoever settles a range loads them first. Once, a clock that was five times set back by an
hour and forward again made 18,060 beats of 3,655 instants.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from herdbeat.domain.decision import Source
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.scheduler.instants import due_since
from herdbeat.scheduler.quarantine import decide_or_quarantine
from herdbeat.store.base import RangeRow, ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_timestamp

_SHORTEST_PERIOD = timedelta(seconds=1)
"""No two instants of a calendar are closer, so one that is less late is alone, and its dedup id protects it."""


def load_recorded(tx: Transaction, now: datetime, snapshots: Iterable[ScheduleSnapshot]) -> list[ScheduleSnapshot]:
    """Return the schedules with the instants up to now that have a beat although they are after the mark."""
    loaded = list(snapshots)
    windows = [
        (snapshot.id, _cron_id(snapshot.settled_until), _cron_id(now))
        for snapshot in loaded
        if _may_settle_range(now, snapshot)
    ]
    if not windows:
        return loaded
    recorded = tx.beat_list_recorded(windows)
    return [snapshot._replace(recorded=tuple(recorded.get(snapshot.id, ()))) for snapshot in loaded]


def move_clock_back(tx: Transaction, now: datetime, step: timedelta) -> None:
    """The clock was set back by `step`, to `now`: withdraw the outcomes of all instants that did not start."""
    rows = tx.beat_list_across(now, _cron_id(now))
    tx.withdraw_future(now, step)
    snapshots = tx.schedules({row.schedule_id for row in rows}) if rows else {}
    cuts = [_cut_row(now, row, snapshots[row.schedule_id]) for row in rows]
    tx.beat_cut_many([cut for cut in cuts if cut is not None])


def _cut_row(now: datetime, row: RangeRow, snapshot: ScheduleSnapshot) -> tuple[int, int, datetime] | None:
    """Return the row without the instants after now; None if its calendar cannot count them any more."""
    if snapshot.unreadable is not None:
        return None
    trigger = snapshot.plan.trigger
    kept = decide_or_quarantine(lambda: due_since(trigger, row.due_at, now), lambda _: None)
    return None if kept is None else (row.id, min(kept.count, row.number), kept.last)


def _cron_id(moment: datetime) -> str:
    """The dedup id of a calendar's instant in that second. These ids sort by time."""
    return f"{TriggerKind.CRON}:{format_timestamp(moment.replace(microsecond=0))}"


def _may_settle_range(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if its evaluation may settle more than one instant, or add one to the row before it."""
    if snapshot.unreadable is not None or not isinstance(snapshot.plan.trigger, CalendarTrigger):
        return False
    run_at = snapshot.next_run_at
    is_late = run_at is None or now - run_at >= _SHORTEST_PERIOD
    is_held = snapshot.next_source is Source.PAUSED or not snapshot.enabled or snapshot.quarantine is not None
    return is_late or is_held or snapshot.tail_id is not None or snapshot.plan.policies.active_hours is not None
