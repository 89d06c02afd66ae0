"""Quarantine: a schedule that cannot be decided stops, with the reason, until it is edited. The others continue."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.errors import ClaimLost, HerdbeatError, StoreUnavailable, truncate_for_message
from herdbeat.scheduler.evaluate import Evaluation, build_beat, build_dedup_id, change_from_evaluation, is_due
from herdbeat.scheduler.instants import InstantRange, due_since
from herdbeat.store.base import ChangedBeat, CounterDelta, NewBeat, PendingBeat, ScheduleSnapshot, Store, Transaction
from herdbeat.timestamps import format_timestamp

T = TypeVar("T")

_MAX_REASON_CHARS = 300


class QuarantinedSchedule(NamedTuple):
    """Which schedule, and why."""

    schedule: str
    reason: str


def decide_or_quarantine(decision: Callable[[], T], quarantine: Callable[[str], T]) -> T:
    """Return what `decision` returns; if it raises, what `quarantine` returns for the reason.

    `quarantine` runs inside the handler, so it may log the traceback.
    """
    try:
        return decision()
    except Exception as error:  # noqa: BLE001 - triggers and policies are data: one bad schedule must not stop a fleet
        return quarantine(format_reason(error))


class BatchRefused(Exception):
    """The store refuses a batch, with this error: because of one row of it, or more."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def write_batch(store: Store, work: Callable[[Transaction], T]) -> T:
    """Write rows of many schedules. Raises StoreUnavailable, ClaimLost, and BatchRefused for any other error.

    The caller then writes smaller batches, until the row that cannot be written is alone.
    """
    try:
        return await store.write(work)
    except (StoreUnavailable, ClaimLost):
        raise
    except Exception as error:  # one row that the store refuses must not stop the others
        raise BatchRefused(error) from error


def format_reason(error: Exception) -> str:
    """Return an error as one line. Errors of our own need no class name."""
    message = error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"
    return truncate_for_message(message, _MAX_REASON_CHARS)


def quarantine_evaluation(now: datetime, snapshot: ScheduleSnapshot, reason: str) -> Evaluation:
    """Return the evaluation that replaces one that raised: what was due is skipped, and nothing comes next."""
    evaluation = Evaluation(snapshot, settled_until=now, anchor_at=now, quarantine=reason)
    if is_due(now, snapshot):
        evaluation.beats.append(_build_skipped_beat(now, snapshot))
    return evaluation


def skip_undecidable(beat: PendingBeat) -> ChangedBeat:
    """Settle a pending beat whose schedule cannot be decided."""
    return ChangedBeat(beat.id, BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, None, beat.attempt, settled=True)


def quarantine_first_due(tx: Transaction, now: datetime, error: Exception) -> list[QuarantinedSchedule] | None:
    """Set aside the first due beat, or else the first due schedule: the last resort for what cannot be written.

    Returns None if nothing is due: then no schedule is to blame.
    """
    for beat in tx.due_beats(now, 1):
        tx.change_beats([skip_undecidable(beat)], now)
        waiting_count = 1 if beat.source.is_clock and beat.attempt == 1 else 0
        tx.schedule_adjust_counters([CounterDelta(beat.schedule_id, waiting=-waiting_count)], None)
        return []
    for snapshot in tx.due_schedules(now, 1):
        reason = format_reason(error)
        evaluation = quarantine_evaluation(now, snapshot, reason)
        beat_ids = tx.add_beats(evaluation.beats)
        tx.change_schedules([change_from_evaluation(evaluation, 0, beat_ids[-1] if beat_ids else None)])
        return [QuarantinedSchedule(snapshot.label, reason)]
    return None


def _build_skipped_beat(now: datetime, snapshot: ScheduleSnapshot) -> NewBeat:
    instants, dedup_id = _find_lost_instants(now, snapshot)
    source = snapshot.next_source or Source.BASELINE_CRON  # the trigger of an unreadable plan is a placeholder
    return build_beat(now, snapshot, instants, BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, source, dedup_id=dedup_id)


def _find_lost_instants(now: datetime, snapshot: ScheduleSnapshot) -> tuple[InstantRange, str]:
    """Return the instants that have passed, as far as the trigger can still tell, and their dedup id."""
    due_at, trigger = snapshot.next_due_at, snapshot.plan.trigger
    assert due_at is not None
    fallback = InstantRange.single(due_at), f"{SkipReason.CONFIG_ERROR}:{format_timestamp(due_at)}"
    if snapshot.unreadable is not None:
        return fallback
    # The trigger may be the very thing that is broken.
    return decide_or_quarantine(
        lambda: (due_since(trigger, due_at, now), build_dedup_id(snapshot, due_at)), lambda _: fallback
    )
