"""What a turn does with one schedule, as a value: its beats, which of them start, and when it is due next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, Gap
from herdbeat.domain.decision import Decision, Source
from herdbeat.governor.serialization import decision_to_text
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.store.base import BeatExtension, ChangedSchedule, NewBeat, ScheduleSnapshot

MERGEABLE_OUTCOMES = frozenset({BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED})
"""Outcomes of rows that the next instant may join, if it shares their fate."""


@dataclass(slots=True)
class Evaluation:
    """All that a turn does with one schedule. `starts` are places in `beats`. What `stays` keeps its time."""

    snapshot: ScheduleSnapshot
    beats: list[NewBeat] = field(default_factory=list)
    extensions: list[BeatExtension] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    queued: int = 0
    cancels_active_runs: bool = False
    decision: Decision | None = None
    anchor_at: datetime | None = None
    settled_until: datetime | None = None
    quarantine: str | None = None
    skipped: int = 0
    catchup_count: int = 0
    keep_time: bool = False

    @property
    def last_due_at(self) -> datetime | None:
        """The newest instant that it has settled, started or parked."""
        due_times = [beat.last_due_at for beat in self.beats] + [each.last_due_at for each in self.extensions]
        return max(due_times, default=None)

    @property
    def is_rescheduled_on_completion(self) -> bool:
        """While it runs it has no next time: the finish decides."""
        snapshot = self.snapshot
        return snapshot.plan.trigger.interval is not None or snapshot.next_source is Source.AI_INTERVAL


@dataclass(frozen=True, slots=True)
class ClaimCycle:
    """What every verdict of one turn shares."""

    now: datetime
    capacity: CapacitySnapshot
    pacer: CatchupPacer
    gaps: Sequence[Gap] = ()
    paced_counts: Mapping[int, int] = field(default_factory=dict)
    """How many beats of a schedule wait for their pace, and for nothing else."""


def to_row(evaluation: Evaluation, started: int, tail_id: int | None) -> ChangedSchedule:
    """The schedule's row after the verdict."""
    snapshot, decision = evaluation.snapshot, evaluation.decision
    tail = evaluation.beats[-1] if evaluation.beats else None
    is_mergeable = tail is not None and tail.outcome in MERGEABLE_OUTCOMES
    keep_time = evaluation.keep_time
    return ChangedSchedule(
        id=snapshot.id,
        next_run_at=decision.next_run_at if decision else snapshot.next_run_at if keep_time else None,
        next_due_at=decision.due_at if decision else snapshot.next_due_at if keep_time else None,
        next_source=decision.source if decision else snapshot.next_source,
        next_origin=decision.origin if decision else snapshot.next_origin,
        next_trace=serialize_trace(decision) if decision else None,
        wake_at=decision.wake_at if decision else snapshot.next_run_at if keep_time else None,
        anchor_at=evaluation.anchor_at or snapshot.anchor_at,
        settled_until=evaluation.settled_until or snapshot.settled_until,
        is_new=snapshot.is_new and not evaluation.beats,
        failures=snapshot.failures,
        runs=snapshot.runs,
        running=snapshot.running + started,
        waiting=snapshot.waiting + evaluation.queued,
        tail_id=(tail_id if is_mergeable else None) if tail else snapshot.tail_id,
        tail=(f"{tail.outcome}:{tail.reason}" if is_mergeable else None) if tail else snapshot.tail,
        quarantine=evaluation.quarantine,
    )


def serialize_trace(decision: Decision) -> str:
    return decision_to_text(decision)
