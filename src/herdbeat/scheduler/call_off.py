"""Beats that wait are called off by somebody: settled as `skipped: by_request`, and the schedule goes on from here.

A run that is going is not touched: stopping it is the loop's business, and its finish settles its beat.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.governor import decide
from herdbeat.scheduler.judge import is_due, state_of
from herdbeat.scheduler.verdict import Verdict, changed
from herdbeat.store.base import ChangedBeat, ChangedSchedule, Standing, Transaction, WaitingBeat


def call_off(tx: Transaction, now: datetime, schedule_ids: Iterable[int]) -> dict[int, list[WaitingBeat]]:
    """Settle everything that waits of these schedules. Which beats that were, of those that had any."""
    wanted = list(schedule_ids)
    # Before their beats: one that was read without its lock may have been started by another node meanwhile.
    standings = tx.schedules(wanted)
    waiting: defaultdict[int, list[WaitingBeat]] = defaultdict(list)
    for beat in tx.waiting_of(wanted):
        waiting[beat.schedule_id].append(beat)
    tx.change_beats([called_off(beat) for beats in waiting.values() for beat in beats], now)
    tx.change_schedules([_gone_on(now, standings[number], beats) for number, beats in waiting.items()])
    return dict(waiting)


def called_off(beat: WaitingBeat) -> ChangedBeat:
    """A beat that has a run already is `ran`, also when its next attempt is called off."""
    if beat.attempt > 1:
        return ChangedBeat(beat.id, BeatOutcome.RAN, "", None, beat.attempt - 1, settled=True)
    return ChangedBeat(beat.id, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST, None, beat.attempt, settled=True)


def _gone_on(now: datetime, standing: Standing, beats: list[WaitingBeat]) -> ChangedSchedule:
    """A settled clock beat moves the anchor, and a pace that waited for it is decided again."""
    own = [beat for beat in beats if beat.source.is_clock and beat.retried_by is None]
    counted = sum(beat.attempt == 1 for beat in own)
    left = standing._replace(waiting=standing.waiting - counted)
    verdict = Verdict(left, anchor_at=now if own else standing.anchor_at)
    if _keeps_its_time(now, left) or not own:
        return _kept(verdict)
    verdict.decision = decide(now, state_of(left._replace(anchor_at=now, is_new=False)))
    return changed(verdict, 0, None)._replace(is_new=False)


def _keeps_its_time(now: datetime, standing: Standing) -> bool:
    """Due and not yet claimed, at another run whose finish decides, or in no state to be decided."""
    is_at_it = standing.running > 0 and standing.plan.trigger.pace is not None
    is_unfit = standing.unreadable is not None or standing.quarantine is not None
    return is_at_it or is_unfit or is_due(now, standing)


def _kept(verdict: Verdict) -> ChangedSchedule:
    standing = verdict.standing
    return changed(verdict, 0, None)._replace(
        next_run_at=standing.next_run_at,
        next_due_at=standing.next_due_at,
        wake_at=standing.wake_at,
        quarantine=standing.quarantine,
    )
