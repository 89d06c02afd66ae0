"""Misfires: whether past instants run, catch up, are merged or missed. Pure, and exact to the instant.

Outside the active hours an instant is skipped. Of the others, those past `max_late` are too late; the newest missed
one, if it is at most `grace` late, simply runs; the rest of the missed follow `catchup`. An instant is missed only in a
recorded gap, never because it is late: while a node lives, an instant runs however late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from herdbeat.domain.beat import BeatOutcome, Gap, MergedReason, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.trigger import Trigger
from herdbeat.scheduler.active_hours import split_by_active_hours
from herdbeat.scheduler.instants import (
    InstantRange,
    due_since,
    insert_moments,
    split_at,
    take_newest,
    without_recorded,
)

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class InstantOutcome:
    """The outcome of consecutive instants. `PENDING` means that they run as soon as they may."""

    instants: InstantRange
    outcome: BeatOutcome
    reason: str = ""
    source: Source | None = None
    origin: str | None = None


def classify_due(
    now: datetime,
    due_at: datetime,
    trigger: Trigger,
    policies: Policies,
    gaps: Sequence[Gap],
    *,
    one_shots: Sequence[datetime] = (),
    recorded: Sequence[tuple[datetime, datetime]] = (),
    windows: Sequence[PauseWindow] = (),
) -> list[InstantOutcome]:
    """Return the outcomes of `due_at` and everything the calendar had since, in order of time.

    One-shot hints whose moments lie between them are instants of their own. Instants of `recorded` rows (first, last)
    have their outcome already, and get no other. Instants in a planned pause are skipped, also in a gap.
    """
    ends_at = policies.bounds.ends_at
    until = now if ends_at is None else max(min(now, ends_at), due_at)  # past its end nothing is due
    inside: list[InstantRange] = []
    outside: list[InstantRange] = []
    passed = insert_moments(trigger, due_since(trigger, due_at, until), one_shots)
    ranges = [each for part in passed for each in without_recorded(trigger, part, recorded)]
    paused, ranges = split_by_windows(trigger, ranges, windows) if windows else ([], ranges)
    for instants in ranges:
        active, inactive = split_by_active_hours(trigger, instants, policies.active_hours)
        inside += active
        outside += inactive
    results = [InstantOutcome(each, BeatOutcome.SKIPPED, SkipReason.INACTIVE_HOURS) for each in outside]
    results += [InstantOutcome(each, BeatOutcome.SKIPPED, SkipReason.PAUSED) for each in paused]
    if policies.max_late is not None:
        # An instant exactly max_late old still runs: only what is older is too late.
        old, inside = _split_ranges(trigger, inside, now - policies.max_late - _TICK)
        results += [InstantOutcome(each, BeatOutcome.MISSED, MissedReason.TOO_LATE) for each in old]
    results += _apply_gaps(now, inside, trigger, policies, gaps)
    return sorted(results, key=lambda result: result.instants.first)


def split_by_windows(
    trigger: Trigger, ranges: list[InstantRange], windows: Sequence[PauseWindow]
) -> tuple[list[InstantRange], list[InstantRange]]:
    """Return the instants inside of planned pauses, and the others. A window has its beginning and not its end."""
    inside: list[InstantRange] = []
    outside: list[InstantRange] = []
    rest = ranges
    for window in sorted(windows, key=lambda each: each.from_at):
        before, rest = _split_ranges(trigger, rest, window.from_at - _TICK)
        outside += before
        within, rest = _split_ranges(trigger, rest, window.until - _TICK)
        inside += within
    return inside, outside + rest


def _split_ranges(
    trigger: Trigger, ranges: list[InstantRange], moment: datetime
) -> tuple[list[InstantRange], list[InstantRange]]:
    """Return the ranges at or before the moment, and those after it."""
    parts = [split_at(trigger, instant_range, moment) for instant_range in ranges]
    return [early for early, _ in parts if early is not None], [late for _, late in parts if late is not None]


def _apply_gaps(
    now: datetime, ranges: list[InstantRange], trigger: Trigger, policies: Policies, gaps: Sequence[Gap]
) -> list[InstantOutcome]:
    """Split the instants at the edges of the gaps. Missed ones are classified first: what runs may absorb them."""
    missed_ranges: list[tuple[InstantRange, Gap]] = []
    live: list[InstantRange] = []
    rest = ranges
    for gap in sorted(gaps, key=lambda gap: gap.from_at):
        before, rest = _split_ranges(trigger, rest, gap.from_at)
        live += before
        within, rest = _split_ranges(trigger, rest, gap.until)
        missed_ranges += [(each, gap) for each in within]
    live += rest
    results = _classify_missed(now, missed_ranges, trigger, policies, is_absorbed=bool(live))
    return results + [InstantOutcome(each, BeatOutcome.PENDING) for each in live]


def _classify_missed(
    now: datetime, missed: list[tuple[InstantRange, Gap]], trigger: Trigger, policies: Policies, *, is_absorbed: bool
) -> list[InstantOutcome]:
    """The newest runs if it is within `grace`; `catchup` decides the rest. Whatever runs anyway absorbs `once`."""
    results: list[InstantOutcome] = []
    if missed and now - missed[-1][0].last <= policies.grace:
        results.append(InstantOutcome(_pop_newest(missed, trigger), BeatOutcome.PENDING))
        is_absorbed = True
    match policies.catchup:
        case Catchup.SKIP:
            return results + [InstantOutcome(each, BeatOutcome.MISSED, gap.reason) for each, gap in missed]
        case Catchup.ONCE:
            if missed and not is_absorbed:
                newest = _pop_newest(missed, trigger)
                results.append(InstantOutcome(newest, BeatOutcome.PENDING, source=Source.CATCH_UP))
            return results + [InstantOutcome(each, BeatOutcome.MERGED, MergedReason.ONCE) for each, _ in missed]
        case Catchup.ALL:
            return results + _apply_catchup_all(missed, trigger, policies.catchup_max)
        case never:
            assert_never(never)


def _pop_newest(missed: list[tuple[InstantRange, Gap]], trigger: Trigger) -> InstantRange:
    """Remove the newest instant from the last of the ranges, and return it."""
    instants, gap = missed.pop()
    rest, (newest,) = take_newest(trigger, instants, 1)
    if rest is not None:
        missed.append((rest, gap))
    return InstantRange.single(newest)


def _apply_catchup_all(
    missed_ranges: list[tuple[InstantRange, Gap]], trigger: Trigger, remaining: int
) -> list[InstantOutcome]:
    """Each of the newest `remaining` gets its own run; older ones are missed."""
    results: list[InstantOutcome] = []
    for instants, gap in reversed(missed_ranges):
        rest: InstantRange | None = instants
        if remaining > 0:
            rest, listed = take_newest(trigger, instants, remaining)
            results += [
                InstantOutcome(InstantRange.single(each), BeatOutcome.PENDING, source=Source.CATCH_UP)
                for each in listed
            ]
            remaining -= len(listed)
        if rest is not None:
            results.append(InstantOutcome(rest, BeatOutcome.MISSED, gap.reason))
    return results
