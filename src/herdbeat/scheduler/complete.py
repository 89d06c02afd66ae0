"""Complete runs: write the result, decide the schedule again, and give the slot to a beat that waits.

All of it in one transaction, and the outcome is counted before the decision. `RunCompleter` collects results: what
arrives during a commit goes into the next one.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import BeatOutcome, MergedReason, SkipReason
from herdbeat.domain.decision import Decision, Source
from herdbeat.domain.policies import OnInterrupt, Retry
from herdbeat.domain.remote_run import RemoteRun
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import CalendarTrigger, IntervalAnchor
from herdbeat.durations import MAX_DURATION
from herdbeat.errors import ClaimLost, StoreUnavailable, truncate_for_message
from herdbeat.events import RuleFired, RunFinished
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.governor import Pause, decide
from herdbeat.governor.state import PAUSED_BY_POLICY, decision_to_text
from herdbeat.scheduler.account_holds import find_account_hold
from herdbeat.scheduler.agent_runs import UnheldAccount, complete_agents, may_wait_for_account
from herdbeat.scheduler.budgets import settle_reservations
from herdbeat.scheduler.claim import WRITE_CHUNK_SIZE, batched
from herdbeat.scheduler.control import pause, reschedule
from herdbeat.scheduler.evaluate import (
    apply_change,
    build_schedule_change,
    governor_state,
    has_pause_ended,
    is_in_flight,
    is_undecided,
    require_readable,
)
from herdbeat.scheduler.quarantine import (
    BatchRefused,
    QuarantinedSchedule,
    decide_or_quarantine,
    format_reason,
    write_batch,
)
from herdbeat.scheduler.rules import apply_rules
from herdbeat.scheduler.run_groups import RunGroup, load_run_groups
from herdbeat.scheduler.spend import PriceEstimate
from herdbeat.scheduler.timers import Timer
from herdbeat.scheduler.work_claims import end_claims
from herdbeat.store.base import ChangedBeat, ChangedSchedule, FinishedRun, OpenRun, ScheduleSnapshot, Store, Transaction

log = logging.getLogger(__name__)

MAX_COMPLETION_BATCH = 1_000
COULD_NOT_START_REASONS = frozenset({SkipReason.CONFIG_ERROR, SkipReason.WORK_SOURCE_ERROR})
"""A run that is skipped for one of these could not start. Its error stays with the schedule until one can."""
MAX_NOT_BEFORE_DELAY = timedelta(hours=24)
"""The longest `Retry-After` of a target that is respected."""
MIN_RETRY_DELAY = timedelta(milliseconds=50)
MAX_RETRY_DELAY = timedelta(seconds=5)

_MAX_ERROR_CHARS = 200


@dataclass(slots=True)
class CompletionResult:
    """What was completed, as the events to publish after the commit, and which runs were no longer ours."""

    at: datetime
    completed: list[RunFinished] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    wake_at: datetime | None = None
    quarantined: list[QuarantinedSchedule] = field(default_factory=list)
    fired_rules: list[RuleFired] = field(default_factory=list)
    new_holds: list[AccountHold] = field(default_factory=list)
    unheld: list[UnheldAccount] = field(default_factory=list)
    has_deliveries: bool = False
    """True if hooks of the runs have something to send or to start."""
    adopted: list[RemoteRun] = field(default_factory=list)
    """Runs of dead nodes that go on elsewhere, and are this node's to follow from now on."""
    has_work: bool = False
    """True if one of the runs had a work item, which is to be reported or offered again."""


