"""A waiting beat that is looked at again: what may keep it out, and who goes on when it is over without a run. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.governor import decide
from herdbeat.scheduler.gates import Arrival, Held
from herdbeat.scheduler.judge import state_of
from herdbeat.scheduler.quarantine import reason_of
from herdbeat.scheduler.room import Rooms
from herdbeat.scheduler.verdict import Verdict, changed
from herdbeat.store.base import ChangedBeat, ChangedSchedule, Standing, WaitingBeat


def arrival_of(now: datetime, beat: WaitingBeat, standing: Standing, rooms: Rooms, *, is_free: bool) -> Arrival:
    """A second attempt has passed the hours and bounds with the first; what it costs is asked again."""
    source = beat.source
    if beat.attempt > 1:
        source = Source.MANUAL if beat.retried_by else Source.RETRY
    return Arrival(
        now=now,
        due_at=beat.due_at,
        run_at=beat.due_at,
        source=source,
        standing=standing,
        begun=0,
        is_free=is_free,
        rooms=rooms,
    )


def held_back(beat: WaitingBeat, held: Held) -> tuple[BeatOutcome, str, datetime | None]:
    if held.until is not None:
        return BeatOutcome.PENDING, held.reason, held.until
    if beat.attempt > 1:
        return BeatOutcome.RAN, "", None  # it has a run already: only its next attempt is called off
    return BeatOutcome.SKIPPED, held.reason, None


def go_on_after(
    now: datetime, standings: dict[int, Standing], settled: Iterable[ChangedBeat], waiting: Iterable[WaitingBeat]
) -> list[ChangedSchedule]:
    """Intervals whose beat is over without a run: no finish will decide for them, and they would stand still for ever.

    What is decided is put into `standings`, too.
    """
    over = {change.id for change in settled}
    ids = {beat.schedule_id for beat in waiting if beat.id in over and beat.source.is_clock} if over else set()
    changes = []
    for standing in [standings[number] for number in ids]:
        verdict = Verdict(standing, anchor_at=now, settled_until=now)
        if not verdict.is_paced or _is_at_it(standing):
            continue
        try:
            verdict.decision = decide(now, replace(state_of(standing), anchor_at=now, is_new=False))
        except Exception as error:  # noqa: BLE001 - a schedule that cannot be decided is quarantined, here as anywhere
            verdict.quarantine = reason_of(error)
        change = changed(verdict, 0, None)
        changes.append(change)
        standings[standing.id] = _after(standing, change)
    return changes


def _after(standing: Standing, change: ChangedSchedule) -> Standing:
    return standing._replace(
        next_run_at=change.next_run_at,
        next_due_at=change.next_due_at,
        next_source=change.next_source,
        wake_at=change.wake_at,
        anchor_at=change.anchor_at,
        settled_until=change.settled_until,
        quarantine=change.quarantine,
    )


def _is_at_it(standing: Standing) -> bool:
    """Something else will decide: a run, another beat that waits, a time that stands; or nothing may."""
    is_resting = standing.quarantine is not None or standing.unreadable is not None
    return bool(is_resting or standing.running or standing.waiting or standing.next_run_at is not None)
