"""The states a person sees: one word for how a schedule stands."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from herdbeat.durations import humanize

if TYPE_CHECKING:
    from herdbeat.domain.records import ScheduleRecord


# What holds a schedule back, in words: who has paused it or switched it off, for how long, why, and the way back.


class Pausable(Protocol):
    @property
    def paused(self) -> bool: ...

    @property
    def paused_until(self) -> datetime | None: ...


def is_paused(record: Pausable, now: datetime) -> bool:
    return record.paused and (record.paused_until is None or record.paused_until > now)


def describe_pause(record: "ScheduleRecord", now: datetime) -> str:
    end = "" if record.paused_until is None else f" for another {humanize(record.paused_until - now)}"
    by = f" by {record.paused_by}" if record.paused_by else ""
    reason = f' "{record.paused_reason}"' if record.paused_reason else ""
    return f"paused{end}{by}{reason}; go on with: herdbeat resume {record.label}"


def describe_skips(record: "ScheduleRecord") -> str:
    """What somebody asked to let pass."""
    beats = "the next beat is" if record.skips == 1 else f"the next {record.skips} beats are"
    reason = f' "{record.skips_reason}"' if record.skips_reason else ""
    return f"{beats} let pass, asked by {record.skips_by}{reason}; take it back: herdbeat skip --clear {record.label}"


def describe_disabled(record: "ScheduleRecord") -> str:
    """Either of the two may say no, and each has its own way back."""
    by_hand = f"it is disabled by {record.disabled_by} (herdbeat enable {record.label})" if record.disabled_by else ""
    place = f" in {record.origin}" if record.origin else " in its file"
    by_file = "" if record.enabled else f"enabled: false{place}"
    return " and ".join(part for part in (by_hand, by_file) if part)


class DisplayState(StrEnum):
    RUNNING = "running"
    OK = "ok"
    LATE = "late"  # due for longer than late_after, and not started
    FAILING = "failing"
    PAUSED = "paused"
    DISABLED = "disabled"
    WAITING = "waiting"  # only an event can fire it
    NEW = "new"
    DONE = "done"  # a one-shot that has fired, or a schedule whose life is over


class DisplayStateSource(Pausable, Protocol):
    """What is asked of a schedule: a whole record has it, and so has what a shell completes with in an instant."""

    @property
    def running(self) -> int: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def disabled_by(self) -> str | None: ...
    @property
    def waiting(self) -> int: ...
    @property
    def quarantine(self) -> str | None: ...
    @property
    def failures(self) -> int: ...
    @property
    def next_run_at(self) -> datetime | None: ...
    @property
    def last_run_at(self) -> datetime | None: ...
    @property
    def late_after(self) -> timedelta: ...
    @property
    def waits_for_event(self) -> bool: ...


def resolve_display_state(record: DisplayStateSource, now: datetime) -> DisplayState:
    """The first that fits: what happens now before what is held, what is held before what went wrong."""
    if record.running:
        return DisplayState.RUNNING
    if not record.enabled or record.disabled_by is not None:
        return DisplayState.DISABLED
    if is_paused(record, now):
        return DisplayState.PAUSED
    if record.waiting or is_late(record, now):
        return DisplayState.LATE
    if record.quarantine is not None or record.failures:
        return DisplayState.FAILING
    return _resolve_idle_state(record)


def is_late(record: DisplayStateSource, now: datetime) -> bool:
    return record.next_run_at is not None and record.next_run_at + record.late_after < now


def _resolve_idle_state(record: DisplayStateSource) -> DisplayState:
    if record.next_run_at is None:
        return DisplayState.WAITING if record.waits_for_event else DisplayState.DONE
    return DisplayState.OK if record.last_run_at is not None else DisplayState.NEW