def complete_runs(
    tx: Transaction,
    now: datetime,
    finished_runs: Sequence[FinishedRun],
    estimate: PriceEstimate | None = None,
) -> CompletionResult:
    """Write how these runs ended. `estimate` prices the tokens of agents for which the user has no price."""
    open_runs = tx.open_runs([run.run_id for run in finished_runs])
    result = CompletionResult(now, lost=[run.run_id for run in finished_runs if run.run_id not in open_runs])
    owned_runs = [run for run in finished_runs if run.run_id in open_runs]
    snapshots = tx.schedules({run.schedule_id for run in open_runs.values()})
    holds: Mapping[int, AccountHold] = {}
    if any(run.outcome.agent is not None for run in owned_runs):
        agents = complete_agents(tx, now, owned_runs, open_runs, snapshots, estimate)
        owned_runs = [run._replace(outcome=agents.outcomes.get(run.run_id, run.outcome)) for run in owned_runs]
        holds, result.new_holds, result.unheld = agents.holds, agents.new_holds, agents.unheld
    # Only what was claimed under a budget has a reservation, whichever node has claimed it.
    reserved_outcomes = {run.run_id: run.outcome for run in owned_runs if open_runs[run.run_id].has_reservation}
    if reserved_outcomes:
        settle_reservations(tx, reserved_outcomes)
    batch = _CompletionBatch(now, open_runs, snapshots, result, holds, has_repeats=len(snapshots) < len(owned_runs))
    work_outcomes = {run.run_id: run.outcome for run in owned_runs if open_runs[run.run_id].has_work}
    if work_outcomes:
        result.has_work = True
        end_claims(tx, now, work_outcomes)
        batch.groups = load_run_groups(tx, {open_runs[run_id].beat_id for run_id in work_outcomes})
        batch.find_hold = partial(find_account_hold, tx, now)
    for chunk in batched(owned_runs, WRITE_CHUNK_SIZE):
        batch.complete(tx, chunk)
    if batch.not_before:
        tx.schedule_set_not_before(batch.not_before)
    for schedule_id, new_pause in batch.new_pauses.items():
        pause(tx, now, schedule_id, new_pause)
    for schedule_id in batch.find_unscheduled_intervals(tx):
        reschedule(tx, now, schedule_id)
    deliveries = [each for run in owned_runs if run.deliveries for each in run.deliveries]
    if deliveries:
        result.has_deliveries = True
        tx.outbox_add(deliveries, now)
    runs_with_rules = [run for run in owned_runs if run.truths]
    if runs_with_rules:
        effects = apply_rules(tx, now, runs_with_rules, open_runs, snapshots)
        result.fired_rules = effects.fired
        _report_next_times(tx, effects.acted_on, result)
    _release_capacity(tx, now, list(open_runs.values()))
    result.wake_at = tx.next_wake()
    return result


def _report_next_times(tx: Transaction, schedule_ids: Collection[int], result: CompletionResult) -> None:
    """Report the next times of schedules on which a rule has acted. Mostly there are none."""
    if not schedule_ids:
        return
    next_run_at = {snapshot.label: snapshot.next_run_at for snapshot in tx.schedules(schedule_ids).values()}
    result.completed = [
        replace(run, next_run_at=next_run_at[run.schedule]) if run.schedule in next_run_at else run
        for run in result.completed
    ]


