"""More is due of a target without room than one turn can park: the beats of others do not stand behind it.

Parking is work too. Once, 100,000 schedules of one full target that fell due together took six seconds to park, and
every other beat waited as long. Now the others are looked at first, and the crowd is parked a slice at a time.
Who is passed by is only looked at later: whether there is room is always asked anew.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.evaluate import Evaluation
from herdbeat.store.base import ScheduleSnapshot, Transaction

SATURATED_BATCH_SIZE = 100
"""Schedules of a crowd that one turn parks: a few milliseconds, and no beat of another target is held up longer."""

MIN_SATURATED_SCHEDULES = 10
"""Fewer of one target in one turn are no crowd: they pass with the others."""

_RESCAN_MARGIN = timedelta(milliseconds=250)
"""A finish writes down what was now when it began, so what has been seen just now is looked through once more."""


class SaturatedTargets(NamedTuple):
    """Full targets of which more is due, and the moment before which nothing else is."""

    targets: frozenset[int]
    scanned_until: datetime


class DueBatch(NamedTuple):
    """What a turn takes up, whether more is due, and the moment before which only the crowd's is left."""

    due: list[ScheduleSnapshot]
    has_more: bool
    scanned_until: datetime


def fetch_due(tx: Transaction, now: datetime, limit: int, saturated: SaturatedTargets | None) -> DueBatch:
    """What is due, the oldest first; beside a crowd, what is not of it before a slice of it."""
    if saturated is None:
        due = tx.due_schedules(now, limit)
        return DueBatch(due, len(due) == limit, (due[0].wake_at or now) if due else now)
    others = tx.schedule_list_due_excluding(now, limit, saturated.targets, saturated.scanned_until)
    saturated_due = tx.due_schedules(now, SATURATED_BATCH_SIZE)
    seen = {each.id for each in others}
    scanned_until = (
        max(saturated.scanned_until, now - _RESCAN_MARGIN) if len(others) < limit else saturated.scanned_until
    )
    return DueBatch(
        others + [each for each in saturated_due if each.id not in seen],
        len(saturated_due) == SATURATED_BATCH_SIZE,
        scanned_until,
    )


def find_saturated_targets(
    batch: DueBatch, evaluations: Iterable[Evaluation], capacity: CapacitySnapshot, before: SaturatedTargets | None
) -> SaturatedTargets | None:
    """Whom the next turn passes by at first. None, as nearly always, if this turn has come to an end of it."""
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
