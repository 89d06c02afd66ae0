"""The next beat is let pass, because somebody asked for it.

The wish is a number on the schedule: so many of its next clock instants are settled as `skipped: by_request` when they
come, whatever else would have become of them. It survives restarts. An instant that a pause or a switch has settled
already uses it up too: the wish was for that instant, and the one after it is to run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.trigger import Calendar, Trigger, TriggerKind
from herdbeat.scheduler.account import Fate
from herdbeat.scheduler.instants import oldest
from herdbeat.store.base import Standing, Transaction

USES_THE_WISH = frozenset({SkipReason.BY_REQUEST, SkipReason.PAUSED, SkipReason.DISABLED})
LISTED = 20
"""More instants than this nobody reads one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipping:
    """What was wished before and is wished now, and the instants that are known already."""

    schedule: str
    before: int
    skips: int
    instants: tuple[datetime, ...] = ()
    is_calendar: bool = True
    obstacle: str = ""


def skip(tx: Transaction, schedule_id: int, count: int, *, by: str, reason: str = "") -> Skipping:
    """Let the next so many clock instants pass; 0 takes the wish back. Asking twice is asking once."""
    standing = tx.schedules([schedule_id])[schedule_id]
    obstacle = _obstacle(standing) if count else ""
    if not obstacle:
        tx.set_skips(schedule_id, count, by if count else "", reason if count else "")
    return Skipping(
        schedule=standing.label,
        before=standing.skips,
        skips=standing.skips if obstacle else count,
        instants=tuple(coming(standing, count)) if count and not obstacle else (),
        is_calendar=isinstance(standing.plan.trigger, Calendar),
        obstacle=obstacle,
    )


def coming(standing: Standing, count: int) -> list[datetime]:
    """The instants that a wish is about, as far as they are known: a pace knows only its next one."""
    first, trigger = standing.next_due_at, standing.plan.trigger
    if first is None or standing.pause is not None:
        return []
    if not isinstance(trigger, Calendar):
        return [first]
    return list(islice(_walk(trigger, first), min(count, LISTED)))


def let_pass(trigger: Trigger, fates: list[Fate], wished: int) -> list[Fate]:
    """The fates of instants in the order of time, of which the first so many are let pass. Pure.

    What lay outside the active hours was not the schedule's to run, so it does not count.
    """
    left, found = wished, list[Fate]()
    for fate in fates:
        if left <= 0 or fate.reason == SkipReason.INACTIVE_HOURS:
            found.append(fate)
            continue
        asked, rest = oldest(trigger, fate.instants, left)
        found.append(Fate(asked, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST))
        found += [replace(fate, instants=rest)] if rest else []
        left -= asked.count
    return found


def _walk(trigger: Calendar, first: datetime) -> Iterator[datetime]:
    instant: datetime | None = first
    while instant is not None:
        yield instant
        instant = trigger.next_time(None, instant)


def _obstacle(standing: Standing) -> str:
    """Why no instant can come that could be let pass; empty if one can."""
    kind = standing.plan.trigger.kind
    if kind.waits_for_event:
        return f"a {kind} schedule has no beats of its own to let pass"
    if not standing.enabled:
        return "it is disabled, so no beat comes"
    if standing.quarantine is not None or standing.unreadable is not None:
        return "it cannot be decided, so no beat comes"
    is_over = standing.next_run_at is None and standing.pause is None and not (standing.running or standing.waiting)
    return "no further beat is planned" if is_over or _has_fired(standing) else ""


def _has_fired(standing: Standing) -> bool:
    return standing.plan.trigger.kind is TriggerKind.DELAY and standing.next_run_at is None and not standing.is_new