class SharedDecisions:
    """Decides schedules at one moment, and those that differ in nothing that matters once.

    Runs that end together mostly belong to a few plans. Each decision then has the same time and reason. Its text
    ends with the number of runs, which is the schedule's own.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._decided: dict[tuple[int, datetime, bool, int], tuple[ScheduleSpec, Decision, str]] = {}

    def decide(self, snapshot: ScheduleSnapshot) -> tuple[Decision, str]:
        """Return the decision and its text. Raises whatever is wrong with the schedule."""
        plan, text_end = snapshot.plan, f"{snapshot.runs}}}}}"
        is_held = snapshot.pause is not None or snapshot.not_before is not None or snapshot.windows
        if is_held or snapshot.hints or not snapshot.enabled or plan.depends_on_schedule:
            decision = decide(self._now, governor_state(snapshot))
            return decision, decision_to_text(decision)
        key = id(plan), snapshot.anchor_at, snapshot.is_new, snapshot.failures
        found = self._decided.get(key)
        if found is not None:
            return found[1], found[2] + text_end
        decision = decide(self._now, governor_state(snapshot))
        text = decision_to_text(decision)
        if text.endswith(f'"runs":{text_end}'):
            # With its plan: the id of one that is gone may become that of another.
            self._decided[key] = plan, decision, text.removesuffix(text_end)
        return decision, text

    def find_after_success(self, snapshot: ScheduleSnapshot) -> tuple[Decision, str] | None:
        """Return what `decide` returns for a plain schedule after its success, if it has decided such a one before."""
        found = self._decided.get((id(snapshot.plan), self._now, False, 0))
        return None if found is None else (found[1], f"{found[2]}{snapshot.runs + 1}}}}}")


@dataclass(slots=True)
class _CompletionBatch:
    """Runs that end in one transaction. It `has_repeats` if several of them belong to one schedule."""

    now: datetime
    open_runs: dict[int, OpenRun]
    snapshots: dict[int, ScheduleSnapshot]
    result: CompletionResult
    holds: Mapping[int, AccountHold]
    has_repeats: bool
    changes: dict[int, ChangedSchedule] = field(default_factory=dict)
    new_pauses: dict[int, Pause] = field(default_factory=dict)
    groups: dict[int, RunGroup] = field(default_factory=dict)
    """By beat, the runs of beats that have one for each work item."""
    find_hold: Callable[[int], AccountHold | None] | None = None
    """Finds what the account of a schedule waits for, if a run that was refused has ended in an earlier batch."""
    not_before: dict[int, datetime | None] = field(default_factory=dict)
    decisions: SharedDecisions = field(init=False)

    def __post_init__(self) -> None:
        self.decisions = SharedDecisions(self.now)

    def complete(self, tx: Transaction, runs: list[FinishedRun]) -> None:
        """Write the results of these runs: their rows, then the beats and schedules that follow from them."""
        tx.finish_runs(runs, self.now)
        beats: list[ChangedBeat] = []
        changes: dict[int, ChangedSchedule] = {}
        for run in runs:
            beat, change = self._complete(run)
            if beat is not None:
                beats.append(beat)
            changes[change.id] = change
        tx.change_beats(beats, self.now)
        tx.change_schedules(list(changes.values()))
        self.changes |= changes
        if self.holds or self.groups:
            tx.beat_count_limited([beat.id for beat in beats if beat.reason == SkipReason.RATE_LIMITED])

    def _complete(self, run: FinishedRun) -> tuple[ChangedBeat | None, ChangedSchedule]:
        open_run = self.open_runs[run.run_id]
        snapshot = self.snapshots[open_run.schedule_id]
        if not self.has_repeats and not self.groups and is_plain_success(snapshot, open_run, run.outcome):
            decided = self.decisions.find_after_success(snapshot)
            if decided is not None:
                beat, change = complete_plain(self.now, snapshot, open_run, *decided)
                self._report(run, snapshot, change.next_run_at)
                return beat, change
        return self._complete_by_policies(run, open_run, snapshot)

    def _complete_by_policies(
        self, run: FinishedRun, open_run: OpenRun, snapshot: ScheduleSnapshot
    ) -> tuple[ChangedBeat | None, ChangedSchedule]:
        now, outcome = self.now, run.outcome
        group, refused = self.groups.get(open_run.beat_id), outcome.was_refused
        tool_called = outcome.agent is not None and outcome.agent.tool_called
        if group is not None:
            group.end(open_run, outcome)
            if group.open_ids:
                return self._complete_one_of_group(run, snapshot)
            outcome, refused, tool_called = group.result

        def quarantine(reason: str) -> tuple[ChangedBeat, ChangedSchedule]:
            self.result.quarantined.append(QuarantinedSchedule(snapshot.label, reason))
            return _complete_quarantined(now, snapshot, open_run, outcome, reason)

        if outcome.not_before is not None or snapshot.not_before is not None:
            snapshot = self._set_not_before(snapshot, outcome)
        waits = refused and may_wait_for_account(open_run, tool_called=tool_called)
        waits = waits and not _is_held(now, snapshot, open_run)
        waits_until = self._find_hold_end(run, open_run.schedule_id) if waits else None
        decision = partial(complete_run, now, snapshot, open_run, outcome, self.decisions, waits_until, refused=refused)
        beat, change = decide_or_quarantine(decision, quarantine)
        new_pause = auto_pause(snapshot, change.failures, outcome) if change.failures > snapshot.failures else None
        if new_pause is not None:
            self.new_pauses[snapshot.id] = new_pause
        retry = None if beat.settled or waits_until is not None else beat.attempt
        self._report(run, snapshot, None if new_pause else change.next_run_at, beat.wake_at, retry)
        if self.has_repeats:
            # Another run of the same schedule may end in this batch: it continues from what this one left.
            self.snapshots[snapshot.id] = apply_change(snapshot, change)
        return beat, change

    def _find_hold_end(self, run: FinishedRun, schedule_id: int) -> datetime | None:
        """Return when the account opens that has refused this run, or an earlier one of the same beat."""
        hold = self.holds.get(run.run_id)
        if hold is None and self.find_hold is None:
            return None
        if hold is None and self.find_hold is not None:
            hold = self.find_hold(schedule_id)
        return self.now if hold is None or hold.released_at is not None else hold.until

    def _complete_one_of_group(self, run: FinishedRun, snapshot: ScheduleSnapshot) -> tuple[None, ChangedSchedule]:
        """Other runs of the beat are active: the last of them settles it, and decides what comes next."""
        change = build_schedule_change(snapshot._replace(running=snapshot.running - 1), None, keeps_time=True)
        self._report(run, snapshot, change.next_run_at)
        self.snapshots[snapshot.id] = apply_change(snapshot, change)
        return None, change

    def _report(
        self,
        run: FinishedRun,
        snapshot: ScheduleSnapshot,
        next_run_at: datetime | None,
        retry_at: datetime | None = None,
        retry_attempt: int | None = None,
    ) -> None:
        outcome = run.outcome
        self.result.completed.append(
            RunFinished(
                at=self.now,
                schedule=snapshot.label,
                run_id=run.run_id,
                status=outcome.status,
                error=outcome.skip if outcome.status is RunStatus.SKIPPED else outcome.error,
                started_at=run.started_at,
                next_run_at=next_run_at,
                retry_at=retry_at,
                retry_attempt=retry_attempt,
                max_attempts=snapshot.plan.policies.retry.attempts,
                error_code=outcome.agent.error_code if outcome.agent is not None else "",
            )
        )

    def _set_not_before(self, snapshot: ScheduleSnapshot, outcome: Outcome) -> ScheduleSnapshot:
        """Store until when its target must not be called (`Retry-After`), or that it has answered since."""
        not_before = outcome.not_before
        self.not_before[snapshot.id] = None if not_before is None else min(not_before, self.now + MAX_NOT_BEFORE_DELAY)
        return snapshot._replace(not_before=self.not_before[snapshot.id])

    def find_unscheduled_intervals(self, tx: Transaction) -> list[int]:
        """Intervals that were changed during a run by hand: nothing is planned, and no beat of their own decides."""
        candidate_ids = {
            schedule_id
            for schedule_id in {run.schedule_id for run in self.open_runs.values() if not run.source.is_clock}
            if self.changes[schedule_id].next_run_at is None
            and self.changes[schedule_id].running == 0
            and self.snapshots[schedule_id].plan.trigger.interval is not None
            and self.snapshots[schedule_id].enabled
        }
        tallies = tx.schedule_count_open(candidate_ids) if candidate_ids else {}
        return [schedule_id for schedule_id, tally in tallies.items() if not tally.open]


def is_plain_success(snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome) -> bool:
    """True if the beat of an interval has succeeded, and nothing but its plan says when the next one is due.

    `complete_run` comes to the same result, at three times the cost. Nearly every run ends like this.
    """
    return (
        outcome.status is RunStatus.SUCCEEDED
        and outcome.not_before is None
        and snapshot.plan.is_plain
        and snapshot.enabled
        and snapshot.next_run_at is None
        and snapshot.wake_at is None
        and snapshot.pause is None
        and snapshot.not_before is None
        and not (snapshot.hints or snapshot.windows)
        and snapshot.quarantine is None
        and snapshot.unreadable is None
        and run.source.is_clock
    )


def complete_plain(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, decision: Decision, trace: str
) -> tuple[ChangedBeat, ChangedSchedule]:
    """Return the beat and its schedule after such a success."""
    change = ChangedSchedule(
        snapshot.id,
        decision.next_run_at,
        decision.due_at,
        decision.source,
        decision.origin,
        trace,
        decision.wake_at,
        now,
        snapshot.settled_until,
        False,
        0,
        snapshot.runs + 1,
        snapshot.running - 1,
        snapshot.waiting,
        snapshot.tail_id,
        snapshot.tail,
        None,
        now,
        RunStatus.SUCCEEDED,
    )
    return ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True), change


def complete_run(
    now: datetime,
    snapshot: ScheduleSnapshot,
    run: OpenRun,
    outcome: Outcome,
    decisions: SharedDecisions,
    waits_until: datetime | None = None,
    *,
    refused: bool = False,
) -> tuple[ChangedBeat, ChangedSchedule]:
    """Return the beat and its schedule after one of its runs has ended. Pure.

    With `waits_until`, a usage limit has refused the run, and its beat waits until its account opens. `refused` says
    that a limit ended it, also where the report of the run is no longer at hand.
    Raises whatever is wrong with the schedule: callers go through `decide_or_quarantine`.
    """
    if snapshot.quarantine is not None:
        return _complete_quarantined(now, snapshot, run, outcome, snapshot.quarantine)
    require_readable(snapshot)
    if waits_until is not None:
        return _wait_for_account(now, snapshot, run, outcome, waits_until)
    retry_at = _compute_retry_at(now, snapshot, run, outcome)
    if retry_at is not None:
        beat = ChangedBeat(run.beat_id, BeatOutcome.PENDING, Source.RETRY, retry_at, run.tried + 1, settled=False)
        return beat, _build_change(now, snapshot._replace(running=snapshot.running - 1), outcome)
    beat, counted = _settle_beat(run, outcome), _count_outcome(now, snapshot, run, outcome, refused=refused)
    if not run.source.is_clock and (counted.failures == snapshot.failures or snapshot.next_run_at is None):
        # Without a next run, a beat of its own is active and decides when it ends, or there is nothing to decide.
        return beat, _build_change(now, counted, outcome)
    if is_in_flight(now, snapshot) or has_pause_ended(now, snapshot) or is_undecided(now, snapshot):
        # Due already, and not yet claimed: deciding now would lose that instant.
        return beat, _build_change(now, counted, outcome)
    if _is_outdated(now, snapshot):
        return beat, _build_change(now, counted, outcome)
    return beat, _build_change(now, counted, outcome, *decisions.decide(counted))


def _is_outdated(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if another node has settled later instants of a calendar since this completion has read the clock.

    It may have waited for a lock of the ledger. Decided as of then, instants that have their outcome were due again.
    """
    is_decided = snapshot.next_run_at is not None and isinstance(snapshot.plan.trigger, CalendarTrigger)
    return is_decided and snapshot.settled_until > now


