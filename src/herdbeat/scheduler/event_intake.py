"""Events from outside become beats that are due now, so that they meet the same pause, limits and records as others.

Nothing is started here. The sender of the event is answered when this transaction is durable: from then on a restart
does not lose it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.trigger import event_dedup_id
from herdbeat.domain.webhook_call import MAX_EVENT_ID_BYTES, EventAnswer, IncomingEvent
from herdbeat.errors import UsageError
from herdbeat.scheduler.claim import write_evaluations
from herdbeat.scheduler.evaluate import Evaluation, build_beat, skip_event
from herdbeat.scheduler.instants import InstantRange
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_timestamp

REPLAY_WINDOW = timedelta(hours=24)
"""How long a signed content is remembered whose delivery id is not signed."""


def enqueue_events(tx: Transaction, now: datetime, events: Sequence[IncomingEvent]) -> list[EventAnswer]:
    """Write the beats of these events, and return the outcome of each. Raises UsageError for an id that is too long."""
    for event in events:
        _require_event_id(event.event_id)
    intake = _open_intake(tx, now, events)
    answers = [intake.take(now, event) for event in events]
    write_evaluations(tx, now, list(intake.evaluations.values()))
    tx.webhook_add_digests(intake.new_digests, now)
    return answers


@dataclass(slots=True)
class EventIntake:
    """What is known of the schedules of a batch, and what the batch adds to it."""

    snapshots: dict[int, ScheduleSnapshot]
    known_ids: set[tuple[int, str]]
    known_digests: set[tuple[int, str]]
    queued: dict[int, int]
    evaluations: dict[int, Evaluation] = field(default_factory=dict)
    new_digests: list[tuple[int, str]] = field(default_factory=list)

    def take(self, now: datetime, event: IncomingEvent) -> EventAnswer:
        """Return the answer to one event. What follows from it is added to the evaluations, which are written later."""
        snapshot = self.snapshots.get(event.schedule)
        if snapshot is None or snapshot.unreadable is not None:
            return EventAnswer.UNKNOWN
        if snapshot.plan.trigger.kind is not event.kind:
            return EventAnswer.UNKNOWN
        if not snapshot.enabled:
            return EventAnswer.DISABLED
        if event.is_filtered:
            dedup_id = f"filtered:{format_timestamp(now)}:{event.event_id[:100]}"
            skip_event(now, self._evaluation(snapshot), SkipReason.FILTERED, Source.WEBHOOK, dedup_id=dedup_id)
            return EventAnswer.FILTERED
        return self._find_obstacle(snapshot, event) or self._add(now, snapshot, event)

    def _find_obstacle(self, snapshot: ScheduleSnapshot, event: IncomingEvent) -> EventAnswer | None:
        """A repetition is answered as such, also where the queue is full: its sender must not send it again."""
        if _dedup_pair(event) in self.known_ids:
            return EventAnswer.DUPLICATE
        if event.digest and (snapshot.id, event.digest) in self.known_digests:
            return EventAnswer.REPLAYED
        max_queued = snapshot.plan.policies.max_queued
        if max_queued is not None and self.queued.get(snapshot.id, 0) >= max_queued:
            return EventAnswer.FULL
        return None

    def _add(self, now: datetime, snapshot: ScheduleSnapshot, event: IncomingEvent) -> EventAnswer:
        pair = _dedup_pair(event)
        beat = build_beat(
            now,
            snapshot,
            InstantRange.single(now),
            BeatOutcome.PENDING,
            "",
            event.kind.source,
            dedup_id=pair[1],
            origin=event.origin,
            wake_at=now,
        )
        self._evaluation(snapshot).beats.append(beat._replace(payload=event.data or None))
        self.known_ids.add(pair)
        self.queued[snapshot.id] = self.queued.get(snapshot.id, 0) + 1
        if event.digest:
            self.known_digests.add((snapshot.id, event.digest))
            self.new_digests.append((snapshot.id, event.digest))
        return EventAnswer.ACCEPTED

    def _evaluation(self, snapshot: ScheduleSnapshot) -> Evaluation:
        """An event moves neither the next time of its schedule nor its quarantine."""
        if snapshot.id not in self.evaluations:
            self.evaluations[snapshot.id] = Evaluation(snapshot, keeps_time=True, quarantine=snapshot.quarantine)
        return self.evaluations[snapshot.id]


def _open_intake(tx: Transaction, now: datetime, events: Sequence[IncomingEvent]) -> EventIntake:
    # The rows of the schedules are locked first: of two servers with one delivery, the second finds the first's beat.
    snapshots = tx.schedules(sorted({event.schedule for event in events}))
    limited = [
        each.id for each in snapshots.values() if each.unreadable is None and each.plan.policies.max_queued is not None
    ]
    digests = {(event.schedule, event.digest) for event in events if event.digest}
    return EventIntake(
        snapshots=dict(snapshots),
        known_ids=set(tx.beat_find_many({_dedup_pair(event) for event in events if not event.is_filtered})),
        known_digests=tx.webhook_known_digests(digests, now - REPLAY_WINDOW),
        queued=tx.beat_count_queued_events(limited),
    )


def _dedup_pair(event: IncomingEvent) -> tuple[int, str]:
    return event.schedule, event_dedup_id(event.kind, event.event_id)


def _require_event_id(event_id: str) -> None:
    if not event_id or len(event_id.encode("utf-8", "replace")) > MAX_EVENT_ID_BYTES or not event_id.isprintable():
        hint = f"Use at most {MAX_EVENT_ID_BYTES} bytes of printable characters."
        raise UsageError("The id of an event is missing, too long, or has control characters.", hint=hint)
