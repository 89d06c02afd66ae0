"""The cells of a schedule in `list` and `show`: trigger, state, last run, next run and the marks of its last beats."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.cli.output.symbols import STATE_SYMBOLS, beat_mark_symbol, format_time
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.domain.records import BeatMark
from herdbeat.durations import format_duration, humanize_short
from herdbeat.service.queries.schedule_state import DisplayState, describe_retry
from herdbeat.service.queries.schedules import NextRunKind, ScheduleSummary

ONE_SECOND = timedelta(seconds=1)
_NEXT_WITHOUT_TIME = {NextRunKind.AFTER_RUN: "after run", NextRunKind.ON_CALL: "on event", NextRunKind.NEVER: "—"}


def schedule_row(terminal: Terminal, schedule: ScheduleSummary, now: datetime, zone: ZoneInfo) -> list[str]:
    """Return the row of a schedule: label, trigger, state, last run, next run, marks."""
    label, trigger = printable(schedule.record.label), printable(format_trigger(schedule))
    state, marks = format_state(terminal, schedule), format_beat_marks(terminal, schedule.strip)
    return [label, trigger, state, format_last_run(schedule, now), format_next_run(schedule, now, zone), marks]


def format_state(terminal: Terminal, schedule: ScheduleSummary) -> str:
    glyph, colour = STATE_SYMBOLS[schedule.state]
    failures = schedule.record.failures if schedule.state is DisplayState.FAILING else 0
    count = f" {failures}" if failures else ""
    return terminal.style(f"{glyph} {schedule.state}{count}", colour)


def format_trigger(schedule: ScheduleSummary) -> str:
    """Return `every 5m`; with an active hint `every 30s ↯ (5m)`."""
    own = schedule.record.plan.trigger.describe()
    if schedule.hinted_pace is None:
        return own
    return f"every {format_duration(schedule.hinted_pace)} ↯ ({own.removeprefix('every ')})"


def format_next_run(schedule: ScheduleSummary, now: datetime, zone: ZoneInfo) -> str:
    if (hold := schedule.account_hold) is not None and schedule.next is NextRunKind.OVERDUE:
        return f"{printable(hold.account)} opens in {humanize_short(max(hold.until - now, ONE_SECOND))}"
    if schedule.next is NextRunKind.RETRY:
        return describe_retry(schedule.record, now)
    if schedule.at is None and schedule.record.was_cut_off:
        return "after start"
    if schedule.at is None:
        return _NEXT_WITHOUT_TIME.get(schedule.next, "—")
    match schedule.next:
        case NextRunKind.OVERDUE:
            return f"{humanize_short(now - schedule.at)} ago"
        case NextRunKind.RESUMES:
            return format_time(schedule.at, now, zone).removesuffix(":00")
        case _:
            return "now" if schedule.at - now < ONE_SECOND else humanize_short(schedule.at - now)


def format_last_run(schedule: ScheduleSummary, now: datetime) -> str:
    if schedule.state is DisplayState.RUNNING:
        return "now"
    last = schedule.record.last_run_at
    return "—" if last is None else f"{humanize_short(now - last)} ago"


def format_beat_marks(terminal: Terminal, marks: Iterable[BeatMark]) -> str:
    """Return one glyph for each of the last beats, the newest on the right."""
    return "".join(terminal.style(*beat_mark_symbol(mark)) for mark in marks)
