"""What becomes of instants that have passed: run, caught up, merged or missed. Pure, and exact to the instant.

Outside its active hours an instant is skipped, whoever was there. For the others the order is that of SEMANTICS 9: what
is past `max_late` is too late; the newest missed instant, if it is at most `grace` late, simply runs; the rest of the
missed follow `catchup`. Missed comes only from a recorded gap, never from mere lateness: while a node lives, an instant
runs however late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.gap import Gap
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.trigger import Trigger
from herdbeat.scheduler.hours import part_by_hours
from herdbeat.scheduler.instants import Instants, newest, passed, up_to

_SMALLEST = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of some consecutive instants. `PENDING` means that it is to be run, as soon as it may."""

    instants: Instants
    outcome: BeatOutcome
    reason: str = ""
    source: Source | None = None


def account(now: datetime, due_at: datetime, trigger: Trigger, policies: Policies, gaps: Sequence[Gap]) -> list[Fate]:
    """The fates of `due_at` and everything the calendar had since, in order of time."""
    ends_at = policies.bounds.ends_at
    until = now if ends_at is None else max(min(now, ends_at), due_at)  # past its end nothing is due
    inside, outside = part_by_hours(trigger, passed(trigger, due_at, until), policies.active_hours)
    fates = [Fate(each, BeatOutcome.SKIPPED, SkipReason.INACTIVE_HOURS) for each in outside]
    if policies.max_late is not None:
        # An instant exactly max_late old still runs: only what is older is too late.
        old, inside = _cut(trigger, inside, now - policies.max_late - _SMALLEST)
        fates += [Fate(each, BeatOutcome.MISSED, MissedReason.TOO_LATE) for each in old]
    fates += _by_gaps(now, inside, trigger, policies, gaps)
    return sorted(fates, key=lambda fate: fate.instants.first)


def _cut(trigger: Trigger, pieces: list[Instants], moment: datetime) -> tuple[list[Instants], list[Instants]]:
    """Those at or before the moment, and those after it."""
    parts = [up_to(trigger, piece, moment) for piece in pieces]
    return [early for early, _ in parts if early is not None], [late for _, late in parts if late is not None]


def _by_gaps(
    now: datetime, pieces: list[Instants], trigger: Trigger, policies: Policies, gaps: Sequence[Gap]
) -> list[Fate]:
    """Part the instants at the edges of the gaps, then judge: absences first, as what runs may absorb them."""
    absent: list[tuple[Instants, Gap]] = []
    live: list[Instants] = []
    rest = pieces
    for gap in sorted(gaps, key=lambda gap: gap.from_at):
        before, rest = _cut(trigger, rest, gap.from_at)
        live += before
        within, rest = _cut(trigger, rest, gap.until)
        absent += [(each, gap) for each in within]
    live += rest
    fates = _missed(now, absent, trigger, policies, absorbed=bool(live))
    return fates + [Fate(each, BeatOutcome.PENDING) for each in live]


def _missed(
    now: datetime, absent: list[tuple[Instants, Gap]], trigger: Trigger, policies: Policies, *, absorbed: bool
) -> list[Fate]:
    if not absent:
        return []
    fates: list[Fate] = []
    latest, gap = absent[-1]
    if now - latest.last <= policies.grace:
        rest, (just_late,) = newest(trigger, latest, 1)
        fates.append(Fate(Instants.one(just_late), BeatOutcome.PENDING))
        absent, absorbed = [*absent[:-1], *([(rest, gap)] if rest else [])], True
    return fates + _caught_up(absent, trigger, policies, absorbed=absorbed)


def _caught_up(
    absent: list[tuple[Instants, Gap]], trigger: Trigger, policies: Policies, *, absorbed: bool
) -> list[Fate]:
    match policies.catchup:
        case Catchup.SKIP:
            return [Fate(each, BeatOutcome.MISSED, gap.reason) for each, gap in absent]
        case Catchup.ONCE:
            return _once([each for each, _ in absent], trigger, absorbed=absorbed)
        case Catchup.ALL:
            return _all(absent, trigger, policies.catchup_max)
        case never:
            assert_never(never)


def _once(absent: list[Instants], trigger: Trigger, *, absorbed: bool) -> list[Fate]:
    """One run for all of them: the newest, unless another beat runs anyway and absorbs it too."""
    fates: list[Fate] = []
    if absent and not absorbed:
        rest, (chosen,) = newest(trigger, absent[-1], 1)
        fates.append(Fate(Instants.one(chosen), BeatOutcome.PENDING, source=Source.CATCH_UP))
        absent = [*absent[:-1], *([rest] if rest else [])]
    return fates + [Fate(each, BeatOutcome.MERGED, Catchup.ONCE) for each in absent]


def _all(absent: list[tuple[Instants, Gap]], trigger: Trigger, at_most: int) -> list[Fate]:
    """Each on its own, the newest so many; what is older than those is missed."""
    fates: list[Fate] = []
    for instants, gap in reversed(absent):
        rest: Instants | None = instants
        if at_most > 0:
            rest, listed = newest(trigger, instants, at_most)
            fates += [Fate(Instants.one(each), BeatOutcome.PENDING, source=Source.CATCH_UP) for each in listed]
            at_most -= len(listed)
        if rest is not None:
            fates.append(Fate(rest, BeatOutcome.MISSED, gap.reason))
    return fates
