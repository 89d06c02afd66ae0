"""A schedule that cannot be decided rests, with the reason, until it is edited. Its neighbours do not notice."""

from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.errors import HerdbeatError, shown
from herdbeat.moments import format_moment
from herdbeat.scheduler.instants import Instants, passed
from herdbeat.scheduler.judge import is_due
from herdbeat.scheduler.verdict import Verdict, changed
from herdbeat.store.base import ChangedBeat, ChangedSchedule, Counted, NewBeat, Standing, Transaction

_LONGEST = 300


class Quarantined(NamedTuple):
    """Which schedule, and why."""

    schedule: str
    reason: str


def reason_of(error: Exception) -> str:
    """What is kept of an error: one line. Errors of ours need no class name."""
    said = error.message if isinstance(error, HerdbeatError) else f"{type(error).__name__}: {error}"
    return shown(said, _LONGEST)


def put_away(now: datetime, standing: Standing, error: Exception) -> Verdict:
    """In place of the verdict that raised: what was due is skipped as `config_error`, and nothing comes next."""
    verdict = Verdict(standing, settled_until=now, anchor_at=now, quarantine=reason_of(error))
    if is_due(now, standing):
        verdict.beats.append(_skipped(now, standing))
    return verdict


def put_to_rest(change: ChangedSchedule, reason: str) -> ChangedSchedule:
    """A schedule's row without a next time."""
    return change._replace(next_run_at=None, next_due_at=None, wake_at=None, quarantine=reason)


def set_aside(tx: Transaction, now: datetime, error: Exception) -> list[Quarantined] | None:
    """The last resort, for what cannot even be written: the first beat that is due, or else the first schedule.

    None where nothing is due: then no schedule is to blame.
    """
    for beat in tx.due_beats(now, 1):
        skipped = ChangedBeat(beat.id, BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, None, beat.attempt, settled=True)
        tx.change_beats([skipped], now)
        clock = 1 if beat.source.is_clock and beat.attempt == 1 else 0
        tx.count_schedules([Counted(beat.schedule_id, waiting=-clock)], None)
        return []
    for standing in tx.due_schedules(now, 1):
        verdict = put_away(now, standing, error)
        beat_ids = tx.add_beats(verdict.beats)
        tx.change_schedules([changed(verdict, 0, beat_ids[-1] if beat_ids else None)])
        return [Quarantined(standing.label, reason_of(error))]
    return None


def _skipped(now: datetime, standing: Standing) -> NewBeat:
    instants, dedup_id = _lost(now, standing)
    return NewBeat(
        schedule_id=standing.id,
        target_id=standing.target_id,
        dedup_id=dedup_id,
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=BeatOutcome.SKIPPED,
        reason=SkipReason.CONFIG_ERROR,
        source=standing.next_source or Source.BASELINE_CRON,
        origin=standing.next_origin,
        created_at=now,
        settled_at=now,
    )


def _lost(now: datetime, standing: Standing) -> tuple[Instants, str]:
    """The instants that have passed, as far as the trigger can still say; and the id they go by."""
    due_at = standing.next_due_at
    assert due_at is not None
    bare = Instants.one(due_at), f"{SkipReason.CONFIG_ERROR}:{format_moment(due_at)}"
    if standing.unreadable is not None:
        return bare
    trigger = standing.plan.trigger
    try:
        return passed(trigger, due_at, now), trigger.dedup_id(due_at, standing.label)
    except Exception:  # noqa: BLE001 - the trigger may be the very thing that is broken
        return bare
