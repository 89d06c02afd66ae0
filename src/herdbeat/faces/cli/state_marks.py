"""Glyph, colour and words for how a schedule stands, and what comes next: the same in every list."""

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.records import BeatMark
from herdbeat.durations import format_duration, humanize_short
from herdbeat.faces.cli.marks import OUTCOME_SYMBOLS, RUN_STATUS_SYMBOLS, format_time
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.service.listing import NextRunKind, ScheduleSummary
from herdbeat.service.states import DisplayState

STATE_SYMBOLS = {
    DisplayState.RUNNING: ("●", "cyan"),
    DisplayState.OK: ("✓", "green"),
    DisplayState.LATE: ("◷", "yellow"),
    DisplayState.FAILING: ("✗", "red"),
    DisplayState.PAUSED: ("‖", "blue"),
    DisplayState.DISABLED: ("○", "dim"),
    DisplayState.WAITING: ("⚡", "cyan"),
    DisplayState.NEW: ("·", "bold"),
    DisplayState.DONE: ("▪", "dim"),
}

_NEXT_WITHOUT_TIME = {NextRunKind.AFTER_RUN: "after run", NextRunKind.ON_CALL: "on call", NextRunKind.NEVER: "—"}


def format_state(terminal: Terminal, each: ScheduleSummary) -> str:
    glyph, colour = STATE_SYMBOLS[each.state]
    count = f" {each.record.failures}" if each.state is DisplayState.FAILING and each.record.failures else ""
    return terminal.style(f"{glyph} {each.state}{count}", colour)


def format_trigger(each: ScheduleSummary) -> str:
    """every 5m; under a hint: every 30s ↯ (5m)"""
    own = each.record.plan.trigger.describe()
    if each.hint is None or each.hint.every is None:
        return own
    return f"every {format_duration(each.hint.every)} ↯ ({own.removeprefix('every ')})"


def format_next_run(each: ScheduleSummary, now: datetime, zone: ZoneInfo) -> str:
    if each.at is None:
        return _NEXT_WITHOUT_TIME.get(each.next, "—")
    match each.next:
        case NextRunKind.OVERDUE:
            return f"{humanize_short(now - each.at)} ago"
        case NextRunKind.RESUMES:
            return format_time(each.at, now, zone).removesuffix(":00")
        case _:
            return "now" if each.at <= now else humanize_short(each.at - now)


def format_last_run(each: ScheduleSummary, now: datetime) -> str:
    if each.state is DisplayState.RUNNING:
        return "now"
    last = each.record.last_run_at
    return "—" if last is None else f"{humanize_short(now - last)} ago"


def format_beat_marks(terminal: Terminal, strip: Iterable[BeatMark]) -> str:
    """One glyph for each of the last beats, the newest on the right."""
    return "".join(terminal.style(*beat_mark_symbol(mark)) for mark in strip)


def beat_mark_symbol(mark: BeatMark) -> tuple[str, str]:
    if mark.outcome is BeatOutcome.RAN and mark.status is not None:
        glyph, _, colour = RUN_STATUS_SYMBOLS[mark.status]
        return glyph, colour
    return OUTCOME_SYMBOLS[mark.outcome]
