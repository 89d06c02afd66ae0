"""Decisions: when a schedule runs next, and why. The governor returns them; explain, show and next display them."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from herdbeat.timestamps import format_timestamp


class Source(StrEnum):
    """Why a beat is due at its instant. The values are public: the API, the CLI and the ledger use them."""

    BASELINE_CRON = "baseline-cron"
    BASELINE_INTERVAL = "baseline-interval"
    AI_INTERVAL = "ai-interval"
    AI_ONESHOT = "ai-oneshot"
    CLAMPED_MIN = "clamped-min"
    CLAMPED_MAX = "clamped-max"
    PAUSED = "paused"
    FIRST_RUN = "first-run"
    DELAY = "delay"
    CATCH_UP = "catch-up"
    RETRY = "retry"
    MANUAL = "manual"
    WEBHOOK = "webhook"
    CHAT = "chat"
    RULE_TRIGGER = "rule-trigger"
    BACKFILL = "backfill"

    @property
    def is_clock(self) -> bool:
        """True if the schedule's own timing made the beat. Only such beats move its anchor and its next run."""
        return self not in _EVENT_SOURCES


_EVENT_SOURCES = {Source.MANUAL, Source.WEBHOOK, Source.CHAT, Source.RULE_TRIGGER, Source.BACKFILL, Source.RETRY}


class StepKind(StrEnum):
    """What one step of a trace records."""

    CANDIDATE = "candidate"  # a time that was considered; `won` says whether it was chosen
    SHADOWED = "shadowed"  # a hint that a higher-ranked one overrides
    EXPIRED = "expired"  # a hint past its expiry
    JITTER = "jitter"  # moved later, within the gap to the following instant
    CLAMP = "clamp"  # moved by min_interval or max_interval
    BOUND = "bound"  # moved or ended by starts_at, ends_at, max_runs
    HOURS = "hours"  # moved to the next active hours
    PAUSE = "pause"  # held by a pause
    OFF = "off"  # not enabled
    NOTE = "note"  # other information, such as a limit that caps the backoff


class TraceStep(NamedTuple):
    """One step of a trace. `text` is for people; `at` is the candidate time after the step."""

    kind: StepKind
    text: str
    at: datetime | None = None
    source: Source | None = None
    origin: str = ""
    won: bool = False


def step_to_json(step: TraceStep) -> dict[str, object]:
    """Return a step as the API shows it. Empty parts are omitted, because a trace is stored with every beat."""
    data: dict[str, object] = {"kind": step.kind, "text": step.text}
    if step.at is not None:
        data["at"] = format_timestamp(step.at)
    if step.source is not None:
        data["source"] = step.source
    if step.origin:
        data["origin"] = step.origin
    if step.kind is StepKind.CANDIDATE:
        data["won"] = step.won
    return data


class Decision(NamedTuple):
    """When to run next, and the trace of how that was decided.

    `next_run_at` is None if nothing is scheduled; the trace then gives the reason. `due_at` is
    the nominal instant that the beat and its dedup id carry: jitter does not move it. `revisit_at` is set
    if an active hint ends before the run: the schedule must then be decided again. `inputs` are the moment and the
    state that it was decided from, so that it can be replayed.
    """

    next_run_at: datetime | None
    source: Source
    trace: tuple[TraceStep, ...]
    due_at: datetime | None = None
    revisit_at: datetime | None = None
    origin: str = ""
    inputs: tuple[datetime, object] | None = None

    @property
    def wake_at(self) -> datetime | None:
        """When the scheduler has to evaluate the schedule again: the next run or the revisit, whichever is first."""
        if self.next_run_at is None or self.revisit_at is None:
            return self.next_run_at or self.revisit_at
        return min(self.next_run_at, self.revisit_at)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(step.text for step in self.trace if step.kind is StepKind.NOTE)