def _wait_for_account(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome, waits_until: datetime
) -> tuple[ChangedBeat, ChangedSchedule]:
    """Send the beat back to wait, as if it had not started: the same attempt is made when the account opens.

    Its schedule counts it as waiting, so that later instants join it.
    """
    beat = ChangedBeat(run.beat_id, BeatOutcome.PENDING, SkipReason.RATE_LIMITED, waits_until, run.tried, settled=False)
    waiting = snapshot.waiting + int(run.source.is_clock and run.tried == 1)
    return beat, _build_change(now, snapshot._replace(running=snapshot.running - 1, waiting=waiting), outcome)


def _complete_quarantined(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome, reason: str
) -> tuple[ChangedBeat, ChangedSchedule]:
    """Complete the run and settle its beat, without a decision: a schedule in quarantine has no next run."""
    counted = _count_outcome(now, snapshot, run, outcome, refused=outcome.was_refused)
    return _settle_beat(run, outcome), _build_change(now, counted, outcome, quarantine=reason)


def _settle_beat(run: OpenRun, outcome: Outcome) -> ChangedBeat:
    """A beat with a run has run, however that ended; unless its first attempt was declined before it began."""
    if outcome.status is RunStatus.SKIPPED and run.attempt == 1:
        is_replaced = outcome.skip == MergedReason.CANCEL  # its next beat runs in its place
        settled_as = BeatOutcome.MERGED if is_replaced else BeatOutcome.SKIPPED
        return ChangedBeat(run.beat_id, settled_as, outcome.skip, None, run.attempt, settled=True)
    return ChangedBeat(run.beat_id, BeatOutcome.RAN, "", None, run.attempt, settled=True)


