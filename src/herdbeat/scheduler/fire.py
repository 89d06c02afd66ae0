"""A beat by hand: written down like any other, so that it meets the same room, limits and records.

It does not move the schedule's own next run. A person may fire what is paused or disabled, a machine may not.
"""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.trigger import TriggerKind, event_dedup_id
from herdbeat.governor.authority import is_person
from herdbeat.scheduler.overlap import Meeting, meet
from herdbeat.store.base import NewBeat, Room, Standing, Transaction

_FINAL = (SkipReason.CONFIG_ERROR, SkipReason.DISABLED, SkipReason.PAUSED)
"""What no waiting helps against."""

_WAITING = (Overlap.QUEUE, Overlap.QUEUE_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """The beat that was written; or none, and the reason. `waits_for` says what it has to wait for first."""

    beat_id: int | None
    skip_reason: SkipReason | None = None
    waits_for: SkipReason | None = None
    running: int = 0
    room: int = 0
    next_run_at: datetime | None = None


def fire(tx: Transaction, now: datetime, schedule_id: int, *, origin: str, event_id: str, queue: bool = False) -> Fired:
    """Write a beat that is due now. What cannot start at once is refused, unless asked to `queue`."""
    standing = tx.schedules([schedule_id])[schedule_id]
    room = tx.rooms([standing.target_id])[standing.target_id]
    obstacle = _hold(now, standing, origin) or _obstacle(standing, room)
    refused = obstacle in _FINAL or (obstacle is not None and not queue and not _may_wait(standing, obstacle))
    beat_id = None if refused else tx.add_beats([_beat(now, standing, origin, event_id, obstacle)])[0]
    return Fired(
        beat_id=beat_id,
        skip_reason=obstacle if refused else None,
        waits_for=None if refused else obstacle,
        running=room.running,
        room=room.max_concurrent,
        next_run_at=standing.next_run_at,
    )


def _hold(now: datetime, standing: Standing, origin: str) -> SkipReason | None:
    """What is switched off or paused, a person may run by hand; a machine may not."""
    if is_person(origin):
        return None
    if not standing.enabled:
        return SkipReason.DISABLED
    return SkipReason.PAUSED if standing.pause is not None and standing.pause.holds(now) else None


def _obstacle(standing: Standing, room: Room) -> SkipReason | None:
    """A full target comes first: `at_capacity` is the documented answer, also if this schedule fills it."""
    if standing.unreadable is not None:
        return SkipReason.CONFIG_ERROR
    if room.running >= room.max_concurrent:
        return SkipReason.AT_CAPACITY
    meeting = meet(standing.plan.policies.overlap, running=standing.running > 0, waiting=False)
    return None if meeting is Meeting.START else SkipReason.ALREADY_RUNNING


def _may_wait(standing: Standing, obstacle: SkipReason) -> bool:
    """A schedule that queues behind itself does so by hand, too."""
    return obstacle is SkipReason.ALREADY_RUNNING and standing.plan.policies.overlap in _WAITING


def _beat(now: datetime, standing: Standing, origin: str, event_id: str, obstacle: SkipReason | None) -> NewBeat:
    """Due now, obstacle or not: the loop looks at it once, and wakes it again when room comes."""
    return NewBeat(
        schedule_id=standing.id,
        target_id=standing.target_id,
        dedup_id=event_dedup_id(TriggerKind.MANUAL, event_id),
        due_at=now,
        last_due_at=now,
        number=1,
        outcome=BeatOutcome.PENDING,
        reason=obstacle or "",
        source=Source.MANUAL,
        origin=origin,
        priority=standing.plan.policies.priority,
        wake_at=now,
        created_at=now,
    )
