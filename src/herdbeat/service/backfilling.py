"""The instants of a past window, run now: how many there are, which, and their way into the ledger."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.plan import ScheduleSpec
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.moments import format_timestamp
from herdbeat.scheduler.backfill import (
    MAX_BACKFILL_BEATS,
    BackfillResult,
    BackfillWindow,
    count_instants,
    enqueue_backfill,
    iterate_instants,
)
from herdbeat.service.objects import JsonObject
from herdbeat.service.offline import write_offline
from herdbeat.store.base import Transaction
from herdbeat.store.opening import StoreHandle
from herdbeat.store.places import StoreLocation

DEFAULT_MAX_BACKFILL_BEATS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSchedule:
    """What is to be filled in: which schedule, which window, at which pace, for whom."""

    schedule_id: int
    label: str
    window: BackfillWindow
    rate: float
    who: str
    reason: str = ""


def clip_to_past(window: BackfillWindow, now: datetime) -> BackfillWindow:
    """What of it has passed already. Raises UsageError if nothing has."""
    past = BackfillWindow(start=window.start, end=min(window.end, now))
    if past.start >= past.end:
        raise UsageError("The window is empty, or lies ahead.", hint="Let it begin before it ends, and before now.")
    return past


def plan_backfill(plan: ScheduleSpec, label: str, window: BackfillWindow, max_beats: int) -> tuple[datetime, ...]:
    """The instants of the window. Never a part of them: what is too many is refused, with the number.

    Raises Conflict or NotFound.
    """
    count = count_instants(plan, window)
    if count > max_beats:
        limit = (
            f"--max is {max_beats}"
            if max_beats < MAX_BACKFILL_BEATS
            else f"at most {MAX_BACKFILL_BEATS} are written at once"
        )
        raise Conflict(
            f"{count} instants of {label} lie in that window; {limit}. Nothing was written.",
            hint="Narrow the window."
            if count > MAX_BACKFILL_BEATS
            else f"Narrow the window, or allow them all: --max {count}",
        )
    if not count:
        raise NotFound(f"{label} has no instant in that window.", hint=f"See its times with: herdbeat next {label}")
    return tuple(iterate_instants(plan, window))


async def backfill_in_process(store: StoreHandle, now: datetime, command: BackfillSchedule) -> JsonObject:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    return await store.write(lambda tx: execute_backfill(tx, now, command))


def backfill_offline(path: StoreLocation, now: datetime, command: BackfillSchedule) -> JsonObject:
    """While nothing runs: started by the next `up`. Raises Conflict if something does."""
    return write_offline(path, lambda tx: execute_backfill(tx, now, command))


def execute_backfill(tx: Transaction, now: datetime, command: BackfillSchedule) -> JsonObject:
    plan = tx.schedules([command.schedule_id])[command.schedule_id].plan
    instants = plan_backfill(plan, command.label, command.window, MAX_BACKFILL_BEATS)
    result = enqueue_backfill(tx, now, command.schedule_id, instants, origin=command.who, rate=command.rate)
    answer = serialize_backfill(command.label, result)
    after = {key: answer[key] for key in ("enqueue_backfill", "count", "first", "last")} | {"reason": command.reason}
    tx.add_changes([Change(at=now, who=command.who, what=ChangeKind.BACKFILL, subject=command.label, after=after)])
    return answer


def serialize_backfill(label: str, result: BackfillResult) -> JsonObject:
    return {
        "schedule": label,
        "backfill": result.number,
        "count": len(result.instants),
        "first": format_timestamp(result.instants[0]),
        "last": format_timestamp(result.instants[-1]),
        "last_start_at": format_timestamp(result.last_start_at),
    }
