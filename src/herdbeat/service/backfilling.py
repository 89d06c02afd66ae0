"""The instants of a past window, run now: how many there are, which, and their way into the ledger."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.change import Change, What
from herdbeat.domain.plan import Plan
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.moments import format_moment
from herdbeat.scheduler.backfill import MOST, Filled, Window, backfill, count_in, instants_in
from herdbeat.service.objects import Json
from herdbeat.service.offline import write_offline
from herdbeat.store.base import Transaction
from herdbeat.store.opening import OpenStore
from herdbeat.store.places import LedgerPlace

USUAL_MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What is to be filled in: which schedule, which window, at which pace, for whom."""

    schedule_id: int
    label: str
    window: Window
    rate: float
    who: str
    reason: str = ""


def passed_part(window: Window, now: datetime) -> Window:
    """What of it has passed already. Raises UsageError if nothing has."""
    past = Window(start=window.start, end=min(window.end, now))
    if past.start >= past.end:
        raise UsageError("The window is empty, or lies ahead.", hint="Let it begin before it ends, and before now.")
    return past


def plan_backfill(plan: Plan, label: str, window: Window, most: int) -> tuple[datetime, ...]:
    """The instants of the window. Never a part of them: what is too many is refused, with the number.

    Raises Conflict or NotFound.
    """
    count = count_in(plan, window)
    if count > most:
        limit = f"--max is {most}" if most < MOST else f"at most {MOST} are written at once"
        raise Conflict(
            f"{count} instants of {label} lie in that window; {limit}. Nothing was written.",
            hint="Narrow the window." if count > MOST else f"Narrow the window, or allow them all: --max {count}",
        )
    if not count:
        raise NotFound(f"{label} has no instant in that window.", hint=f"See its times with: herdbeat next {label}")
    return tuple(instants_in(plan, window))


async def backfill_here(store: OpenStore, now: datetime, filling: Filling) -> Json:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: fill_in(tx, now, filling))


def backfill_for_later(path: LedgerPlace, now: datetime, filling: Filling) -> Json:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: fill_in(tx, now, filling))


def fill_in(tx: Transaction, now: datetime, filling: Filling) -> Json:
    plan = tx.schedules([filling.schedule_id])[filling.schedule_id].plan
    instants = plan_backfill(plan, filling.label, filling.window, MOST)
    filled = backfill(tx, now, filling.schedule_id, instants, origin=filling.who, rate=filling.rate)
    answer = filled_object(filling.label, filled)
    after = {key: answer[key] for key in ("backfill", "count", "first", "last")} | {"reason": filling.reason}
    tx.add_changes([Change(at=now, who=filling.who, what=What.BACKFILL, subject=filling.label, after=after)])
    return answer


def filled_object(label: str, filled: Filled) -> Json:
    return {
        "schedule": label,
        "backfill": filled.number,
        "count": len(filled.instants),
        "first": format_moment(filled.instants[0]),
        "last": format_moment(filled.instants[-1]),
        "last_start_at": format_moment(filled.last_start_at),
    }
