"""What a person, an agent or a rule may change about a schedule: pause, resume, disable, enable, hint.

Each is one transaction that first accounts for the instants up to now, then changes, then decides again. A change at
the very instant of a beat therefore loses nothing and doubles nothing, whichever comes first.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Decision
from herdbeat.domain.hint import Hint
from herdbeat.governor import Pause, decide
from herdbeat.scheduler.judge import Bench, Verdict, is_due, state_of, write_off_due, write_off_passed
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.scheduler.turn import Claimed, Node, write
from herdbeat.store.base import Standing, Transaction

_NOBODY = Node(0, 0, Pacer(1))


def pause(tx: Transaction, now: datetime, schedule_id: int, hold: Pause) -> Decision | None:
    """Hold a schedule. What is due or waits for room is skipped; a run in progress finishes."""
    tx.set_pause(schedule_id, hold)
    return _stop(tx, now, schedule_id, SkipReason.PAUSED)


def resume(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Let it go on. What passed meanwhile is skipped, so that no burst follows."""
    return _go_on(tx, now, schedule_id, SkipReason.PAUSED, lambda: tx.set_pause(schedule_id, None))


def disable(tx: Transaction, now: datetime, schedule_id: int, by: str) -> Decision | None:
    """Off until it is enabled; survives restarts."""
    tx.set_disabled(schedule_id, by)
    return _stop(tx, now, schedule_id, SkipReason.DISABLED)


def enable(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    return _go_on(tx, now, schedule_id, SkipReason.DISABLED, lambda: tx.set_disabled(schedule_id, None))


def give_hint(tx: Transaction, now: datetime, schedule_id: int, hint: Hint) -> Decision | None:
    """Another wish. One pace is kept per rank: a newer one takes the place of the older."""
    tx.add_hint(schedule_id, hint, now)
    return _decide_again(tx, now, schedule_id)


def clear_hints(tx: Transaction, now: datetime, schedule_id: int, by: str) -> Decision | None:
    tx.end_hints(schedule_id, now, by)
    return _decide_again(tx, now, schedule_id)


def settle_held(tx: Transaction, now: datetime, standings: Iterable[Standing]) -> None:
    """Before an edit: what passed while it was held belongs to the plan that it was held under."""
    verdicts = []
    for standing in standings:
        is_paused = standing.pause is not None and standing.pause.holds(now)
        if standing.unreadable is None and (is_paused or not standing.enabled):
            verdict = Verdict(standing)
            write_off_passed(_bench(now), verdict, SkipReason.PAUSED if is_paused else SkipReason.DISABLED)
            verdicts.append(verdict)
    write(tx, _bench(now), _NOBODY, verdicts, Claimed())


def _stop(tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason) -> Decision | None:
    skipped = tx.skip_waiting(schedule_id, reason, now)
    standing = _standing(tx, schedule_id)
    verdict = Verdict(standing._replace(waiting=standing.waiting - skipped))
    write_off_due(_bench(now), verdict, reason)
    return _written(tx, now, verdict)


def _go_on(
    tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason, change: Callable[[], None]
) -> Decision | None:
    before = _standing(tx, schedule_id)
    change()
    verdict = Verdict(_standing(tx, schedule_id))
    if not before.enabled or (before.pause is not None and before.pause.holds(now)):
        write_off_passed(_bench(now), verdict, reason)
    return _written(tx, now, verdict)


def _decide_again(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    standing = _standing(tx, schedule_id)
    if is_due(now, standing):
        return None  # the beat that is due comes first; its claim decides with what was just changed
    return _written(tx, now, Verdict(standing))


def _written(tx: Transaction, now: datetime, verdict: Verdict) -> Decision | None:
    standing = verdict.standing
    if not (verdict.is_paced and (standing.running or standing.waiting)):
        # A pace that is at it has no next time: its finish decides, with what was changed meanwhile.
        anchored = standing._replace(anchor_at=verdict.anchor_at or standing.anchor_at)
        verdict.decision = decide(now, state_of(anchored))
    write(tx, _bench(now), _NOBODY, [verdict], Claimed())
    return verdict.decision


def _standing(tx: Transaction, schedule_id: int) -> Standing:
    return tx.schedules([schedule_id])[schedule_id]


def _bench(now: datetime) -> Bench:
    return Bench(now, Rooms(0), Pacer(1))
