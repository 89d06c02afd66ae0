"""What a turn does with one schedule, as a value: its beats, which of them start, and when it is due next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.gap import Gap
from herdbeat.governor.replay import decision_to_text
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.store.base import ChangedSchedule, GrownBeat, NewBeat, Standing

GROWS = frozenset({BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED})
"""Outcomes of rows that the next instant may join, if it shares their fate."""


@dataclass(slots=True)
class Verdict:
    """All that a turn does with one schedule. `starts` are places in `beats`. What `stays` keeps its time."""

    standing: Standing
    beats: list[NewBeat] = field(default_factory=list)
    grown: list[GrownBeat] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    parked: int = 0
    cancels: bool = False
    decision: Decision | None = None
    anchor_at: datetime | None = None
    settled_until: datetime | None = None
    quarantine: str | None = None
    let_pass: int = 0
    catching_up: int = 0
    stays: bool = False

    @property
    def last_due_at(self) -> datetime | None:
        """The newest instant that it has settled, started or parked."""
        dues = [beat.last_due_at for beat in self.beats] + [each.last_due_at for each in self.grown]
        return max(dues, default=None)

    @property
    def is_paced(self) -> bool:
        """While it runs it has no next time: the finish decides."""
        standing = self.standing
        return standing.plan.trigger.pace is not None or standing.next_source is Source.AI_INTERVAL


@dataclass(frozen=True, slots=True)
class Bench:
    """What every verdict of one turn shares."""

    now: datetime
    rooms: Rooms
    pacer: Pacer
    gaps: Sequence[Gap] = ()
    paced: Mapping[int, int] = field(default_factory=dict)
    """How many beats of a schedule wait for their pace, and for nothing else."""


def changed(verdict: Verdict, started: int, tail_id: int | None) -> ChangedSchedule:
    """The schedule's row after the verdict."""
    standing, decision = verdict.standing, verdict.decision
    tail = verdict.beats[-1] if verdict.beats else None
    grows = tail is not None and tail.outcome in GROWS
    stays = verdict.stays
    return ChangedSchedule(
        id=standing.id,
        next_run_at=decision.next_run_at if decision else standing.next_run_at if stays else None,
        next_due_at=decision.due_at if decision else standing.next_due_at if stays else None,
        next_source=decision.source if decision else standing.next_source,
        next_origin=decision.origin if decision else standing.next_origin,
        next_trace=trace_of(decision) if decision else None,
        wake_at=decision.wake_at if decision else standing.next_run_at if stays else None,
        anchor_at=verdict.anchor_at or standing.anchor_at,
        settled_until=verdict.settled_until or standing.settled_until,
        is_new=standing.is_new and not verdict.beats,
        failures=standing.failures,
        runs=standing.runs,
        running=standing.running + started,
        waiting=standing.waiting + verdict.parked,
        tail_id=(tail_id if grows else None) if tail else standing.tail_id,
        tail=(f"{tail.outcome}:{tail.reason}" if grows else None) if tail else standing.tail,
        quarantine=verdict.quarantine,
    )


def trace_of(decision: Decision) -> str:
    return decision_to_text(decision)
