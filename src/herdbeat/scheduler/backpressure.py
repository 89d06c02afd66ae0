"""Backpressure: a full target with more due schedules than one cycle can queue does not delay other targets.

Queueing is work too. Once, 100,000 schedules of one full target that fell due together took six seconds to queue, and
every other beat waited as long. Now schedules of other targets come first, and those of saturated targets are queued a
slice at a time. They are only evaluated later: their capacity is always read anew.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.evaluate import Evaluation
from herdbeat.store.base import ScheduleSnapshot, Transaction

SATURATED_BATCH_SIZE = 100
"""Schedules of saturated targets that one cycle queues: a few milliseconds of delay for other targets."""

MIN_SATURATED_SCHEDULES = 10
"""With fewer of them queued in one cycle, a full target is not treated as saturated."""

_RESCAN_MARGIN = timedelta(milliseconds=250)
"""A completion writes the time at which it began, so it may add rows to a time that was just scanned."""


class SaturatedTargets(NamedTuple):
    """Full targets with more due schedules, and the moment before which nothing of other targets is due."""

    targets: frozenset[int]
    scanned_until: datetime


class DueBatch(NamedTuple):
    """The schedules of a cycle, whether more is due, and the moment before which only saturated targets have any."""

    due: list[ScheduleSnapshot]
    has_more: bool
    scanned_until: datetime


def fetch_due(tx: Transaction, now: datetime, limit: int, saturated: SaturatedTargets | None) -> DueBatch:
    """Return what is due, oldest first; with saturated targets, all others before a slice of theirs."""
    if saturated is None:
        due = tx.due_schedules(now, limit)
        return DueBatch(due, len(due) == limit, (due[0].wake_at or now) if due else now)
    others = tx.schedule_list_due_excluding(now, limit, saturated.targets, saturated.scanned_until)
    saturated_due = tx.due_schedules(now, SATURATED_BATCH_SIZE)
    seen = {snapshot.id for snapshot in others}
    scanned_until = saturated.scanned_until
    if len(others) < limit:
        scanned_until = max(scanned_until, now - _RESCAN_MARGIN)
    return DueBatch(
        others + [snapshot for snapshot in saturated_due if snapshot.id not in seen],
        len(saturated_due) == SATURATED_BATCH_SIZE,
        scanned_until,
    )


def find_saturated_targets(
    batch: DueBatch, evaluations: Iterable[Evaluation], capacity: CapacitySnapshot, before: SaturatedTargets | None
) -> SaturatedTargets | None:
    """Return the targets that the next cycle takes last. None, as nearly always, if nothing more is due."""
    if not batch.has_more:
        return None
    queued = Counter(each.snapshot.target_id for each in evaluations if each.queue_count)
    full_targets = frozenset(
        target
        for target, count in queued.items()
        if count >= MIN_SATURATED_SCHEDULES and capacity.free_by_target.get(target, 0) <= 0
    )
    if not full_targets:
        return None
    return SaturatedTargets(full_targets | before.targets if before else full_targets, batch.scanned_until)
