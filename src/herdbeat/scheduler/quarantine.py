"""A schedule that cannot be decided rests, with the reason, until it is edited. Its neighbours do not notice."""

from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.errors import HerdbeatError, truncate_for_message
from herdbeat.scheduler.evaluate import is_due
from herdbeat.scheduler.evaluation import Evaluation, to_row
from herdbeat.scheduler.instants import InstantRange, due_since
from herdbeat.store.base import ChangedBeat, ChangedSchedule, CounterDelta, NewBeat, ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_timestamp

_MAX_REASON_CHARS = 300


class QuarantinedSchedule(NamedTuple):
    """Which schedule, and why."""

    schedule: str
    reason: str


def format_reason(error: Exception) -> str:
    """What is kept of an error: one line. Errors of ours need no class name."""
    message = error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"
    return truncate_for_message(message, _MAX_REASON_CHARS)


def quarantine_evaluation(now: datetime, snapshot: ScheduleSnapshot, error: Exception) -> Evaluation:
    """In place of the verdict that raised: what was due is skipped as `config_error`, and nothing comes next."""
    evaluation = Evaluation(snapshot, settled_until=now, anchor_at=now, quarantine=format_reason(error))
    if is_due(now, snapshot):
        evaluation.beats.append(_build_skipped_beat(now, snapshot))
    return evaluation


def clear_next_run(change: ChangedSchedule, reason: str) -> ChangedSchedule:
    """A schedule's row without a next time."""
    return change._replace(next_run_at=None, next_due_at=None, wake_at=None, quarantine=reason)


def quarantine_first_due(tx: Transaction, now: datetime, error: Exception) -> list[QuarantinedSchedule] | None:
    """The last resort, for what cannot even be written: the first beat that is due, or else the first schedule.

    None where nothing is due: then no schedule is to blame.
    """
    for beat in tx.due_beats(now, 1):
        skipped = ChangedBeat(beat.id, BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, None, beat.attempt, settled=True)
        tx.change_beats([skipped], now)
        clock = 1 if beat.source.is_clock and beat.attempt == 1 else 0
        tx.schedule_adjust_counters([CounterDelta(beat.schedule_id, waiting=-clock)], None)
        return []
    for snapshot in tx.due_schedules(now, 1):
        evaluation = quarantine_evaluation(now, snapshot, error)
        beat_ids = tx.add_beats(evaluation.beats)
        tx.change_schedules([to_row(evaluation, 0, beat_ids[-1] if beat_ids else None)])
        return [QuarantinedSchedule(snapshot.label, format_reason(error))]
    return None


def _build_skipped_beat(now: datetime, snapshot: ScheduleSnapshot) -> NewBeat:
    instants, dedup_id = _find_lost_instants(now, snapshot)
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=dedup_id,
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=BeatOutcome.SKIPPED,
        reason=SkipReason.CONFIG_ERROR,
        source=snapshot.next_source or Source.BASELINE_CRON,
        origin=snapshot.next_origin,
        created_at=now,
        settled_at=now,
    )


def _find_lost_instants(now: datetime, snapshot: ScheduleSnapshot) -> tuple[InstantRange, str]:
    """The instants that have passed, as far as the trigger can still say; and the id they go by."""
    due_at = snapshot.next_due_at
    assert due_at is not None
    fallback = InstantRange.single(due_at), f"{SkipReason.CONFIG_ERROR}:{format_timestamp(due_at)}"
    if snapshot.unreadable is not None:
        return fallback
    trigger = snapshot.plan.trigger
    try:
        return due_since(trigger, due_at, now), trigger.dedup_id(due_at, snapshot.label)
    except Exception:  # noqa: BLE001 - the trigger may be the very thing that is broken
        return fallback