def _count_outcome(
    now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome, *, refused: bool
) -> ScheduleSnapshot:
    """Return the schedule with this run counted. Only clock beats move the anchor and add failures."""
    failures, running = snapshot.failures, snapshot.running - 1
    if outcome.status is RunStatus.SUCCEEDED:
        failures = 0
    elif outcome.status.is_failure and run.source.is_clock and not refused:
        failures += 1
    if not run.source.is_clock:
        return snapshot._replace(failures=failures, running=running)
    runs = snapshot.runs + int(outcome.status is not RunStatus.SKIPPED)
    # The claim has moved the anchor of a fixed rate already, to the instant itself.
    anchor_at = snapshot.anchor_at if snapshot.plan.trigger.anchor is IntervalAnchor.START else now
    return snapshot._replace(failures=failures, running=running, anchor_at=anchor_at, is_new=False, runs=runs)


def _build_change(
    now: datetime,
    snapshot: ScheduleSnapshot,
    outcome: Outcome,
    decision: Decision | None = None,
    trace: str | None = None,
    *,
    quarantine: str | None = None,
) -> ChangedSchedule:
    """Return the row of the schedule. Without a decision its next time and trace stay; in quarantine it has none."""
    is_declined = outcome.status is RunStatus.SKIPPED and outcome.skip != SkipReason.NO_WORK
    error = outcome.error if outcome.status.is_failure else None
    if is_declined and outcome.skip in COULD_NOT_START_REASONS:
        error = outcome.error or outcome.note or outcome.skip
    return build_schedule_change(
        snapshot,
        decision,
        trace=trace,
        keeps_time=quarantine is None,
        quarantine=quarantine,
        last_run_at=None if is_declined else now,
        last_status=None if is_declined and error is None else outcome.status,
        last_error=error,
    )


