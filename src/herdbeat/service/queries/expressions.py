"""Upcoming instants, and those of a bare expression: cron, a duration, a moment.

Apart from `upcoming`, which knows schedules: `herdbeat next "0 9 * * 1-5"` answers without loading the governor and the
policies.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from herdbeat.domain.decision import Source, TraceStep
from herdbeat.domain.trigger import Trigger
from herdbeat.triggers import Cron, Delay, Interval

_DURATION_PATTERN = r"[+-]?[0-9][0-9.,]*\s*[a-z]{0,2}(\s*[0-9]+\s*[smhd])*"
_DATE_PATTERN = r"[0-9]{4}-[0-9]{1,2}-[0-9]"
"""Compiled when an expression is given: `explain` and `next` of a fleet load this module, and read none."""
_PAST_TIME_NOTE = "this time has passed; a new schedule runs immediately"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingRun:
    """One upcoming instant. `notes` say what moved it, and what a clock change does to it.

    `schedule` is a label, and empty for a bare expression.
    """

    schedule: str
    due_at: datetime
    next_run_at: datetime
    source: Source
    notes: tuple[str, ...] = ()
    trace: tuple[TraceStep, ...] = ()


class NoNextRunReason(StrEnum):
    """Why a schedule has no next time."""

    DISABLED = "disabled"
    PAUSED = "paused"  # until it is resumed
    RUNNING = "running"  # decided when the run ends
    CUT_OFF = "cut_off"  # its run died with its node, and no node runs; decided by the next start
    LATE = "late"  # one is due and waits; decided when that one has run
    BROKEN = "broken"  # it cannot be decided
    WAITING = "waiting"  # only an event can fire it
    ENDED = "ended"  # its life is over, or no instant of it can happen


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscheduledEntry:
    """A schedule without a time, and the reason."""

    schedule: str
    when: str
    cause: NoNextRunReason
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingView:
    """The instants from `start` on, and the schedules that have none. `trigger` is that of a bare expression."""

    zone: ZoneInfo
    start: datetime
    instants: tuple[UpcomingRun, ...]
    unscheduled: tuple[UnscheduledEntry, ...] = ()
    until: datetime | None = None
    trigger: Trigger | None = None


def parse_expression(text: str, zone: ZoneInfo) -> Trigger | None:
    """Return the trigger of a text: cron, a duration or a moment; None if it looks like none of them.

    Raises the error of the kind that it looks like.
    """
    written = text.strip()
    if re.match(_DATE_PATTERN, written):
        return Delay.parse(written)
    if re.fullmatch(_DURATION_PATTERN, written, re.IGNORECASE):
        return Interval.parse(written)
    return Cron.parse(written, zone) if written.startswith("@") or len(written.split()) > 1 else None


def parse_cron(text: str, zone: ZoneInfo) -> Trigger:
    """Parse a text as cron, whatever it looks like. Raises CronParseError."""
    return Cron.parse(text, zone)


def iter_trigger_runs(trigger: Trigger, now: datetime) -> Iterator[UpcomingRun]:
    """Yield the instants of an expression: what a schedule without policies would do.

    An interval counts from `now`, as if a run had just ended; a moment that has passed is due at once.
    """
    return stop_at_calendar_end(_iter_trigger_runs(trigger, now))


def stop_at_calendar_end(instants: Iterator[UpcomingRun]) -> Iterator[UpcomingRun]:
    """Yield the instants until the end of the year 9999, which ends them without an error."""
    try:
        yield from instants
    except OverflowError:
        return


def describe_clock_change(trigger: Trigger, due_at: datetime, previous: datetime | None) -> tuple[str, ...]:
    """Describe what a clock change does to an instant. Only cron follows the clocks of a zone."""
    return tuple(note.text for note in trigger.notes(due_at, previous)) if isinstance(trigger, Cron) else ()


def _iter_trigger_runs(trigger: Trigger, now: datetime) -> Iterator[UpcomingRun]:
    last = now if trigger.interval else None
    previous: datetime | None = None
    while (due_at := trigger.next_time(last, now)) is not None:
        last = now = max(due_at, now)
        notes = describe_clock_change(trigger, due_at, previous) if due_at == now else (_PAST_TIME_NOTE,)
        yield UpcomingRun(schedule="", due_at=due_at, next_run_at=now, source=trigger.kind.source, notes=notes)
        previous = due_at
