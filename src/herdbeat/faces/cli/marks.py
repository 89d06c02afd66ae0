"""Glyphs, colours and short words for what happened: one state, one glyph, one word, everywhere."""

from datetime import datetime
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import display_name
from herdbeat.faces.cli.terminal import printable

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
