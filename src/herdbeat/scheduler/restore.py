"""A ledger out of a backup: what was open in it is closed, and nothing that was due before now fires.

Between the backup and now the lost ledger may have run all of it. Nobody knows, so nothing is repeated.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, MissedReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.governor import decide
from herdbeat.scheduler.finish import finish
from herdbeat.scheduler.instants import passed
from herdbeat.scheduler.judge import is_due, state_of
from herdbeat.scheduler.quarantine import put_away
from herdbeat.scheduler.verdict import Verdict, changed
from herdbeat.store.base import ChangedBeat, Counted, FinishedRun, NewBeat, Standing, Transaction, WaitingBeat

BATCH = 500

_CUT_OFF = Outcome(status=RunStatus.INTERRUPTED, error="it was running when the backup was made")


def close_runs(tx: Transaction, now: datetime) -> int:
    """Up to a batch of open runs ends as interrupted; returns how many there were."""
    runs = tx.unfinished_runs(BATCH)
    finish(tx, now, [FinishedRun(run_id, None, _CUT_OFF) for run_id in runs])
    return len(runs)


def settle_pending(tx: Transaction, now: datetime) -> int:
    """Up to a batch of waiting beats is missed, or ran if it had a run; returns how many there were."""
    beats = tx.pending_beats(BATCH)
    tx.change_beats([_settled(beat) for beat in beats], now)
    waited = Counter(beat.schedule_id for beat in beats if beat.source.is_clock and beat.attempt == 1)
    tx.count_schedules([Counted(schedule_id, waiting=-number) for schedule_id, number in waited.items()], None)
    return len(beats)


def decide_anew(tx: Transaction, now: datetime, after: int) -> int | None:
    """A page of schedules: what was due is missed, and the next time lies ahead. None after the last page."""
    ids = tx.schedule_ids(after, BATCH)
    standings = tx.schedules(ids).values()
    tx.end_one_shots([(each.id, now) for each in standings if each.hints], now)
    verdicts = [_contained(now, each) for each in standings if _needs_decision(now, each)]
    beat_ids = iter(tx.add_beats([beat for verdict in verdicts for beat in verdict.beats]))
    tails = [next(beat_ids) if verdict.beats else None for verdict in verdicts]
    tx.change_schedules([changed(verdict, 0, tail) for verdict, tail in zip(verdicts, tails, strict=True)])
    tx.set_marks(now)
    return ids[-1] if len(ids) == BATCH else None


def _settled(beat: WaitingBeat) -> ChangedBeat:
    outcome, reason = (BeatOutcome.RAN, "") if beat.attempt > 1 else (BeatOutcome.MISSED, MissedReason.RESTORED)
    return ChangedBeat(beat.id, outcome, reason, None, beat.attempt, settled=True)


def _needs_decision(now: datetime, standing: Standing) -> bool:
    """What is due, and what has lost its time with the beats that were just closed."""
    if standing.quarantine is not None or not standing.enabled:
        return False
    return standing.next_run_at is None or is_due(now, standing)


def _contained(now: datetime, standing: Standing) -> Verdict:
    if standing.unreadable is None:
        try:
            return _verdict(now, standing)
        except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
            return put_away(now, standing, error)
    return put_away(now, standing, ValueError(standing.unreadable))


def _verdict(now: datetime, standing: Standing) -> Verdict:
    beats = [_missed(now, standing)] if is_due(now, standing) else []
    standing = standing._replace(is_new=False)  # it was at its first beat, or due: that one is over now
    hints = tuple(hint for hint in standing.hints if hint.at is None or hint.at > now)
    state = replace(state_of(standing), anchor_at=now, hints=hints)
    return Verdict(standing, beats=beats, decision=decide(now, state), anchor_at=now, settled_until=now)


def _missed(now: datetime, standing: Standing) -> NewBeat:
    trigger, due_at = standing.plan.trigger, standing.next_due_at
    assert due_at is not None
    instants = passed(trigger, due_at, now)
    return NewBeat(
        schedule_id=standing.id,
        target_id=standing.target_id,
        dedup_id=trigger.dedup_id(instants.first, standing.label),
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=BeatOutcome.MISSED,
        reason=MissedReason.RESTORED,
        source=standing.next_source or trigger.kind.source,
        origin=standing.next_origin,
        created_at=now,
        settled_at=now,
    )