def auto_pause(snapshot: ScheduleSnapshot, failures: int, outcome: Outcome) -> Pause | None:
    """Return the pause that `pause_after_failures` calls for, if any. It lasts until somebody resumes the schedule."""
    max_failures = snapshot.plan.policies.pause_after_failures
    if max_failures is None or failures < max_failures or snapshot.pause is not None:
        return None
    count = "1 failure" if failures == 1 else f"{failures} consecutive failures"
    return Pause(
        by=PAUSED_BY_POLICY,
        reason=f"{count}: {truncate_for_message(outcome.error, _MAX_ERROR_CHARS)}" if outcome.error else count,
    )


def _compute_retry_at(now: datetime, snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome) -> datetime | None:
    """Return when to try the same beat again; None if not, or if the next instant comes first anyway."""
    policies, is_interrupted = snapshot.plan.policies, outcome.status is RunStatus.INTERRUPTED
    if not (is_interrupted or outcome.status.is_failure) or _is_held(now, snapshot, run):
        return None
    if run.has_work:
        return None  # its item is offered again, and has attempts of its own
    if is_interrupted:
        return now if policies.on_interrupt is OnInterrupt.RETRY else None
    if run.tried >= policies.retry.attempts or run.source is Source.RETRY:
        return None  # a person who retries by hand looks at the result, and may retry again
    if outcome.was_refused:
        return None  # every attempt before the reset would end like this one
    at = now + _retry_wait(policies.retry, run.tried)
    if snapshot.not_before is not None:
        at = max(at, snapshot.not_before)
    return None if snapshot.next_run_at is not None and at >= snapshot.next_run_at else at


def _is_held(now: datetime, snapshot: ScheduleSnapshot, run: OpenRun) -> bool:
    """True if no attempt may follow this one: its schedule was paused, disabled or removed while it ran.

    A pause settles the retries that wait, so none begins to wait during it. An event waits for the end of the pause.
    """
    if snapshot.is_removed or not run.source.is_clock:
        return snapshot.is_removed
    return not snapshot.enabled or snapshot.pause_at(now) is not None


def _retry_wait(retry: Retry, attempt: int) -> timedelta:
    """Return the wait after an attempt. Each failed attempt multiplies it, up to a hundred years."""
    factor = float(retry.factor ** (attempt - 1))
    return MAX_DURATION if retry.wait and factor > MAX_DURATION / retry.wait else retry.wait * factor


def _release_capacity(tx: Transaction, now: datetime, runs: list[OpenRun]) -> None:
    freed_slots = Counter(run.target_id for run in runs)
    tx.target_adjust_running({target: -count for target, count in freed_slots.items()})
    for target in tx.target_get_capacity(freed_slots).values():
        if target.has_waiting and target.max_concurrent > target.running:
            tx.beat_wake_pending(target.target_id, target.max_concurrent - target.running, now)


