"""Accounts at their usage limit, as a claim sees them: what waits for one, and in which order it starts afterwards."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.store.base import ChangedBeat, PendingBeat, ScheduleSnapshot, Transaction


def load_holds(
    tx: Transaction, now: datetime, snapshots: Collection[ScheduleSnapshot]
) -> tuple[dict[int, AccountHold], list[AccountHold]]:
    """Return by schedule the hold that it waits for, and the holds that have ended by now, which are closed here."""
    holds = tx.hold_list_open()
    ended = [hold for hold in holds if hold.until <= now]
    tx.hold_end_many([hold.id for hold in ended], now)
    active = [hold for hold in holds if hold.until > now]
    return _match_schedules(tx, active, [snapshot.id for snapshot in snapshots]), ended


def find_account_hold(tx: Transaction, now: datetime, schedule_id: int) -> AccountHold | None:
    """Return the hold that a schedule would wait for now; None if its account may be used."""
    if not tx.rare_gates().has_holds:
        return None
    active = [hold for hold in tx.hold_list_open() if hold.until > now]
    return _match_schedules(tx, active, [schedule_id]).get(schedule_id)


def _match_schedules(
    tx: Transaction, active: Sequence[AccountHold], schedule_ids: Sequence[int]
) -> dict[int, AccountHold]:
    """Of several holds that concern a schedule, the last to end counts."""
    matched: dict[int, AccountHold] = {}
    uses = tx.account_get_many(schedule_ids) if active else {}
    for hold in sorted(active, key=lambda hold: hold.until):
        matched |= {schedule_id: hold for schedule_id, use in uses.items() if hold.concerns(use)}
    return matched


def pace_released(
    tx: Transaction,
    now: datetime,
    pacer: CatchupPacer,
    pending: Sequence[PendingBeat],
    holds_by_schedule: Mapping[int, AccountHold],
) -> dict[int, datetime]:
    """Give the beats whose account has opened their slots under `catchup_rate`; return those that lie ahead, by beat.

    A hundred agents that waited for one login would otherwise reach its limit again in the same second.
    """
    released = [
        beat for beat in pending if beat.reason == SkipReason.RATE_LIMITED and beat.schedule_id not in holds_by_schedule
    ]
    if not released:
        return {}
    *slots, free_at = pacer.start_times(len(released) + 1, pacer.next_free_at(now, tx.catchup_get_cursor()))
    tx.catchup_set_cursor(free_at)
    return {beat.id: slot for beat, slot in zip(released, slots, strict=True) if slot > now}


def wait_for_slot(beat: PendingBeat, slot: datetime) -> ChangedBeat:
    """Keep a beat pending until its slot: from then on it waits like any other that catches up."""
    return ChangedBeat(beat.id, BeatOutcome.PENDING, Source.CATCH_UP, slot, beat.attempt, settled=False)
