"""A beat by hand: written down like any other, so that it meets the same room, limits and records.

It does not move the schedule's own next run. A person may fire what is paused or disabled, a machine may not.
"""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.trigger import TriggerKind, event_dedup_id
from herdbeat.governor.authority import is_human
from herdbeat.scheduler.overlap import OverlapAction, resolve_overlap
from herdbeat.store.base import NewBeat, ScheduleSnapshot, TargetCapacity, Transaction

_FINAL_SKIP_REASONS = (SkipReason.CONFIG_ERROR, SkipReason.DISABLED, SkipReason.PAUSED)
"""What no waiting helps against."""

_QUEUEING_OVERLAPS = (Overlap.QUEUE, Overlap.QUEUE_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueResult:
    """The beat that was written; or none, and the reason. `waits_for` says what it has to wait for first."""

    beat_id: int | None
    skip_reason: SkipReason | None = None
    waits_for: SkipReason | None = None
    running: int = 0
    room: int = 0
    next_run_at: datetime | None = None


def enqueue_manual(
    tx: Transaction, now: datetime, schedule_id: int, *, origin: str, event_id: str, queue: bool = False
) -> EnqueueResult:
    """Write a beat that is due now. What cannot start at once is refused, unless asked to `queue`."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    room = tx.target_get_capacity([snapshot.target_id])[snapshot.target_id]
    obstacle = _find_hold(now, snapshot, origin) or _find_obstacle(snapshot, room)
    refused = obstacle in _FINAL_SKIP_REASONS or (
        obstacle is not None and not queue and not _can_queue(snapshot, obstacle)
    )
    beat_id = None if refused else tx.add_beats([_build_manual_beat(now, snapshot, origin, event_id, obstacle)])[0]
    return EnqueueResult(
        beat_id=beat_id,
        skip_reason=obstacle if refused else None,
        waits_for=None if refused else obstacle,
        running=room.running,
        room=room.max_concurrent,
        next_run_at=snapshot.next_run_at,
    )


def _find_hold(now: datetime, snapshot: ScheduleSnapshot, origin: str) -> SkipReason | None:
    """What is switched off or paused, a person may run by hand; a machine may not."""
    if is_human(origin):
        return None
    if not snapshot.enabled:
        return SkipReason.DISABLED
    return SkipReason.PAUSED if snapshot.pause is not None and snapshot.pause.is_active(now) else None


def _find_obstacle(snapshot: ScheduleSnapshot, room: TargetCapacity) -> SkipReason | None:
    """A full target comes first: `at_capacity` is the documented answer, also if this schedule fills it."""
    if snapshot.unreadable is not None:
        return SkipReason.CONFIG_ERROR
    if room.running >= room.max_concurrent:
        return SkipReason.AT_CAPACITY
    action = resolve_overlap(snapshot.plan.policies.overlap, running=snapshot.running > 0, waiting=False)
    return None if action is OverlapAction.START else SkipReason.ALREADY_RUNNING


def _can_queue(snapshot: ScheduleSnapshot, obstacle: SkipReason) -> bool:
    """A schedule that queues behind itself does so by hand, too."""
    return obstacle is SkipReason.ALREADY_RUNNING and snapshot.plan.policies.overlap in _QUEUEING_OVERLAPS


def _build_manual_beat(
    now: datetime, snapshot: ScheduleSnapshot, origin: str, event_id: str, obstacle: SkipReason | None
) -> NewBeat:
    """Due now, obstacle or not: the loop looks at it once, and wakes it again when room comes."""
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=event_dedup_id(TriggerKind.MANUAL, event_id),
        due_at=now,
        last_due_at=now,
        number=1,
        outcome=BeatOutcome.PENDING,
        reason=obstacle or "",
        source=Source.MANUAL,
        origin=origin,
        priority=snapshot.plan.policies.priority,
        wake_at=now,
        created_at=now,
    )
