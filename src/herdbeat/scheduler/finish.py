"""Runs that are over: the result is written, the schedule decided again, and the place given to who waits.

All of it in one transaction, with the outcome counted before the decision is made.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import OnInterrupt, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import SchedulerError
from herdbeat.governor import decide
from herdbeat.scheduler.judge import state_of, trace_of
from herdbeat.scheduler.quarantine import Quarantined, put_to_rest, reason_of
from herdbeat.store.base import ChangedBeat, ChangedSchedule, FinishedRun, OpenRun, Standing, Transaction


class Closed(NamedTuple):
    """A run that is over and written down, and when its schedule runs next."""

    schedule: str
    run_id: int
    status: RunStatus
    error: str
    started_at: datetime | None
    next_run_at: datetime | None


@dataclass(slots=True)
class Finished:
    """What the finish did, and which runs were no longer ours."""

    at: datetime
    closed: list[Closed] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    wake_at: datetime | None = None
    quarantined: list[Quarantined] = field(default_factory=list)


def finish(tx: Transaction, now: datetime, ended: Sequence[FinishedRun]) -> Finished:
    ours = tx.open_runs([run.run_id for run in ended])
    finished = Finished(now, lost=[run.run_id for run in ended if run.run_id not in ours])
    closing = [run for run in ended if run.run_id in ours]
    tx.finish_runs(closing, now)
    standings = tx.schedules({run.schedule_id for run in ours.values()})
    is_crowded = len(standings) < len(closing)
    beats: list[ChangedBeat] = []
    changes: dict[int, ChangedSchedule] = {}
    for run in closing:
        opened = ours[run.run_id]
        standing = standings[opened.schedule_id]
        try:
            beat, change = close(now, standing, opened, run.outcome)
        except Exception as error:  # noqa: BLE001 - the run is over all the same, and the others go on
            reason = reason_of(error)
            beat, change = _rest(now, standing, opened, run.outcome, reason)
            finished.quarantined.append(Quarantined(standing.label, reason))
        beats.append(beat)
        changes[standing.id] = change
        finished.closed.append(
            Closed(
                standing.label, run.run_id, run.outcome.status, run.outcome.error, run.started_at, change.next_run_at
            )
        )
        if is_crowded:
            # Another run of the same schedule ends in this very group: it goes on from what this one left.
            standings[standing.id] = _after(standing, change)
    tx.change_beats(beats, now)
    tx.change_schedules(list(changes.values()))
    _give_room(tx, now, list(ours.values()))
    finished.wake_at = tx.next_wake()
    return finished


def close(now: datetime, standing: Standing, run: OpenRun, outcome: Outcome) -> tuple[ChangedBeat, ChangedSchedule]:
    """What becomes of the beat and its schedule when one of its runs has ended. Pure.

    Raises whatever is wrong with the schedule: the caller contains it.
    """
    if standing.quarantine is not None:
        return _rest(now, standing, run, outcome, standing.quarantine)
    if standing.unreadable is not None:
        raise SchedulerError(standing.unreadable)
    retry_at = _retry_at(now, standing, run, outcome)
    if retry_at is not None:
        beat = ChangedBeat(run.beat_id, BeatOutcome.PENDING, Source.RETRY, retry_at, run.attempt + 1, settled=False)
        return beat, _changed(now, standing, None, outcome)
    beat = ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True)
    settled = _settled(now, standing, run, outcome)
    if not run.source.is_clock and (settled.failures == standing.failures or standing.next_run_at is None):
        # Without a next run it is at a beat of its own, which decides when it ends, or nothing is to be decided.
        return beat, _changed(now, settled, None, outcome)
    if standing.next_run_at is not None and standing.next_run_at <= now and standing.next_source is not Source.PAUSED:
        # Due already, and not yet claimed: deciding now would lose that instant.
        return beat, _changed(now, settled, None, outcome)
    return beat, _changed(now, settled, decide(now, state_of(settled)), outcome)


def _rest(
    now: datetime, standing: Standing, run: OpenRun, outcome: Outcome, reason: str
) -> tuple[ChangedBeat, ChangedSchedule]:
    """The run is closed and its beat settled, and nothing is decided: the schedule is in quarantine."""
    beat = ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True)
    return beat, put_to_rest(_changed(now, _settled(now, standing, run, outcome), None, outcome), reason)


def _settled(now: datetime, standing: Standing, run: OpenRun, outcome: Outcome) -> Standing:
    """Count the outcome first. Only clock beats move the anchor; other runs may mend, never harm."""
    failures = standing.failures
    if outcome.status is RunStatus.SUCCEEDED:
        failures = 0
    elif outcome.status.is_failure and run.source.is_clock:
        failures += 1
    if not run.source.is_clock:
        return standing._replace(failures=failures)
    return standing._replace(failures=failures, anchor_at=now, is_new=False, runs=standing.runs + 1)


def _retry_at(now: datetime, standing: Standing, run: OpenRun, outcome: Outcome) -> datetime | None:
    """When to try the same beat again; None if not, or if the next instant comes first anyway."""
    policies = standing.plan.policies
    if outcome.status is RunStatus.INTERRUPTED:
        return now if policies.on_interrupt is OnInterrupt.RETRY else None
    if not outcome.status.is_failure or run.attempt >= policies.retry.attempts:
        return None
    at = now + _wait(policies.retry, run.attempt)
    return None if standing.next_run_at is not None and at >= standing.next_run_at else at


def _wait(retry: Retry, attempt: int) -> timedelta:
    return retry.wait * float(retry.factor ** (attempt - 1))


def _changed(now: datetime, standing: Standing, decision: Decision | None, outcome: Outcome) -> ChangedSchedule:
    """Without a decision the time that stands is kept, and its trace with it."""
    return ChangedSchedule(
        id=standing.id,
        next_run_at=decision.next_run_at if decision else standing.next_run_at,
        next_due_at=decision.due_at if decision else standing.next_due_at,
        next_source=decision.source if decision else standing.next_source,
        next_origin=decision.origin if decision else standing.next_origin,
        next_trace=trace_of(decision) if decision else None,
        wake_at=decision.wake_at if decision else standing.wake_at,
        anchor_at=standing.anchor_at,
        settled_until=standing.settled_until,
        is_new=standing.is_new,
        failures=standing.failures,
        runs=standing.runs,
        running=standing.running - 1,
        waiting=standing.waiting,
        tail_id=standing.tail_id,
        tail=standing.tail,
        last_run_at=now,
        last_status=outcome.status,
        last_error=outcome.error if outcome.status.is_failure else None,
    )


def _after(standing: Standing, change: ChangedSchedule) -> Standing:
    return standing._replace(
        next_run_at=change.next_run_at,
        next_due_at=change.next_due_at,
        next_source=change.next_source,
        next_origin=change.next_origin,
        wake_at=change.wake_at,
        anchor_at=change.anchor_at,
        is_new=change.is_new,
        failures=change.failures,
        runs=change.runs,
        running=change.running,
        quarantine=change.quarantine,
    )


def _give_room(tx: Transaction, now: datetime, runs: list[OpenRun]) -> None:
    freed = Counter(run.target_id for run in runs)
    tx.move_rooms({target: -count for target, count in freed.items()})
    for room in tx.rooms(freed).values():
        if room.has_waiting and room.max_concurrent > room.running:
            tx.wake_waiting(room.target_id, room.max_concurrent - room.running, now)
