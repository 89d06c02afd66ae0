"""Read models: the values in which the ledger returns beats, runs, schedules, hints and nodes to queries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import display_name
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.timing import ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatRecord:
    """One due instant, or a range of `count` instants with the same outcome and reason."""

    id: int
    schedule: str
    due_at: datetime
    last_due_at: datetime
    count: int
    outcome: BeatOutcome
    reason: str
    source: Source
    origin: str
    dedup_id: str
    settled_at: datetime | None
    runs: tuple[int, ...]
    last_status: RunStatus | None = None

    @property
    def result(self) -> RunStatus | None:
        """How its last run ended; None without a run. A beat that failed has `ran`, like one that succeeded."""
        return self.last_status


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One attempt at a beat."""

    id: int
    schedule: str
    beat_id: int
    attempt: int
    status: RunStatus
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    code: int | None
    error: str | None
    summary: str | None
    log: str | None
    source: Source
    origin: str
    due_at: datetime
    dedup_id: str
    note: str = ""
    session: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    spend_source: str | None = None
    is_notional: bool | None = None
    error_code: str | None = None
    """Why an agent failed; empty if it did not, None for a run of something else."""
    quiet: bool | None = None
    empty_answer: bool | None = None
    branch: str | None = None
    """Where an agent has left its changes; empty if it has left none."""
    needs_you: tuple[str, ...] | None = None
    acked_by: str | None = None

    @property
    def is_agent(self) -> bool:
        """True if an agent has reported what it did."""
        return self.error_code is not None

    @property
    def open_needs(self) -> tuple[str, ...]:
        """What a person should decide, as long as nobody has acknowledged it."""
        return () if self.acked_by is not None else self.needs_you or ()

    @property
    def began_at(self) -> datetime:
        """When it started; until then, when a node claimed it."""
        return self.started_at or self.claimed_at

    def elapsed(self, now: datetime) -> timedelta:
        """Return how long it took, or has been running until `now`; never negative.

        A query reads the clock before the ledger: a run that started in between would show -264ms.
        """
        return max((self.finished_at or now) - self.began_at, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule with its spec, its state and its counters, as one row for list, show and status."""

    id: int
    target: str
    name: str
    plan: ScheduleSpec
    origin: str
    enabled: bool
    disabled_by: str | None = None
    quarantine: str | None = None
    next_run_at: datetime | None
    next_due_at: datetime | None
    next_source: Source | None
    next_origin: str
    next_trace: str | None = None
    anchor_at: datetime
    is_new: bool
    failures: int = 0
    running: int = 0
    waiting: int = 0
    paused: bool = False
    paused_until: datetime | None = None
    paused_by: str = ""
    paused_reason: str = ""
    last_started_at: datetime | None = None
    last_run_at: datetime | None = None
    last_status: RunStatus | None = None
    last_error: str | None = None
    target_room: int = 1
    target_running: int = 0
    skips: int = 0
    skips_by: str = ""
    skips_reason: str = ""
    runs: int = 0
    was_cut_off: bool = False
    """No node runs, its run died with the last one, and more runs follow: only a screen knows that, not the ledger."""

    retry_at: datetime | None = None
    retry_attempt: int | None = None
    """The next attempt at a beat that has run: its number, and when it starts (None: when there is room)."""
    windows: tuple[PauseWindow, ...] = ()

    @property
    def label(self) -> str:
        return display_name(self.target, self.name)

    @property
    def is_unable(self) -> bool:
        """True if its last run could not start; `last_error` says what is missing."""
        return self.last_status is RunStatus.SKIPPED and self.last_error is not None

    @property
    def late_after(self) -> timedelta:
        return self.plan.policies.late_after

    @property
    def waits_for_event(self) -> bool:
        return self.plan.trigger.kind.waits_for_event


class ScheduleOutline(NamedTuple):
    """What a schedule is found, sorted and grouped by: a few columns, so that ten thousand are read at once."""

    id: int
    target: str
    name: str
    plan: ScheduleSpec
    enabled: bool
    disabled_by: str | None
    quarantine: str | None
    next_run_at: datetime | None
    failures: int
    running: int
    waiting: int
    paused: bool
    paused_until: datetime | None
    last_started_at: datetime | None
    last_run_at: datetime | None
    last_status: str | None
    is_unable: bool
    retry_at: datetime | None
    retry_attempt: int | None
    was_cut_off: bool = False

    @property
    def label(self) -> str:
        return display_name(self.target, self.name)

    @property
    def late_after(self) -> timedelta:
        return self.plan.policies.late_after

    @property
    def waits_for_event(self) -> bool:
        return self.plan.trigger.kind.waits_for_event


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """A target as a row of a list: what it is, where it is defined, and how busy it is."""

    name: str
    kind: str
    origin: str
    max_concurrent: int
    running: int
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePlace:
    """Where an open run on an engine is: the engine, the machine once it has begun, and the name of its job."""

    kind: str
    place: str
    job: str

    def __str__(self) -> str:
        return f"on {self.kind}, {self.place or 'not begun'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRecord:
    """A hint, active or ended; `ended_by` names the person or the rule that ended it."""

    id: int
    schedule: str
    origin: str
    every: timedelta | None
    at: datetime | None
    reason: str
    expires_at: datetime
    created_at: datetime
    ended_at: datetime | None
    ended_by: str


class BeatMark(NamedTuple):
    """The outcome of a beat, reduced to what one glyph of a strip needs. `number` counts the instants it represents.

    `took` is how long its last run has taken, once that has ended.
    """

    beat: int
    outcome: BeatOutcome
    status: RunStatus | None
    number: int
    took: timedelta | None = None


class RunDetails(NamedTuple):
    """The details of a run that only `show RUN` reads: its response and usage, and the node it ran on.

    One that happened on an engine has the name of its `job` there, and the `place` once it has begun.
    """

    response: Any
    usage: Mapping[str, float]
    session: str
    note: str
    host: str
    pid: int | None
    version: str
    executor: str = "local"
    place: str = ""
    job: str = ""


class TimelineSpan(NamedTuple):
    """A beat, or one run of it, as a span on the timeline. `number` counts the instants it represents.

    `run` is the run that the span shows, if one was started.
    """

    schedule: int
    outcome: BeatOutcome
    due_at: datetime
    last_due_at: datetime
    number: int
    status: RunStatus | None
    started_at: datetime | None
    finished_at: datetime | None
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    id: int
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
    labels: tuple[str, ...] = ()
    lease_until: datetime | None = None
    works: bool = True
    running: int = 0


def planned_start(trace: str | None, due_at: datetime) -> datetime:
    """Return when a beat was to start: at its due instant, or later by jitter, spread or its place. `trace` is stored.

    A trace of another instant says nothing about this one: a late claim takes up several of them by one decision.
    """
    data = json.loads(trace) if trace else {}
    start, due = data.get("next_run_at"), data.get("due_at")
    if start is None or due is None or datetime.fromisoformat(due) != due_at:
        return due_at
    return max(due_at, datetime.fromisoformat(start))
