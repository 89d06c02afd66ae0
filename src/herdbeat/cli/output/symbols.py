"""Glyphs, colours and short words for states and outcomes: one state, one glyph, one word, on every screen.

It imports nothing that reads the ledger or logs: `validate` counts with `format_count` and must not load SQLite.
"""

from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.cli.output.terminal import printable
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.ids import display_name
from herdbeat.domain.records import BeatMark, BeatRecord, RunRecord
from herdbeat.domain.run_status import RunStatus
from herdbeat.service.queries.schedule_state import DisplayState

if TYPE_CHECKING:
    from herdbeat.events import BeatSettled

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

STATE_SYMBOLS = {
    DisplayState.RUNNING: ("●", "cyan"),
    DisplayState.OK: ("✓", "green"),
    DisplayState.LATE: ("◷", "yellow"),
    DisplayState.FAILING: ("✗", "red"),
    DisplayState.PAUSED: ("‖", "magenta"),
    DisplayState.DISABLED: ("○", "dim"),
    DisplayState.WAITING: ("⚡", "cyan"),
    DisplayState.NEW: ("·", "bold"),
    DisplayState.DONE: ("▪", "dim"),
}


def beat_symbol(beat: BeatRecord) -> tuple[str, str]:
    """Return glyph and colour; for a beat that ran, those of its last run."""
    return _outcome_symbol(beat.outcome, beat.last_status)


def beat_mark_symbol(mark: BeatMark) -> tuple[str, str]:
    return _outcome_symbol(mark.outcome, mark.status)


def _outcome_symbol(outcome: BeatOutcome, status: RunStatus | None) -> tuple[str, str]:
    if outcome is BeatOutcome.RAN and status is not None:
        glyph, _, colour = RUN_STATUS_SYMBOLS[status]
        return glyph, colour
    return OUTCOME_SYMBOLS[outcome]


CUT_OFF_SYMBOL = ("–", "cut off", "dim")
"""A run that the ledger calls running, although its node has died and no other one runs."""


def format_run_result(run: RunRecord) -> str:
    """Return how a run ended. A request that succeeded shows its HTTP status; the error of a failure begins with it."""
    return str(run.code) if run.code and run.status is RunStatus.SUCCEEDED else RUN_STATUS_SYMBOLS[run.status][1]


def short_label(schedule: str) -> str:
    """Return the name that people use: `target/default` is the target alone."""
    target, slash, name = schedule.rpartition("/")
    return display_name(target, name) if slash else schedule


def format_time(moment: datetime, now: datetime, zone: ZoneInfo) -> str:
    """Return 09:05:04 today, "tomorrow 09:00", "Mon 30 Mar 09:00" later; seconds only if there are any."""
    local, today = moment.astimezone(zone), now.astimezone(zone).date()
    clock = local.strftime("%H:%M:%S" if local.second or local.date() == today else "%H:%M")
    days = (local.date() - today).days
    if days == 0:
        return clock
    date_format = "%a %d %b" if local.year == today.year else "%a %d %b %Y"
    day = {1: "tomorrow", -1: "yesterday"}.get(days) or local.strftime(date_format)
    return f"{day} {clock}"


def format_due(beat: "BeatRecord | BeatSettled", now: datetime, zone: ZoneInfo) -> str:
    """Return when a beat was due; from first to last instant if it stands for several."""
    first = format_time(beat.due_at, now, zone)
    if beat.count == 1:
        return first
    last, last_day = format_time(beat.last_due_at, now, zone), beat.last_due_at.astimezone(zone).date()
    is_long = last_day != beat.due_at.astimezone(zone).date()
    # A time alone is read as one of the day before it.
    return f"{first} to today {last}" if is_long and last_day == now.astimezone(zone).date() else f"{first} to {last}"


def format_cause(source: Source, origin: str = "", *, is_brief: bool = False) -> str:
    """Return why a beat was due, and its origin. The brief form is empty for the usual cause, the baseline.

    People give hints too, so a hint is called one here; `--json` has the source as stored, `ai-interval`.
    """
    if is_brief and source in (Source.BASELINE_CRON, Source.BASELINE_INTERVAL):
        return ""
    word = "hint" if source in (Source.AI_INTERVAL, Source.AI_ONESHOT) else source.value
    return printable(f"{word} ({origin})" if origin else word)
