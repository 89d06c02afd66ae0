"""Glyphs, colours and short words for what happened: one state, one glyph, one word, everywhere."""

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.records import BeatMark, BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import display_name
from herdbeat.durations import format_duration, humanize_short
from herdbeat.service.queries.schedule_state import DisplayState
from herdbeat.service.queries.schedules import NextRunKind, ScheduleSummary

OUTCOME_SYMBOLS = {
    BeatOutcome.PENDING: ("◷", "yellow"),
    BeatOutcome.RUNNING: ("●", "cyan"),
    BeatOutcome.RAN: ("✓", "green"),
    BeatOutcome.SKIPPED: ("–", "dim"),
    BeatOutcome.MISSED: ("·", "yellow"),
    BeatOutcome.MERGED: ("–", "dim"),
}

RUN_STATUS_SYMBOLS = {
    RunStatus.RUNNING: ("●", "running", "cyan"),
    RunStatus.SUCCEEDED: ("✓", "ok", "green"),
    RunStatus.FAILED: ("✗", "failed", "red"),
    RunStatus.TIMED_OUT: ("✗", "timed out", "red"),
    RunStatus.CANCELLED: ("–", "cancelled", "yellow"),
    RunStatus.INTERRUPTED: ("–", "interrupted", "yellow"),
    RunStatus.SKIPPED: ("–", "skipped", "dim"),
}


def beat_symbol(beat: BeatRecord) -> tuple[str, str]:
    """Glyph and colour; of a beat that ran, those of how it ended."""
    if beat.outcome is BeatOutcome.RAN and beat.last_status is not None:
        glyph, _, colour = RUN_STATUS_SYMBOLS[beat.last_status]
        return glyph, colour
    return OUTCOME_SYMBOLS[beat.outcome]


def format_run_result(run: RunRecord) -> str:
    """How a run ended. An endpoint says it by its status, as in `✓ 200`; a failure's is the first word of its error."""
    return str(run.code) if run.code and run.status is RunStatus.SUCCEEDED else RUN_STATUS_SYMBOLS[run.status][1]


def short_label(schedule: str) -> str:
    """`target/default` as people call it: the target alone."""
    target, slash, name = schedule.rpartition("/")
    return display_name(target, name) if slash else schedule


def format_time(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """09:05:04 today, "tomorrow 09:00", "Mon 30 Mar 09:00" later; seconds only where there are any."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    clock = local.strftime("%H:%M:%S" if local.second or local.date() == today else "%H:%M")
    days = (local.date() - today).days
    if days == 0:
        return clock
    day = {1: "tomorrow", -1: "yesterday"}.get(days) or local.strftime(
        "%a %d %b" if local.year == today.year else "%a %d %b %Y"
    )
    return f"{day} {clock}"


def format_cause(source: Source, origin: str, *, is_brief: bool) -> str:
    """Why an instant was due, and by whom. Where room is short, what is usual goes without saying."""
    if is_brief and source in (Source.BASELINE_CRON, Source.BASELINE_INTERVAL):
        return ""
    return printable(f"{source} {origin}".strip())


def format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Glyph, colour and words for how a schedule stands, and what comes next: the same in every list.


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
