"""A plan gives way to another, or to none: what came due under it is settled under it, before anything is replaced.

Else the next claim would count the instants of the old plan by the calendar of the new one. After an outage of two
hours over an edit, twelve instants of every ten minutes were three of every hour, and nine were in no row.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from herdbeat.domain.beat import MissedReason, SkipReason
from herdbeat.domain.gap import Gap
from herdbeat.domain.plan import Plan
from herdbeat.domain.trigger import Calendar
from herdbeat.scheduler.control import NOBODY, is_held, is_paused, settle_outside
from herdbeat.scheduler.judge import is_due, judge, write_off_passed
from herdbeat.scheduler.quarantine import put_away
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.scheduler.turn import Claimed, write
from herdbeat.scheduler.verdict import Bench, Verdict
from herdbeat.store.base import Standing, Transaction

LEASE = timedelta(seconds=30)
"""Of a fleet that says nothing else."""

GivesWay = tuple[Standing, Plan | None]
"""How a schedule stands, and the plan that it is to have; None if it is removed."""


def remove(tx: Transaction, now: datetime, ids: Collection[int], lease: timedelta = LEASE) -> None:
    """Take schedules out of the ledger. Their history stays, and says of everything up to now what became of it."""
    if not ids:
        return
    settle_before(tx, now, [(standing, None) for standing in tx.schedules(ids).values()], lease)
    tx.remove_schedules(list(ids), now)


def settle_before(
    tx: Transaction, now: datetime, leaving: Collection[GivesWay], lease: timedelta = LEASE, catchup_rate: float = 10.0
) -> dict[int, Standing]:
    """Account for everything up to now. Returns how those stand now whose due instants were judged.

    What may still run waits, and has the first pick of the next turn.
    """
    due = {standing.id for standing, plan in leaving if _is_left_behind(now, standing, plan)}
    gaps = _gaps(tx, now, [standing for standing, _ in leaving if standing.id in due], lease) if due else ()
    bench = Bench(now, Rooms(0), Pacer(catchup_rate), gaps)
    verdicts = [_judged(bench, standing) for standing, _ in leaving if standing.id in due]
    verdicts += _held_back(bench, [standing for standing, _ in leaving if standing.id not in due])
    write(tx, bench, NOBODY, verdicts, Claimed())
    return tx.schedules(due) if due else {}


def _is_left_behind(now: datetime, standing: Standing, plan: Plan | None) -> bool:
    """Due, and not yet claimed. By the same calendar the claim itself accounts for it, and better: it has the room."""
    if standing.unreadable is not None or standing.quarantine is not None or not is_due(now, standing):
        return False
    return plan is None or is_another_calendar(standing.plan, plan)


def is_another_calendar(old: Plan, new: Plan) -> bool:
    """Instants of the one cannot be counted by the other. A pace has none of its own."""
    has_one = isinstance(old.trigger, Calendar) or isinstance(new.trigger, Calendar)
    return has_one and old.trigger != new.trigger


def _judged(bench: Bench, standing: Standing) -> Verdict:
    try:
        return judge(bench, standing)
    except Exception as error:  # noqa: BLE001 - the plan that goes is broken; the one that comes may be right
        return put_away(bench.now, standing, error)


def _held_back(bench: Bench, standings: Iterable[Standing]) -> list[Verdict]:
    """What passed while it was held, or outside its hours, belongs to the plan that it was held under."""
    verdicts = []
    for standing in standings:
        verdict = Verdict(standing)
        reason = _why_held(bench.now, standing)
        if standing.unreadable is not None:
            continue  # nobody can say any more which instants it had
        if reason is not None:
            _write_off(bench, verdict, reason)
        elif standing.plan.policies.active_hours is not None:
            settle_outside(bench.now, verdict)
        else:
            continue
        verdicts.append(verdict)
    return verdicts


def _why_held(now: datetime, standing: Standing) -> SkipReason | None:
    if is_held(now, standing):
        return SkipReason.PAUSED if is_paused(now, standing) else SkipReason.DISABLED
    return SkipReason.CONFIG_ERROR if standing.quarantine is not None else None


def _write_off(bench: Bench, verdict: Verdict, reason: SkipReason) -> None:
    try:
        write_off_passed(bench, verdict, reason)
    except Exception:
        if verdict.standing.quarantine is None:
            raise
        # The very calendar that it was put away for: what it cannot count, nobody can.


def _gaps(tx: Transaction, now: datetime, due: Iterable[Standing], lease: timedelta) -> tuple[Gap, ...]:
    """Those in the ledger; and the one that lasts until now, which is written only when a node comes.

    A node that lives has shown a sign of it within its lease.
    """
    since = min(each.next_due_at for each in due if each.next_due_at is not None)
    known = tuple(tx.gaps(since))
    last_sign = tx.last_sign_of_life()
    if last_sign is None or now - last_sign <= lease:
        return known
    return (*known, Gap(from_at=last_sign, until=now, reason=MissedReason.SCHEDULER_DOWN))
