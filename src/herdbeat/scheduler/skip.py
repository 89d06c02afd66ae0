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
from herdbeat.domain.trigger import CalendarTrigger, Trigger, TriggerKind
from herdbeat.scheduler.account import InstantOutcome
from herdbeat.scheduler.instants import take_oldest
from herdbeat.store.base import ScheduleSnapshot, Transaction

CONSUMES_SKIP = frozenset({SkipReason.BY_REQUEST, SkipReason.PAUSED, SkipReason.DISABLED})
MAX_LISTED_INSTANTS = 20
"""More instants than this nobody reads one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipNextResult:
    """What was wished before and is wished now, and the instants that are known already."""

    schedule: str
    before: int
    skips: int
    instants: tuple[datetime, ...] = ()
    is_calendar: bool = True
    obstacle: str = ""


def set_skip_next(tx: Transaction, schedule_id: int, count: int, *, by: str, reason: str = "") -> SkipNextResult:
    """Let the next so many clock instants pass; 0 takes the wish back. Asking twice is asking once."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    obstacle = _find_skip_obstacle(snapshot) if count else ""
    if not obstacle:
        tx.set_skips(schedule_id, count, by if count else "", reason if count else "")
    return SkipNextResult(
        schedule=snapshot.label,
        before=snapshot.skips,
        skips=snapshot.skips if obstacle else count,
        instants=tuple(next_instants(snapshot, count)) if count and not obstacle else (),
        is_calendar=isinstance(snapshot.plan.trigger, CalendarTrigger),
        obstacle=obstacle,
    )


def next_instants(snapshot: ScheduleSnapshot, count: int) -> list[datetime]:
    """The instants that a wish is about, as far as they are known: a pace knows only its next one."""
    first, trigger = snapshot.next_due_at, snapshot.plan.trigger
    if first is None or snapshot.pause is not None:
        return []
    if not isinstance(trigger, CalendarTrigger):
        return [first]
    return list(islice(_iterate_instants(trigger, first), min(count, MAX_LISTED_INSTANTS)))


def apply_skip_next(trigger: Trigger, results: list[InstantOutcome], skip_count: int) -> list[InstantOutcome]:
    """The fates of instants in the order of time, of which the first so many are let pass. Pure.

    What lay outside the active hours was not the schedule's to run, so it does not count.
    """
    remaining, adjusted = skip_count, list[InstantOutcome]()
    for result in results:
        if remaining <= 0 or result.reason == SkipReason.INACTIVE_HOURS:
            adjusted.append(result)
            continue
        skipped_range, rest = take_oldest(trigger, result.instants, remaining)
        adjusted.append(InstantOutcome(skipped_range, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST))
        adjusted += [replace(result, instants=rest)] if rest else []
        remaining -= skipped_range.count
    return adjusted


def _iterate_instants(trigger: CalendarTrigger, first: datetime) -> Iterator[datetime]:
    instant: datetime | None = first
    while instant is not None:
        yield instant
        instant = trigger.next_time(None, instant)


def _find_skip_obstacle(snapshot: ScheduleSnapshot) -> str:
    """Why no instant can come that could be let pass; empty if one can."""
    kind = snapshot.plan.trigger.kind
    if kind.waits_for_event:
        return f"a {kind} schedule has no beats of its own to let pass"
    if not snapshot.enabled:
        return "it is disabled, so no beat comes"
    if snapshot.quarantine is not None or snapshot.unreadable is not None:
        return "it cannot be decided, so no beat comes"
    is_over = snapshot.next_run_at is None and snapshot.pause is None and not (snapshot.running or snapshot.waiting)
    return "no further beat is planned" if is_over or _has_fired(snapshot) else ""


def _has_fired(snapshot: ScheduleSnapshot) -> bool:
    return snapshot.plan.trigger.kind is TriggerKind.DELAY and snapshot.next_run_at is None and not snapshot.is_new
