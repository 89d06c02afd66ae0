"""When next, and why: what the governor answers and every face shows."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from herdbeat.timestamps import format_timestamp


class Source(StrEnum):
    """Why this instant. The first seven are the documented words."""

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
        """True if the schedule's own clock made the beat. Only such beats move its anchor and its next run."""
        return self not in _EVENT_SOURCES


_EVENT_SOURCES = frozenset(
    {Source.MANUAL, Source.WEBHOOK, Source.CHAT, Source.RULE_TRIGGER, Source.BACKFILL, Source.RETRY}
)


class StepKind(StrEnum):
    """What one line of a trace is about."""

    CANDIDATE = "candidate"  # a time that took part; `won` says whether it was chosen
    SHADOWED = "shadowed"  # a hint that a stronger one keeps out
    EXPIRED = "expired"  # a hint that is over
    JITTER = "jitter"  # moved within its own gap, to spread a herd
    CLAMP = "clamp"  # moved by min_interval or max_interval
    BOUND = "bound"  # moved or ended by starts_at, ends_at, max_runs
    HOURS = "hours"  # moved to the next active hours
    PAUSE = "pause"  # held by a pause
    OFF = "off"  # not enabled
    NOTE = "note"  # something worth knowing, such as a limit that cuts the backoff short


class TraceStep(NamedTuple):
    """One line of a trace, in data. `text` is written for people; `at` is where the time stood after it."""

    kind: StepKind
    text: str
    at: datetime | None = None
    source: Source | None = None
    origin: str = ""
    won: bool = False


def step_to_json(step: TraceStep) -> dict[str, object]:
    """A step in the words of the API. Only what it says: most have no origin, and a trace is stored with every beat."""
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
    """When to run next, and the whole story of it.

    `next_run_at` is when it wakes; None says that nothing is planned, and the trace says who can change
    that. `due_at` is the nominal instant that beat and dedup id carry: jitter does not move it.
    `revisit_at` is when an active hint ends before the run: then it must be decided again.
    """

    next_run_at: datetime | None
    source: Source
    trace: tuple[TraceStep, ...]
    due_at: datetime | None = None
    revisit_at: datetime | None = None
    origin: str = ""

    @property
    def wake_at(self) -> datetime | None:
        """The first moment at which somebody has to look at the schedule again."""
        if self.next_run_at is None or self.revisit_at is None:
            return self.next_run_at or self.revisit_at
        return min(self.next_run_at, self.revisit_at)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(step.text for step in self.trace if step.kind is StepKind.NOTE)
