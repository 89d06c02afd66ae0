"""The block of `herdbeat up` about time in which nobody was there: how long, what is caught up, what was missed."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.durations import spoken_duration
from herdbeat.events import BeatSettled
from herdbeat.faces.cli.marks import near_time, short_label
from herdbeat.faces.cli.terminal import Terminal, printable, width
from herdbeat.service.reasons import CAUSES

WORTH_A_WORD = timedelta(seconds=30)
"""A restart within the usual grace loses nothing, so nothing is said about it."""

MOST = 10
"""Schedules that are named one by one; the ledger has the others."""


def is_about_gap(event: BeatSettled) -> bool:
    """Whether instants were lost, or are caught up, because of the gap."""
    if event.outcome is BeatOutcome.PENDING:
        return event.reason == Source.CATCH_UP
    return event.outcome in (BeatOutcome.MISSED, BeatOutcome.MERGED)


def gap_block(terminal: Terminal, gap: Gap, events: list[BeatSettled], now: datetime, zone: ZoneInfo) -> list[str]:
    """Empty if there is nothing to tell."""
    if gap.until - gap.from_at < WORTH_A_WORD and not events:
        return []
    down = spoken_duration(gap.until - gap.from_at)
    head = f"Down for {down} ({CAUSES[gap.reason]}).  {_counts(events)}."
    hint = f"→ herdbeat beats --since {_reaching(now - gap.from_at)}"
    rows = [_row(each, now, zone) for each in events[:MOST]]
    more = [f"  and {len(events) - MOST} more"] if len(events) > MOST else []
    return [*_headline(terminal, head, hint if events else ""), *terminal.lines(rows, indent="  ", shrink=(3,)), *more]


def _headline(terminal: Terminal, head: str, hint: str) -> list[str]:
    """What to call stands behind it, or below where the screen is narrow."""
    styled = terminal.style(hint, "dim")
    if terminal.columns is None or width(f"{head}   {hint}") <= terminal.columns:
        return [f"{head}   {styled}".rstrip()]
    return [head, styled]


def _reaching(age: timedelta) -> str:
    """A round duration that reaches back past the beginning of the gap."""
    minutes = int(age.total_seconds() // 60) + 1
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60 + 1}h"


def _counts(events: Iterable[BeatSettled]) -> str:
    """1 caught up, 2 missed"""
    sums = {"caught up": 0, "missed": 0, "merged": 0}
    for event in events:
        word = "caught up" if event.outcome is BeatOutcome.PENDING else event.outcome.value
        sums[word] += event.count
    told = [f"{number} {word}" for word, number in sums.items() if number]
    return ", ".join(told) or "Nothing was due"


def _row(event: BeatSettled, now: datetime, zone: ZoneInfo) -> list[str]:
    due = f"due {near_time(event.due_at, now, zone)}"
    if event.count > 1:
        due += f" to {near_time(event.last_due_at, now, zone)}"
    word, why = _fate(event, now)
    return [printable(short_label(event.schedule)), due, word, why]


def _fate(event: BeatSettled, now: datetime) -> tuple[str, str]:
    many = f" x{event.count}" if event.count > 1 else ""
    if event.outcome is BeatOutcome.PENDING:
        return "running now", f"catchup, {spoken_duration(now - event.due_at)} late"
    if event.outcome is BeatOutcome.MERGED:
        return f"merged{many}", "one run for all"
    if event.reason == MissedReason.TOO_LATE:
        return f"missed{many}", "older than max_late"
    return f"missed{many}", "not caught up"
