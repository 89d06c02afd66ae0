"""Runs that are over: the result is written, the schedule decided again, and the place given to who waits.

All of it in one transaction, with the outcome counted before the decision is made.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import OnInterrupt, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ClaimLost, SchedulerError, StoreUnavailable, truncate_for_message
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.governor import Pause, decide
from herdbeat.governor.state import PAUSED_BY_POLICY
from herdbeat.scheduler.budgets import settle_reservations
from herdbeat.scheduler.claim import batched
from herdbeat.scheduler.control import pause, reschedule
from herdbeat.scheduler.evaluate import governor_state, has_pause_ended, is_in_flight
from herdbeat.scheduler.evaluation import serialize_trace
from herdbeat.scheduler.quarantine import QuarantinedSchedule, clear_next_run, format_reason
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import ChangedBeat, ChangedSchedule, FinishedRun, OpenRun, ScheduleSnapshot, Store, Transaction

MAX_ERROR_CHARS = 200


class CompletedRun(NamedTuple):
    """A run that is over and written down, and when its schedule runs next."""

    schedule: str
    run_id: int
    status: RunStatus
    error: str
    started_at: datetime | None
    next_run_at: datetime | None


@dataclass(slots=True)
class CompletionResult:
    """What the finish did, and which runs were no longer ours."""

    at: datetime
    completed: list[CompletedRun] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    wake_at: datetime | None = None
    quarantined: list[QuarantinedSchedule] = field(default_factory=list)


def complete_runs(tx: Transaction, now: datetime, finished_runs: Sequence[FinishedRun]) -> CompletionResult:
    open_runs = tx.open_runs([run.run_id for run in finished_runs])
    result = CompletionResult(now, lost=[run.run_id for run in finished_runs if run.run_id not in open_runs])
    owned_runs = [run for run in finished_runs if run.run_id in open_runs]
    snapshots = tx.schedules({run.schedule_id for run in open_runs.values()})
    settle_reservations(tx, owned_runs)
    completion_batch = _CompletionBatch(now, open_runs, snapshots, result, has_repeats=len(snapshots) < len(owned_runs))
    for chunk in batched(owned_runs):
        completion_batch.close(tx, chunk)
    for schedule_id, new_pause in completion_batch.new_pauses.items():
        pause(tx, now, schedule_id, new_pause)
    for schedule_id in _find_unscheduled_intervals(
        tx, [open_runs[run.run_id] for run in owned_runs], completion_batch.changes, snapshots
    ):
        reschedule(tx, now, schedule_id)
    _release_capacity(tx, now, list(open_runs.values()))
    result.wake_at = tx.next_wake()
    return result


@dataclass(slots=True)
class _CompletionBatch:
    """Runs that end in one transaction. Crowded, if several of one schedule are among them."""

    now: datetime
    open_runs: dict[int, OpenRun]
    snapshots: dict[int, ScheduleSnapshot]
    result: CompletionResult
    has_repeats: bool
    changes: dict[int, ChangedSchedule] = field(default_factory=dict)
    new_pauses: dict[int, Pause] = field(default_factory=dict)

    def close(self, tx: Transaction, runs: list[FinishedRun]) -> None:
        tx.finish_runs(runs, self.now)
        beats: list[ChangedBeat] = []
        changes: dict[int, ChangedSchedule] = {}
        for run in runs:
            beat, change = self._complete(run)
            beats.append(beat)
            changes[change.id] = change
        tx.change_beats(beats, self.now)
        tx.change_schedules(list(changes.values()))
        self.changes |= changes

    def _complete(self, run: FinishedRun) -> tuple[ChangedBeat, ChangedSchedule]:
        open_run, outcome = self.open_runs[run.run_id], run.outcome
        snapshot = self.snapshots[open_run.schedule_id]
        try:
            beat, change = complete_run(self.now, snapshot, open_run, outcome)
        except Exception as error:  # noqa: BLE001 - the run is over all the same, and the others go on
            reason = format_reason(error)
            beat, change = _quarantined(self.now, snapshot, open_run, outcome, reason)
            self.result.quarantined.append(QuarantinedSchedule(snapshot.label, reason))
        new_pause = auto_pause(snapshot, change.failures, outcome) if change.failures > snapshot.failures else None
        if new_pause is not None:
            self.new_pauses[snapshot.id] = new_pause
        next_run_at = None if new_pause else change.next_run_at
        self.result.completed.append(
            CompletedRun(
                snapshot.label, run.run_id, outcome.status, _describe_outcome(outcome), run.started_at, next_run_at
            )
        )
        if self.has_repeats:
            # Another run of the same schedule ends in this very group: it goes on from what this one left.
            self.snapshots[snapshot.id] = _apply_change(snapshot, change)
        return beat, change


def complete_run(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome
) -> tuple[ChangedBeat, ChangedSchedule]:
    """What becomes of the beat and its schedule when one of its runs has ended. Pure.

    Raises whatever is wrong with the schedule: the caller contains it.
    """
    if snapshot.quarantine is not None:
        return _quarantined(now, snapshot, run, outcome, snapshot.quarantine)
    if snapshot.unreadable is not None:
        raise SchedulerError(snapshot.unreadable)
    retry_at = _compute_retry_at(now, snapshot, run, outcome)
    if retry_at is not None:
        beat = ChangedBeat(run.beat_id, BeatOutcome.PENDING, Source.RETRY, retry_at, run.attempt + 1, settled=False)
        return beat, _build_schedule_change(now, snapshot, None, outcome)
    beat = _settle_beat(run, outcome)
    settled = _count_outcome(now, snapshot, run, outcome)
    if not run.source.is_clock and (settled.failures == snapshot.failures or snapshot.next_run_at is None):
        # Without a next run it is at a beat of its own, which decides when it ends, or nothing is to be decided.
        return beat, _build_schedule_change(now, settled, None, outcome)
    if is_in_flight(now, snapshot) or has_pause_ended(now, snapshot):
        # Due already, and not yet claimed: deciding now would lose that instant.
        return beat, _build_schedule_change(now, settled, None, outcome)
    return beat, _build_schedule_change(now, settled, decide(now, governor_state(settled)), outcome)


def _quarantined(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome, reason: str
) -> tuple[ChangedBeat, ChangedSchedule]:
    """The run is closed and its beat settled, and nothing is decided: the schedule is in quarantine."""
    return _settle_beat(run, outcome), clear_next_run(
        _build_schedule_change(now, _count_outcome(now, snapshot, run, outcome), None, outcome), reason
    )


def _settle_beat(run: OpenRun, outcome: Outcome) -> ChangedBeat:
    """A beat with a run has run, however that ended; unless it was declined before it began."""
    if outcome.status is RunStatus.SKIPPED and run.attempt == 1:
        return ChangedBeat(run.beat_id, BeatOutcome.SKIPPED, outcome.skip, None, run.attempt, settled=True)
    return ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True)


def _describe_outcome(outcome: Outcome) -> str:
    """Why it ended as it did, for those who listen."""
    return outcome.skip if outcome.status is RunStatus.SKIPPED else outcome.error


def auto_pause(snapshot: ScheduleSnapshot, failures: int, outcome: Outcome) -> Pause | None:
    """`pause_after_failures`: a schedule that has failed so often in a row pauses itself, until somebody resumes it."""
    max_failures = snapshot.plan.policies.pause_after_failures
    if max_failures is None or failures < max_failures or snapshot.pause is not None:
        return None
    count = "1 failure" if failures == 1 else f"{failures} failures in a row"
    return Pause(
        by=PAUSED_BY_POLICY,
        reason=f"{count}: {truncate_for_message(outcome.error, MAX_ERROR_CHARS)}" if outcome.error else count,
    )


def _count_outcome(now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome) -> ScheduleSnapshot:
    """Count the outcome first. Only clock beats move the anchor; other runs may mend, never harm."""
    failures = snapshot.failures
    if outcome.status is RunStatus.SUCCEEDED:
        failures = 0
    elif outcome.status.is_failure and run.source.is_clock:
        failures += 1
    if not run.source.is_clock:
        return snapshot._replace(failures=failures)
    runs = snapshot.runs + int(outcome.status is not RunStatus.SKIPPED)
    return snapshot._replace(failures=failures, anchor_at=now, is_new=False, runs=runs)


def _compute_retry_at(now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome) -> datetime | None:
    """When to try the same beat again; None if not, or if the next instant comes first anyway."""
    policies = snapshot.plan.policies
    if outcome.status is RunStatus.INTERRUPTED:
        return now if policies.on_interrupt is OnInterrupt.RETRY else None
    if not outcome.status.is_failure or run.attempt >= policies.retry.attempts or run.source is Source.RETRY:
        return None  # who has it run again by hand looks at it, and asks again
    at = now + _compute_retry_delay(policies.retry, run.attempt)
    return None if snapshot.next_run_at is not None and at >= snapshot.next_run_at else at


def _compute_retry_delay(retry: Retry, attempt: int) -> timedelta:
    return retry.wait * float(retry.factor ** (attempt - 1))


def _build_schedule_change(
    now: datetime, snapshot: ScheduleSnapshot, decision: Decision | None, outcome: Outcome
) -> ChangedSchedule:
    """Without a decision the time that stands is kept, and its trace with it."""
    is_declined = outcome.status is RunStatus.SKIPPED and outcome.skip != SkipReason.NO_WORK
    return ChangedSchedule(
        id=snapshot.id,
        next_run_at=decision.next_run_at if decision else snapshot.next_run_at,
        next_due_at=decision.due_at if decision else snapshot.next_due_at,
        next_source=decision.source if decision else snapshot.next_source,
        next_origin=decision.origin if decision else snapshot.next_origin,
        next_trace=serialize_trace(decision) if decision else None,
        wake_at=decision.wake_at if decision else snapshot.wake_at,
        anchor_at=snapshot.anchor_at,
        settled_until=snapshot.settled_until,
        is_new=snapshot.is_new,
        failures=snapshot.failures,
        runs=snapshot.runs,
        running=snapshot.running - 1,
        waiting=snapshot.waiting,
        tail_id=snapshot.tail_id,
        tail=snapshot.tail,
        last_run_at=None if is_declined else now,
        last_status=None if is_declined else outcome.status,
        last_error=outcome.error if outcome.status.is_failure else None,
    )


def _apply_change(snapshot: ScheduleSnapshot, change: ChangedSchedule) -> ScheduleSnapshot:
    return snapshot._replace(
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


def _find_unscheduled_intervals(
    tx: Transaction, runs: list[OpenRun], changes: dict[int, ChangedSchedule], snapshots: dict[int, ScheduleSnapshot]
) -> list[int]:
    """Paces that were changed while they ran by hand: nothing is planned, and no own beat is left to decide."""
    candidate_ids = {
        run.schedule_id
        for run in runs
        if not run.source.is_clock
        and changes[run.schedule_id].next_run_at is None
        and changes[run.schedule_id].running == 0
        and snapshots[run.schedule_id].plan.trigger.interval is not None
        and snapshots[run.schedule_id].enabled
    }
    return (
        [number for number, tally in tx.schedule_count_open(candidate_ids).items() if not tally.open]
        if candidate_ids
        else []
    )


def _release_capacity(tx: Transaction, now: datetime, runs: list[OpenRun]) -> None:
    freed_slots = Counter(run.target_id for run in runs)
    tx.target_adjust_running({target: -count for target, count in freed_slots.items()})
    for room in tx.target_get_capacity(freed_slots).values():
        if room.has_waiting and room.max_concurrent > room.running:
            tx.beat_wake_pending(room.target_id, room.max_concurrent - room.running, now)


# Results on their way into the ledger: what ended while the last commit ran goes into the next one.


log = logging.getLogger(__name__)

MAX_COMPLETION_BATCH = 1_000
MIN_RETRY_DELAY = timedelta(milliseconds=50)
MAX_RETRY_DELAY = timedelta(seconds=5)


class RunCompleter:
    """Writes results in groups, and keeps them until they are durable, however long the store is away.

    Only a last call ends that: see `last_call`.
    """

    def __init__(
        self,
        store: Store,
        timer: Timer,
        on_finished: Callable[[CompletionResult], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._timer = timer
        self._on_finished = on_finished
        self._on_lost = on_lost
        self._queue: list[FinishedRun] = []
        self._results_added = asyncio.Event()
        self._queue_empty = asyncio.Event()
        self._queue_empty.set()
        self._retry_delay = MIN_RETRY_DELAY
        self._batch_limit = MAX_COMPLETION_BATCH
        self._last_attempt_runs: set[int] = set()
        self._draining = asyncio.Event()

    def add(self, run: FinishedRun) -> None:
        self._queue.append(run)
        self._queue_empty.clear()
        self._results_added.set()

    @property
    def unwritten(self) -> int:
        """How many results are not durable yet."""
        return len(self._queue)

    def drain_once(self) -> None:
        """From now on try once more, without waiting, and then give up: a stop must come to an end."""
        self._draining.set()

    async def wait_drained(self) -> None:
        """Return once everything that was added is durable, or given up after the last call."""
        await self._queue_empty.wait()

    async def run(self) -> None:
        """Until cancelled. Wait for the first, then take all that are there."""
        while True:
            await self._results_added.wait()
            self._results_added.clear()
            while self._queue and await self._write(self._queue[: self._batch_limit]):
                pass
            self._queue_empty.set()

    async def _write(self, group: list[FinishedRun]) -> bool:
        """Whether to go on. Not if the store is away after the last call: what is left then stays unwritten."""
        is_last_attempt = self._draining.is_set()
        now = self._timer.now()
        failpoint(Failpoint.BEFORE_FINISH)
        try:
            finished = await self._store.write(lambda tx: complete_runs(tx, now, group))
        except StoreUnavailable as error:
            if not is_last_attempt:
                await self._back_off(error, now)
            return not is_last_attempt
        except ClaimLost as error:
            # Somebody else has closed these runs already, and may have started what follows them.
            log.error("results dropped runs=%s error=%s", len(self._queue), error)  # noqa: TRY400
            self._queue.clear()
            self._on_lost()
            return False
        except Exception as error:  # noqa: BLE001 - one result that cannot be written must not hold up the others
            self._bisect_batch(group, error)
            return True
        del self._queue[: len(group)]
        self._retry_delay, self._batch_limit = MIN_RETRY_DELAY, MAX_COMPLETION_BATCH
        failpoint(Failpoint.AFTER_FINISH)
        self._on_finished(finished)
        return True

    def _bisect_batch(self, group: list[FinishedRun], error: Exception) -> None:
        """Half the group next time, until the bad one is alone: then it goes in as failed, without what was bad."""
        self._batch_limit = max(1, len(group) // 2)
        if len(group) > 1:
            return
        run = group[0]
        if run.run_id in self._last_attempt_runs:
            log.error("result given up run=%s error=%r the run is swept at the next start", run.run_id, error)
            self._last_attempt_runs.discard(run.run_id)
            del self._queue[0]
            return
        log.error("result cannot be written run=%s error=%r it is recorded as failed", run.run_id, error)
        self._last_attempt_runs.add(run.run_id)
        self._queue[0] = _replace_with_failure(run, error)

    async def _back_off(self, error: StoreUnavailable, now: datetime) -> None:
        waiting = len(self._queue)
        log.warning(
            "results wait for the store runs=%s error=%s %s retry_in=%s", waiting, error, error.hint, self._retry_delay
        )
        await self._timer.sleep_until(now + self._retry_delay, self._draining)
        self._retry_delay = min(self._retry_delay * 2, MAX_RETRY_DELAY)


def _replace_with_failure(run: FinishedRun, error: Exception) -> FinishedRun:
    message = f"its result could not be written down ({format_reason(error)})"
    return FinishedRun(run.run_id, run.started_at, Outcome(status=RunStatus.FAILED, error=message))
