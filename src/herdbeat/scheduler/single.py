"""One schedule, once, without a loop: for who wants a single run and nothing else that may be due."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.claim import Claim
from herdbeat.scheduler.budget import open_wallets
from herdbeat.scheduler.fire import fire
from herdbeat.scheduler.judge import is_due, judge
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.scheduler.turn import Claimed, Node, take_up, write
from herdbeat.scheduler.verdict import Bench
from herdbeat.store.base import Standing, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """What was claimed; or nothing, and why."""

    claims: tuple[Claim, ...] = ()
    skip_reason: SkipReason | None = None


def start_one(tx: Transaction, now: datetime, node_id: int, schedule_id: int, *, origin: str, event_id: str) -> Single:
    """Claim its beat if it is due, so that its next run is decided by this one; else a beat by hand beside it."""
    standing = tx.schedules([schedule_id])[schedule_id]
    rooms = Rooms.of(100, tx.rooms([standing.target_id]))
    rooms.wallets = open_wallets(tx, now, [standing])
    node, claimed = Node(node_id, 100, Pacer(1)), Claimed()
    if standing.quarantine is None and standing.unreadable is None and is_due(now, standing):
        bench = Bench(now, rooms, node.pacer, tuple(tx.gaps(standing.next_run_at or now)))
        write(tx, bench, node, [judge(bench, standing)], claimed)
        reason = next((beat.reason for _, beat in claimed.settled), "")
    else:
        reason = _by_hand(tx, now, node, standing, rooms, claimed, origin, event_id)
    tx.move_rooms(rooms.taken)
    skipped = SkipReason(reason) if not claimed.claims and reason in set(SkipReason) else None
    return Single(claims=tuple(claimed.claims), skip_reason=skipped)


def _by_hand(
    tx: Transaction,
    now: datetime,
    node: Node,
    standing: Standing,
    rooms: Rooms,
    claimed: Claimed,
    origin: str,
    event_id: str,
) -> str:
    """Why not, if not."""
    fired = fire(tx, now, standing.id, origin=origin, event_id=event_id)
    if fired.beat_id is None:
        return fired.skip_reason or ""
    waiting = [beat for beat in tx.waiting_of([standing.id]) if beat.id == fired.beat_id]
    take_up(tx, now, node, waiting, {standing.id: standing}, rooms, claimed)
    return fired.waits_for or ""
