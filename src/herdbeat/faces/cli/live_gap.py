"""The block of `herdbeat up` about time in which nobody was there: how long, what is caught up, what was missed."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.durations import humanize
from herdbeat.events import BeatSettled
from herdbeat.faces.cli.marks import format_time, short_label
from herdbeat.faces.cli.terminal import Terminal, display_width, printable
from herdbeat.service.reasons import MISSED_TEXTS

MIN_REPORTED_GAP = timedelta(seconds=30)
"""A restart within the usual grace loses nothing, so nothing is said about it."""

MAX_GAP_ROWS = 10
"""Schedules that are named one by one; the ledger has the others."""


def is_gap_beat(event: BeatSettled) -> bool:
    """Whether instants were lost, or are caught up, because of the gap."""
    if event.outcome is BeatOutcome.PENDING:
        return event.reason == Source.CATCH_UP
    return event.outcome in (BeatOutcome.MISSED, BeatOutcome.MERGED)


def gap_lines(terminal: Terminal, gap: Gap, events: list[BeatSettled], now: datetime, zone: ZoneInfo) -> list[str]:
    """Empty if there is nothing to tell."""
    if gap.until - gap.from_at < MIN_REPORTED_GAP and not events:
        return []
    down = humanize(gap.until - gap.from_at)
    head = f"Down for {down} ({MISSED_TEXTS[gap.reason]}).  {_count_outcomes(events)}."
    hint = f"→ herdbeat beats --since {_format_since(now - gap.from_at)}"
    rows = [_gap_row(each, now, zone) for each in events[:MAX_GAP_ROWS]]
    more = [f"  and {len(events) - MAX_GAP_ROWS} more"] if len(events) > MAX_GAP_ROWS else []
    return [
        *_gap_headline(terminal, head, hint if events else ""),
        *terminal.format_table(rows, indent="  ", shrink=(3,)),
        *more,
    ]


def _gap_headline(terminal: Terminal, head: str, hint: str) -> list[str]:
    """What to call stands behind it, or below where the screen is narrow."""
    styled = terminal.style(hint, "dim")
    if terminal.columns is None or display_width(f"{head}   {hint}") <= terminal.columns:
        return [f"{head}   {styled}".rstrip()]
    return [head, styled]


def _format_since(age: timedelta) -> str:
    """A round duration that reaches back past the beginning of the gap."""
    minutes = int(age.total_seconds() // 60) + 1
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60 + 1}h"


def _count_outcomes(events: Iterable[BeatSettled]) -> str:
    """1 caught up, 2 missed"""
    sums = {"caught up": 0, "missed": 0, "merged": 0}
    for event in events:
        word = "caught up" if event.outcome is BeatOutcome.PENDING else event.outcome.value
        sums[word] += event.count
    parts = [f"{number} {word}" for word, number in sums.items() if number]
    return ", ".join(parts) or "Nothing was due"


def _gap_row(event: BeatSettled, now: datetime, zone: ZoneInfo) -> list[str]:
    due = f"due {format_time(event.due_at, now, zone)}"
    if event.count > 1:
        due += f" to {format_time(event.last_due_at, now, zone)}"
    word, why = _describe_gap_outcome(event, now)
    return [printable(short_label(event.schedule)), due, word, why]


def _describe_gap_outcome(event: BeatSettled, now: datetime) -> tuple[str, str]:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return "running now", f"catchup, {humanize(now - event.due_at)} late"
    if event.outcome is BeatOutcome.MERGED:
        return f"merged{many}", "one run for all"
    if event.reason == MissedReason.TOO_LATE:
        return f"missed{many}", "older than max_late"
    return f"missed{many}", "not caught up"
