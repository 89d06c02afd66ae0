"""What a person, an agent or a rule may change about a schedule: pause, resume, disable, enable, hint, reset.

Each is one transaction that first accounts for the instants up to now, then changes, then decides again. A change at
the very instant of a beat therefore loses nothing and doubles nothing, whichever comes first. A schedule in quarantine
keeps what it is told, and rests on: only an edit or a reset has it decided again.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.hint import Hint, Rank
from herdbeat.domain.trigger import TriggerKind
from herdbeat.governor import Pause, decide
from herdbeat.governor.wishes import MOST_ENDED, MOST_ONE_SHOTS, refuse_flood
from herdbeat.scheduler.judge import is_reached, state_of, write_off_due, write_off_outside, write_off_passed
from herdbeat.scheduler.quarantine import put_away
from herdbeat.scheduler.room import Pacer, Rooms
from herdbeat.scheduler.turn import Claimed, Node, write
from herdbeat.scheduler.verdict import Bench, Verdict
from herdbeat.store.base import Counted, Standing, Transaction

WriteOff = Callable[[Bench, Verdict, SkipReason], None]

NOBODY = Node(0, 0, Pacer(1))
"""Who writes a change: it claims nothing, and has no place to start anything."""

_MINUTE = timedelta(minutes=1)


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
    """On again. A one-shot that is done is armed once more, and fires at once if its time has passed."""
    if is_done(_standing(tx, schedule_id)):
        tx.arm_again([schedule_id])
    return _go_on(tx, now, schedule_id, SkipReason.DISABLED, lambda: tx.set_disabled(schedule_id, None))


def is_done(standing: Standing) -> bool:
    """A one-shot whose instant is used up, with nothing of it still open."""
    is_one_shot = standing.unreadable is None and standing.plan.trigger.kind is TriggerKind.DELAY
    return is_one_shot and not standing.is_new and not standing.running and not standing.waiting


def give_hint(tx: Transaction, now: datetime, schedule_id: int, hint: Hint) -> Decision | None:
    """Another wish. One pace is kept per rank: a newer one takes the place of the older.

    Raises UsageError for a flood of them. The same wish again only moves the end of the one that stands.
    """
    if not tx.extend_hint(schedule_id, hint, now):
        refuse_flood(hint.origin, tx.recent_hints(schedule_id, hint.origin, now - _MINUTE))
        tx.add_hint(schedule_id, hint, now)
        rank = hint.origin.partition(":")[0]
        tx.trim_hints(schedule_id, rank, now, one_shots=MOST_ONE_SHOTS, ended=MOST_ENDED)
    return decide_again(tx, now, schedule_id)


def clear_hints(
    tx: Transaction, now: datetime, schedule_id: int, by: str, ranks: Iterable[Rank] = Rank
) -> Decision | None:
    """End those of some ranks; all of them, if nothing is said."""
    tx.end_hints_of(schedule_id, [rank.name.lower() for rank in ranks], now, by)
    return decide_again(tx, now, schedule_id)


def reset(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Forget the failures, and try to decide what is in quarantine: the way out without an edit.

    What still cannot be decided rests on, with its reason.
    """
    standing = _standing(tx, schedule_id)
    if standing.unreadable is not None:
        tx.forget_failures(schedule_id)
        return None
    if standing.quarantine is None and is_reached(now, standing):
        # The beat that is due comes first. It decides again, by then without the failures.
        tx.forget_failures(schedule_id)
        return None
    was_put_away = standing.quarantine is not None
    verdict = Verdict(standing._replace(failures=0, quarantine=None))
    return _written(tx, now, verdict, SkipReason.CONFIG_ERROR if was_put_away else None)


def _stop(tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason) -> Decision | None:
    skipped = tx.skip_waiting(schedule_id, reason, now)
    standing = _standing(tx, schedule_id)
    if _rests(standing):
        tx.count_schedules([Counted(schedule_id, waiting=-skipped)], None)
        return None
    verdict = Verdict(standing._replace(waiting=standing.waiting - skipped))
    return _written(tx, now, verdict, reason, write_off_due)


def _go_on(
    tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason, change: Callable[[], None]
) -> Decision | None:
    before = _standing(tx, schedule_id)
    change()
    was_held = is_held(now, before)
    if _rests(before) or (not was_held and is_reached(now, before)):
        return None  # it rests; or a beat is due, which comes first and decides with what was just changed
    return _written(tx, now, Verdict(_standing(tx, schedule_id)), reason if was_held else None)


def decide_again(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """When next, with what stands now. What is due already stays so: its claim decides."""
    standing = _standing(tx, schedule_id)
    if _rests(standing) or is_reached(now, standing):
        return None  # as in _go_on
    # A pause may be over without anybody having looked yet: deciding now would forget what passed inside it.
    was_paused = standing.next_source is Source.PAUSED
    return _written(tx, now, Verdict(standing), SkipReason.PAUSED if was_paused else None)


def is_held(now: datetime, standing: Standing) -> bool:
    return is_paused(now, standing) or not standing.enabled


def is_paused(now: datetime, standing: Standing) -> bool:
    """Held, or not yet looked at since the hold was over. A pause that ended long ago may still stand in the row."""
    is_held = standing.pause is not None and standing.pause.holds(now)
    return is_held or standing.next_source is Source.PAUSED


def _rests(standing: Standing) -> bool:
    return standing.quarantine is not None or standing.unreadable is not None


def _written(
    tx: Transaction,
    now: datetime,
    verdict: Verdict,
    reason: SkipReason | None = None,
    write_off: WriteOff | None = None,
) -> Decision | None:
    """Account for what has passed under a reason, if there is one; decide; write. What cannot be decided rests."""
    standing = verdict.standing
    try:
        if reason is None or write_off is not None:
            settle_outside(now, verdict)
        if reason is not None:
            (write_off or write_off_passed)(_bench(now), verdict, reason)
        verdict.decision = _decided(now, verdict)
    except Exception as error:  # noqa: BLE001 - one broken schedule must not take a hundred others with it
        verdict = put_away(now, standing, error)
    write(tx, _bench(now), NOBODY, [verdict], Claimed())
    return verdict.decision


def settle_outside(now: datetime, verdict: Verdict) -> None:
    """It was not held until now, so what its active hours have passed over is theirs, not the change's."""
    standing = verdict.standing
    if standing.plan.policies.active_hours is not None and standing.next_due_at is not None:
        write_off_outside(_bench(now), verdict)


def _decided(now: datetime, verdict: Verdict) -> Decision | None:
    standing = verdict.standing
    if verdict.is_paced and standing.next_run_at is None and (standing.running or standing.waiting):
        # A pace that is at it has no next time: its finish decides, with what was changed meanwhile. One that has a
        # time although it runs was run by hand, and that finish decides nothing.
        return None
    return decide(now, state_of(standing._replace(anchor_at=verdict.anchor_at or standing.anchor_at)))


def _standing(tx: Transaction, schedule_id: int) -> Standing:
    return tx.schedules([schedule_id])[schedule_id]


def _bench(now: datetime) -> Bench:
    return Bench(now, Rooms(0), Pacer(1))
