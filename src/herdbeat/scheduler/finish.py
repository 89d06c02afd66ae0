"""Runs that are over: the result is written, the schedule decided again, and the place given to who waits.

All of it in one transaction, with the outcome counted before the decision is made.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import OnInterrupt, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import SchedulerError, shown
from herdbeat.governor import Pause, decide
from herdbeat.governor.state import BY_POLICY
from herdbeat.scheduler.budget import correct
from herdbeat.scheduler.control import decide_again, pause
from herdbeat.scheduler.judge import is_let_go, is_reached, state_of
from herdbeat.scheduler.quarantine import Quarantined, put_to_rest, reason_of
from herdbeat.scheduler.shares import shares
from herdbeat.scheduler.verdict import trace_of
from herdbeat.store.base import ChangedBeat, ChangedSchedule, FinishedRun, OpenRun, Standing, Transaction

ERROR_LENGTH = 200


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
    standings = tx.schedules({run.schedule_id for run in ours.values()})
    correct(tx, closing)
    group = _Group(now, ours, standings, finished, is_crowded=len(standings) < len(closing))
    for share in shares(closing):
        group.close(tx, share)
    for schedule_id, hold in group.holds.items():
        pause(tx, now, schedule_id, hold)
    for schedule_id in _left_without_time(tx, [ours[run.run_id] for run in closing], group.changes, standings):
        decide_again(tx, now, schedule_id)
    _give_room(tx, now, list(ours.values()))
    finished.wake_at = tx.next_wake()
    return finished


@dataclass(slots=True)
class _Group:
    """Runs that end in one transaction. Crowded, if several of one schedule are among them."""

    now: datetime
    ours: dict[int, OpenRun]
    standings: dict[int, Standing]
    finished: Finished
    is_crowded: bool
    changes: dict[int, ChangedSchedule] = field(default_factory=dict)
    holds: dict[int, Pause] = field(default_factory=dict)

    def close(self, tx: Transaction, runs: list[FinishedRun]) -> None:
        tx.finish_runs(runs, self.now)
        beats: list[ChangedBeat] = []
        changes: dict[int, ChangedSchedule] = {}
        for run in runs:
            beat, change = self._close(run)
            beats.append(beat)
            changes[change.id] = change
        tx.change_beats(beats, self.now)
        tx.change_schedules(list(changes.values()))
        self.changes |= changes

    def _close(self, run: FinishedRun) -> tuple[ChangedBeat, ChangedSchedule]:
        opened, outcome = self.ours[run.run_id], run.outcome
        standing = self.standings[opened.schedule_id]
        try:
            beat, change = close(self.now, standing, opened, outcome)
        except Exception as error:  # noqa: BLE001 - the run is over all the same, and the others go on
            reason = reason_of(error)
            beat, change = _rest(self.now, standing, opened, outcome, reason)
            self.finished.quarantined.append(Quarantined(standing.label, reason))
        hold = hold_after(standing, change.failures, outcome) if change.failures > standing.failures else None
        if hold is not None:
            self.holds[standing.id] = hold
        next_run_at = None if hold else change.next_run_at
        self.finished.closed.append(
            Closed(standing.label, run.run_id, outcome.status, _said(outcome), run.started_at, next_run_at)
        )
        if self.is_crowded:
            # Another run of the same schedule ends in this very group: it goes on from what this one left.
            self.standings[standing.id] = _after(standing, change)
        return beat, change


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
    beat = _over(run, outcome)
    settled = _settled(now, standing, run, outcome)
    if not run.source.is_clock and (settled.failures == standing.failures or standing.next_run_at is None):
        # Without a next run it is at a beat of its own, which decides when it ends, or nothing is to be decided.
        return beat, _changed(now, settled, None, outcome)
    if is_reached(now, standing) or is_let_go(now, standing):
        # Due already, and not yet claimed: deciding now would lose that instant.
        return beat, _changed(now, settled, None, outcome)
    return beat, _changed(now, settled, decide(now, state_of(settled)), outcome)


def _rest(
    now: datetime, standing: Standing, run: OpenRun, outcome: Outcome, reason: str
) -> tuple[ChangedBeat, ChangedSchedule]:
    """The run is closed and its beat settled, and nothing is decided: the schedule is in quarantine."""
    return _over(run, outcome), put_to_rest(_changed(now, _settled(now, standing, run, outcome), None, outcome), reason)


def _over(run: OpenRun, outcome: Outcome) -> ChangedBeat:
    """A beat with a run has run, however that ended; unless it was declined before it began."""
    if outcome.status is RunStatus.SKIPPED and run.attempt == 1:
        return ChangedBeat(run.beat_id, BeatOutcome.SKIPPED, outcome.skip, None, run.attempt, settled=True)
    return ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True)


def _said(outcome: Outcome) -> str:
    """Why it ended as it did, for those who listen."""
    return outcome.skip if outcome.status is RunStatus.SKIPPED else outcome.error


def hold_after(standing: Standing, failures: int, outcome: Outcome) -> Pause | None:
    """`pause_after_failures`: a schedule that has failed so often in a row pauses itself, until somebody resumes it."""
    most = standing.plan.policies.pause_after_failures
    if most is None or failures < most or standing.pause is not None:
        return None
    count = "1 failure" if failures == 1 else f"{failures} failures in a row"
    return Pause(by=BY_POLICY, reason=f"{count}: {shown(outcome.error, ERROR_LENGTH)}" if outcome.error else count)


def _settled(now: datetime, standing: Standing, run: OpenRun, outcome: Outcome) -> Standing:
    """Count the outcome first. Only clock beats move the anchor; other runs may mend, never harm."""
    failures = standing.failures
    if outcome.status is RunStatus.SUCCEEDED:
        failures = 0
    elif outcome.status.is_failure and run.source.is_clock:
        failures += 1
    if not run.source.is_clock:
        return standing._replace(failures=failures)
    runs = standing.runs + int(outcome.status is not RunStatus.SKIPPED)
    return standing._replace(failures=failures, anchor_at=now, is_new=False, runs=runs)


def _retry_at(now: datetime, standing: Standing, run: OpenRun, outcome: Outcome) -> datetime | None:
    """When to try the same beat again; None if not, or if the next instant comes first anyway."""
    policies = standing.plan.policies
    if outcome.status is RunStatus.INTERRUPTED:
        return now if policies.on_interrupt is OnInterrupt.RETRY else None
    if not outcome.status.is_failure or run.attempt >= policies.retry.attempts or run.source is Source.RETRY:
        return None  # who has it run again by hand looks at it, and asks again
    at = now + _wait(policies.retry, run.attempt)
    return None if standing.next_run_at is not None and at >= standing.next_run_at else at


def _wait(retry: Retry, attempt: int) -> timedelta:
    return retry.wait * float(retry.factor ** (attempt - 1))


def _changed(now: datetime, standing: Standing, decision: Decision | None, outcome: Outcome) -> ChangedSchedule:
    """Without a decision the time that stands is kept, and its trace with it."""
    is_declined = outcome.status is RunStatus.SKIPPED and outcome.skip != SkipReason.NO_WORK
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
        last_run_at=None if is_declined else now,
        last_status=None if is_declined else outcome.status,
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


def _left_without_time(
    tx: Transaction, runs: list[OpenRun], changes: dict[int, ChangedSchedule], standings: dict[int, Standing]
) -> list[int]:
    """Paces that were changed while they ran by hand: nothing is planned, and no own beat is left to decide."""
    suspects = {
        run.schedule_id
        for run in runs
        if not run.source.is_clock
        and changes[run.schedule_id].next_run_at is None
        and changes[run.schedule_id].running == 0
        and standings[run.schedule_id].plan.trigger.pace is not None
        and standings[run.schedule_id].enabled
    }
    return [number for number, tally in tx.tallies(suspects).items() if not tally.open] if suspects else []


def _give_room(tx: Transaction, now: datetime, runs: list[OpenRun]) -> None:
    freed = Counter(run.target_id for run in runs)
    tx.move_rooms({target: -count for target, count in freed.items()})
    for room in tx.rooms(freed).values():
        if room.has_waiting and room.max_concurrent > room.running:
            tx.wake_waiting(room.target_id, room.max_concurrent - room.running, now)
