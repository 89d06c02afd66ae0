"""Glyph, colour and words for how a schedule stands, and what comes next: the same in every list."""

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import StripMark
from herdbeat.durations import brief_duration, format_duration
from herdbeat.faces.cli.marks import OUTCOMES, STATUSES, near_time
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.service.listing import Listed, Next
from herdbeat.service.states import State

STATES = {
    State.RUNNING: ("●", "cyan"),
    State.OK: ("✓", "green"),
    State.LATE: ("◷", "yellow"),
    State.FAILING: ("✗", "red"),
    State.PAUSED: ("‖", "blue"),
    State.DISABLED: ("○", "dim"),
    State.WAITING: ("⚡", "cyan"),
    State.NEW: ("·", "bold"),
    State.DONE: ("▪", "dim"),
}

_WITHOUT_TIME = {Next.AFTER_RUN: "after run", Next.ON_CALL: "on call", Next.NEVER: "—"}


def state_words(terminal: Terminal, each: Listed) -> str:
    glyph, colour = STATES[each.state]
    count = f" {each.record.failures}" if each.state is State.FAILING and each.record.failures else ""
    return terminal.style(f"{glyph} {each.state}{count}", colour)


def when_words(each: Listed) -> str:
    """every 5m; under a hint: every 30s ↯ (5m)"""
    own = each.record.plan.trigger.describe()
    if each.hint is None or each.hint.every is None:
        return own
    return f"every {format_duration(each.hint.every)} ↯ ({own.removeprefix('every ')})"


def next_words(each: Listed, now: datetime, zone: ZoneInfo) -> str:
    if each.at is None:
        return _WITHOUT_TIME.get(each.next, "—")
    match each.next:
        case Next.OVERDUE:
            return f"{brief_duration(now - each.at)} ago"
        case Next.RESUMES:
            return near_time(each.at, now, zone).removesuffix(":00")
        case _:
            return "now" if each.at <= now else brief_duration(each.at - now)


def last_words(each: Listed, now: datetime) -> str:
    if each.state is State.RUNNING:
        return "now"
    last = each.record.last_run_at
    return "—" if last is None else f"{brief_duration(now - last)} ago"


def strip_words(terminal: Terminal, strip: Iterable[StripMark]) -> str:
    """One glyph for each of the last beats, the newest on the right."""
    return "".join(terminal.style(*strip_mark(mark)) for mark in strip)


def strip_mark(mark: StripMark) -> tuple[str, str]:
    if mark.outcome is BeatOutcome.RAN and mark.status is not None:
        glyph, _, colour = STATUSES[mark.status]
        return glyph, colour
    return OUTCOMES[mark.outcome]
