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
from herdbeat.governor.hints import MAX_ENDED_HINTS, MAX_ONE_SHOT_HINTS, check_rate_limit
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, write_evaluations
from herdbeat.scheduler.evaluate import governor_state, is_in_flight, skip_due, skip_outside_hours, skip_passed
from herdbeat.scheduler.evaluation import ClaimCycle, Evaluation
from herdbeat.scheduler.quarantine import quarantine_evaluation
from herdbeat.store.base import CounterDelta, ScheduleSnapshot, Transaction

SkipInstants = Callable[[ClaimCycle, Evaluation, SkipReason], None]

NON_CLAIMING_CONTEXT = ClaimContext(0, 0, CatchupPacer(1))
"""Who writes a change: it claims nothing, and has no place to start anything."""

_HINT_RATE_WINDOW = timedelta(minutes=1)


def pause(tx: Transaction, now: datetime, schedule_id: int, pause_state: Pause) -> Decision | None:
    """Hold a schedule. What is due or waits for room is skipped; a run in progress finishes."""
    tx.set_pause(schedule_id, pause_state)
    return _hold_schedule(tx, now, schedule_id, SkipReason.PAUSED)


def resume(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Let it go on. What passed meanwhile is skipped, so that no burst follows."""
    return _release_hold(tx, now, schedule_id, SkipReason.PAUSED, lambda: tx.set_pause(schedule_id, None))


def disable(tx: Transaction, now: datetime, schedule_id: int, by: str) -> Decision | None:
    """Off until it is enabled; survives restarts."""
    tx.set_disabled(schedule_id, by)
    return _hold_schedule(tx, now, schedule_id, SkipReason.DISABLED)


def enable(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """On again. A one-shot that is done is armed once more, and fires at once if its time has passed."""
    if is_one_shot_done(_load_snapshot(tx, schedule_id)):
        tx.schedule_rearm([schedule_id])
    return _release_hold(tx, now, schedule_id, SkipReason.DISABLED, lambda: tx.set_disabled(schedule_id, None))


def is_one_shot_done(snapshot: ScheduleSnapshot) -> bool:
    """A one-shot whose instant is used up, with nothing of it still open."""
    is_one_shot = snapshot.unreadable is None and snapshot.plan.trigger.kind is TriggerKind.DELAY
    return is_one_shot and not snapshot.is_new and not snapshot.running and not snapshot.waiting


def give_hint(tx: Transaction, now: datetime, schedule_id: int, hint: Hint) -> Decision | None:
    """Another wish. One pace is kept per rank: a newer one takes the place of the older.

    Raises UsageError for a flood of them. The same wish again only moves the end of the one that stands.
    """
    if not tx.extend_hint(schedule_id, hint, now):
        check_rate_limit(hint.origin, tx.hint_count_recent(schedule_id, hint.origin, now - _HINT_RATE_WINDOW))
        tx.add_hint(schedule_id, hint, now)
        rank = hint.origin.partition(":")[0]
        tx.trim_hints(schedule_id, rank, now, one_shots=MAX_ONE_SHOT_HINTS, ended=MAX_ENDED_HINTS)
    return reschedule(tx, now, schedule_id)


def clear_hints(
    tx: Transaction, now: datetime, schedule_id: int, by: str, ranks: Iterable[Rank] = Rank
) -> Decision | None:
    """End those of some ranks; all of them, if nothing is said."""
    tx.hint_end_by_rank(schedule_id, [rank.name.lower() for rank in ranks], now, by)
    return reschedule(tx, now, schedule_id)


def reset(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """Forget the failures, and try to decide what is in quarantine: the way out without an edit.

    What still cannot be decided rests on, with its reason.
    """
    snapshot = _load_snapshot(tx, schedule_id)
    if snapshot.unreadable is not None:
        tx.schedule_reset_failures(schedule_id)
        return None
    if snapshot.quarantine is None and is_in_flight(now, snapshot):
        # The beat that is due comes first. It decides again, by then without the failures.
        tx.schedule_reset_failures(schedule_id)
        return None
    was_quarantined = snapshot.quarantine is not None
    evaluation = Evaluation(snapshot._replace(failures=0, quarantine=None))
    return _decide_and_write(tx, now, evaluation, SkipReason.CONFIG_ERROR if was_quarantined else None)


def _hold_schedule(tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason) -> Decision | None:
    skipped = tx.skip_waiting(schedule_id, reason, now)
    snapshot = _load_snapshot(tx, schedule_id)
    if _is_quarantined(snapshot):
        tx.schedule_adjust_counters([CounterDelta(schedule_id, waiting=-skipped)], None)
        return None
    evaluation = Evaluation(snapshot._replace(waiting=snapshot.waiting - skipped))
    return _decide_and_write(tx, now, evaluation, reason, skip_due)


def _release_hold(
    tx: Transaction, now: datetime, schedule_id: int, reason: SkipReason, change: Callable[[], None]
) -> Decision | None:
    before = _load_snapshot(tx, schedule_id)
    change()
    was_held = is_held(now, before)
    if _is_quarantined(before) or (not was_held and is_in_flight(now, before)):
        return None  # it rests; or a beat is due, which comes first and decides with what was just changed
    return _decide_and_write(tx, now, Evaluation(_load_snapshot(tx, schedule_id)), reason if was_held else None)


def reschedule(tx: Transaction, now: datetime, schedule_id: int) -> Decision | None:
    """When next, with what stands now. What is due already stays so: its claim decides."""
    snapshot = _load_snapshot(tx, schedule_id)
    if _is_quarantined(snapshot) or is_in_flight(now, snapshot):
        return None  # as in _go_on
    # A pause may be over without anybody having looked yet: deciding now would forget what passed inside it.
    was_paused = snapshot.next_source is Source.PAUSED
    return _decide_and_write(tx, now, Evaluation(snapshot), SkipReason.PAUSED if was_paused else None)


def is_held(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    return is_paused(now, snapshot) or not snapshot.enabled


def is_paused(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """Held, or not yet looked at since the hold was over. A pause that ended long ago may still stand in the row."""
    is_held = snapshot.pause is not None and snapshot.pause.is_active(now)
    return is_held or snapshot.next_source is Source.PAUSED


def _is_quarantined(snapshot: ScheduleSnapshot) -> bool:
    return snapshot.quarantine is not None or snapshot.unreadable is not None


def _decide_and_write(
    tx: Transaction,
    now: datetime,
    evaluation: Evaluation,
    reason: SkipReason | None = None,
    skip_instants: SkipInstants | None = None,
) -> Decision | None:
    """Account for what has passed under a reason, if there is one; decide; write. What cannot be decided rests."""
    snapshot = evaluation.snapshot
    try:
        if reason is None or skip_instants is not None:
            settle_outside_hours(now, evaluation)
        if reason is not None:
            (skip_instants or skip_passed)(_build_cycle(now), evaluation, reason)
        evaluation.decision = _decide_next(now, evaluation)
    except Exception as error:  # noqa: BLE001 - one broken schedule must not take a hundred others with it
        evaluation = quarantine_evaluation(now, snapshot, error)
    write_evaluations(tx, _build_cycle(now), NON_CLAIMING_CONTEXT, [evaluation], ClaimResult())
    return evaluation.decision


def settle_outside_hours(now: datetime, evaluation: Evaluation) -> None:
    """It was not held until now, so what its active hours have passed over is theirs, not the change's."""
    snapshot = evaluation.snapshot
    if snapshot.plan.policies.active_hours is not None and snapshot.next_due_at is not None:
        skip_outside_hours(_build_cycle(now), evaluation)


def _decide_next(now: datetime, evaluation: Evaluation) -> Decision | None:
    snapshot = evaluation.snapshot
    if (
        evaluation.is_rescheduled_on_completion
        and snapshot.next_run_at is None
        and (snapshot.running or snapshot.waiting)
    ):
        # A pace that is at it has no next time: its finish decides, with what was changed meanwhile. One that has a
        # time although it runs was run by hand, and that finish decides nothing.
        return None
    return decide(now, governor_state(snapshot._replace(anchor_at=evaluation.anchor_at or snapshot.anchor_at)))


def _load_snapshot(tx: Transaction, schedule_id: int) -> ScheduleSnapshot:
    return tx.schedules([schedule_id])[schedule_id]


def _build_cycle(now: datetime) -> ClaimCycle:
    return ClaimCycle(now, CapacitySnapshot(0), CatchupPacer(1))