class RunCompleter:
    """Writes results in batches, and keeps them until they are durable, however long the store is unavailable.

    Only `drain_once` ends that.
    """

    def __init__(
        self,
        store: Store,
        timer: Timer,
        ledger_now: Callable[[], datetime],
        on_finished: Callable[[CompletionResult], None],
        on_lost: Callable[[], None] = lambda: None,
        estimate: PriceEstimate | None = None,
    ) -> None:
        self._store = store
        self._estimate = estimate
        self._timer = timer
        self._ledger_now = ledger_now
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
        self._has_ended = False

    def add(self, run: FinishedRun) -> None:
        self._queue.append(run)
        if not self._has_ended:
            self._queue_empty.clear()
        self._results_added.set()

    @property
    def unwritten(self) -> int:
        """How many results are not durable yet."""
        return len(self._queue)

    def drain_once(self) -> None:
        """Try once more, without waiting, and then give up: a stop must come to an end."""
        self._draining.set()

    async def wait_drained(self) -> None:
        """Return once everything that was added is durable, given up after `drain_once`, or not written any more."""
        await self._queue_empty.wait()

    async def run(self) -> None:
        """Write until cancelled: wait for the first result, then take all that are there."""
        try:
            while True:
                await self._results_added.wait()
                self._results_added.clear()
                while self._queue and await self._write(self._queue[: self._batch_limit]):
                    pass
                self._queue_empty.set()
        finally:
            # A node that waits for results that no task writes any more would never end, and never say why.
            self._has_ended = True
            self._queue_empty.set()

    async def _write(self, group: list[FinishedRun]) -> bool:
        """Return whether to continue. False if the store fails the last attempt: what is left stays unwritten."""
        is_last_attempt = self._draining.is_set()
        failpoint(Failpoint.BEFORE_FINISH)
        try:
            # The time is read inside: a clock that is set back while this write waits must not leave a future anchor.
            finished = await write_batch(
                self._store, lambda tx: complete_runs(tx, self._ledger_now(), group, self._estimate)
            )
        except StoreUnavailable as error:
            if not is_last_attempt:
                await self._back_off(error, self._timer.now())
            return not is_last_attempt
        except ClaimLost as error:
            # Another node has completed these runs already, and may have started what follows them.
            log.error("results dropped runs=%s error=%s", len(self._queue), error)  # noqa: TRY400
            self._queue.clear()
            self._on_lost()
            return False
        except BatchRefused as refused:
            self._bisect_batch(group, refused.error)
            return True
        del self._queue[: len(group)]
        self._retry_delay, self._batch_limit = MIN_RETRY_DELAY, MAX_COMPLETION_BATCH
        failpoint(Failpoint.AFTER_FINISH)
        self._on_finished(finished)
        return True

    def _bisect_batch(self, group: list[FinishedRun], error: Exception) -> None:
        """Halve the batch until the bad result is alone: then record it as failed, without what was bad."""
        self._batch_limit = max(1, len(group) // 2)
        if len(group) > 1:
            return
        run = group[0]
        if run.run_id in self._last_attempt_runs:
            log.error(
                "result not written run=%s error=%r the run is recorded as interrupted at the next start",
                run.run_id,
                error,
            )
            self._last_attempt_runs.discard(run.run_id)
            del self._queue[0]
            return
        log.error("result cannot be written run=%s error=%r the run is recorded as failed", run.run_id, error)
        self._last_attempt_runs.add(run.run_id)
        message = f"its result could not be written ({format_reason(error)})"
        self._queue[0] = FinishedRun(run.run_id, run.started_at, Outcome(status=RunStatus.FAILED, error=message))

    async def _back_off(self, error: StoreUnavailable, now: datetime) -> None:
        waiting = len(self._queue)
        log.warning(
            "results waiting for the store runs=%s error=%s %s retry_in=%s",
            waiting,
            error,
            error.hint,
            self._retry_delay,
        )
        await self._timer.sleep_until(now + self._retry_delay, self._draining)
        self._retry_delay = min(self._retry_delay * 2, MAX_RETRY_DELAY)
