"""Claim what is due, in one transaction: pending beats first, then schedules, which are evaluated and decided again.

`write_evaluations` and `start_runs` are the two halves of writing a claim. A change by hand or by an edit uses only the
first: it settles and decides, and starts nothing.

A full target with more due schedules than one cycle can queue does not delay other targets. Once, 100,000 schedules of
one full target that fell due together took six seconds to queue, and every other beat waited as long. Now schedules of
other targets come first, and those of saturated targets are queued a slice at a time. They are only evaluated later:
their capacity is always read anew.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple, TypeVar

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import BeatOutcome, Gap, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.planned_pause import find_window
from herdbeat.domain.policies import Catchup
from herdbeat.domain.remote_run import RemoteStop
from herdbeat.domain.run import Claim, RunStatus
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind, started_dedup_id
from herdbeat.scheduler.account_holds import load_holds, pace_released, wait_for_slot
from herdbeat.scheduler.budgets import load_budgets, reserve_budgets
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.evaluate import (
    REPLACED_BY_NEXT,
    ClaimCycle,
    Evaluation,
    build_schedule_change,
    change_from_evaluation,
    decide_start_slot,
    evaluate,
    is_due,
    may_need_start_slot,
)
from herdbeat.scheduler.instants import due_since
from herdbeat.scheduler.pending import (
    decide_after_settling,
    evaluate_pending,
    has_open_beat,
    reschedule_after_pending,
)
from herdbeat.scheduler.quarantine import QuarantinedSchedule, decide_or_quarantine, quarantine_evaluation
from herdbeat.store.base import (
    ChangedBeat,
    ChangedSchedule,
    CounterDelta,
    NewBeat,
    NewRun,
    PendingBeat,
    RangeRow,
    RareGates,
    ScheduleSnapshot,
    StartedInterval,
    Transaction,
)
from herdbeat.timestamps import format_timestamp

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_CLAIM_BATCH = 500
"""Schedules and beats of one cycle: large enough to share a commit, small enough not to hold it long."""

WRITE_CHUNK_SIZE = 256
"""Rows of one statement. A large batch is written in chunks, each as soon as it is decided: the database works on one
while we decide the next. Small enough that it begins early, large enough that a statement pays off."""

SATURATED_BATCH_SIZE = 100
"""Schedules of saturated targets that one cycle queues: a few milliseconds of delay for other targets."""

MIN_SATURATED_SCHEDULES = 10
"""With fewer of them queued in one cycle, a full target is not treated as saturated."""

_RESCAN_MARGIN = timedelta(milliseconds=250)
"""A completion writes the time at which it began, so it may add rows to a time that was just scanned."""


class SaturatedTargets(NamedTuple):
    """Full targets with more due schedules, and the moment before which nothing of other targets is due."""

    targets: frozenset[int]
    scanned_until: datetime


class DueBatch(NamedTuple):
    """The schedules of a cycle, whether more is due, and the moment before which only saturated targets have any."""

    due: list[ScheduleSnapshot]
    has_more: bool
    scanned_until: datetime


@dataclass(slots=True)
class ClaimResult:
    """What a cycle has claimed, whose runs have to be cancelled for it, and when to look again."""

    claims: list[Claim] = field(default_factory=list)
    schedules_to_cancel: list[int] = field(default_factory=list)
    settled: list[tuple[str, NewBeat]] = field(default_factory=list)
    quarantined: list[QuarantinedSchedule] = field(default_factory=list)
    wake_at: datetime | None = None
    saturated: SaturatedTargets | None = None
    is_full: bool = False
    ended_holds: list[AccountHold] = field(default_factory=list)

    def add_evaluations(self, evaluations: Iterable[Evaluation]) -> None:
        """Report what was written for these schedules, except for what starts."""
        for evaluation in evaluations:
            snapshot = evaluation.snapshot
            self.settled += [
                (snapshot.label, beat) for beat in evaluation.beats if beat.outcome is not BeatOutcome.RUNNING
            ]
            if evaluation.quarantine is not None:
                self.quarantined.append(QuarantinedSchedule(snapshot.label, evaluation.quarantine))
            if evaluation.cancels_active_runs:
                self.schedules_to_cancel.append(snapshot.id)


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """The node that claims: its id in the ledger, its free slots, and what it knows of the past."""

    node_id: int
    free_slots: int
    pacer: CatchupPacer
    gaps: Sequence[Gap] = ()
    batch_limit: int = MAX_CLAIM_BATCH
    saturated: SaturatedTargets | None = None
    labels: frozenset[str] = frozenset()
    fleet_limit: int | None = None


class BeatToStart(NamedTuple):
    """A beat in the ledger that gets a run in this transaction."""

    id: int
    beat: NewBeat | PendingBeat
    snapshot: ScheduleSnapshot

    @property
    def attempt(self) -> int:
        """The number of its run. A run that a usage limit has refused counts here, and not for the retry policy."""
        return self.beat.attempt + self.beat.limited if isinstance(self.beat, PendingBeat) else 1

    @property
    def new_run(self) -> NewRun:
        beat, snapshot = self.beat, self.snapshot
        limited = beat.limited if isinstance(beat, PendingBeat) else 0
        return NewRun(self.id, snapshot.id, self.attempt, snapshot.target_id, beat.source, limited)

    @property
    def source(self) -> Source:
        return Source.RETRY if isinstance(self.beat, PendingBeat) and self.beat.retried_by else self.beat.source


def claim_due(tx: Transaction, now: datetime, context: ClaimContext) -> ClaimResult:
    """Claim what is due and may start on this node, and write all that was decided about it.

    Returns what has to be started and published after the commit. What finds no free slot stays due.
    """
    if context.fleet_limit is not None:
        context = replace(context, free_slots=min(context.free_slots, context.fleet_limit - tx.run_count_active()))
        if context.free_slots <= 0:
            return ClaimResult(is_full=True)  # what is due stays due, until a run of any node has ended
    # Not many more than there are slots, yet never few: those of a full target take none, and must get out of the way.
    limit = min(context.batch_limit, max(context.free_slots, MAX_CLAIM_BATCH // 5))
    batch = fetch_due(tx, now, limit, context.saturated)
    if any(snapshot.windows for snapshot in batch.due):
        due = [begin_window(tx, now, snapshot) for snapshot in batch.due]
        batch = batch._replace(due=leave_open_intervals(tx, due))
    pending = tx.due_beats(now, limit)
    snapshots = {snapshot.id: snapshot for snapshot in batch.due}
    missing = {beat.schedule_id for beat in pending} - snapshots.keys()
    snapshots |= tx.schedules(missing) if missing else {}
    capacity = load_capacity(tx, now, context, snapshots.values())
    result = ClaimResult(ended_holds=capacity.ended_holds)
    cycle = ClaimCycle(now, capacity, context.gaps)
    if pending:
        # They were due before, so they have the first pick of the capacity.
        result.claims += claim_pending(tx, cycle, context, pending, snapshots)
    due = load_recorded(tx, now, [snapshots[snapshot.id] for snapshot in batch.due])
    cycle = replace(cycle, paced_counts=_count_paced_beats(tx, context, due))
    capacity.free_start_slots = _count_free_start_slots(tx, now, context.pacer, due)
    evaluations: list[Evaluation] = []
    for chunk in batched(_evaluate_all(cycle, due), WRITE_CHUNK_SIZE):
        claim_evaluated(tx, cycle, context, chunk, result)
        evaluations += chunk
    tx.target_adjust_running(capacity.taken_by_target)
    result.wake_at = tx.next_wake()
    result.saturated = find_saturated_targets(batch, evaluations, capacity, context.saturated)
    return result


def begin_window(tx: Transaction, now: datetime, snapshot: ScheduleSnapshot) -> ScheduleSnapshot:
    """Settle what waits when a planned pause of the schedule has begun, as a pause at this moment does."""
    has_begun = find_window(snapshot.windows, now) is not None and snapshot.next_source is not Source.PAUSED
    if not has_begun or snapshot.quarantine is not None:
        return snapshot
    skipped = tx.skip_waiting(snapshot.id, SkipReason.PAUSED, now)
    # At once, and not with its evaluation: a full node may leave that to the next cycle.
    tx.schedule_adjust_counters([CounterDelta(snapshot.id, waiting=-skipped)], None)
    return snapshot._replace(waiting=snapshot.waiting - skipped)


def leave_open_intervals(tx: Transaction, due: Iterable[ScheduleSnapshot]) -> list[ScheduleSnapshot]:
    """Return what is to be evaluated: not the intervals that a planned pause has woken while a beat of theirs is open.

    They have no next time until that beat ends. Once such a pause gave them one, and they ran twice in a row.
    """
    snapshots = list(due)
    open_ids = {snapshot.id for snapshot in snapshots if snapshot.windows and has_open_beat(tx, snapshot)}
    left = [snapshot._replace(wake_at=None) for snapshot in snapshots if snapshot.id in open_ids]
    tx.change_schedules([build_schedule_change(each, keeps_time=True, quarantine=each.quarantine) for each in left])
    return [snapshot for snapshot in snapshots if snapshot.id not in open_ids]


def fetch_due(tx: Transaction, now: datetime, limit: int, saturated: SaturatedTargets | None) -> DueBatch:
    """Return what is due, oldest first; with saturated targets, all others before a slice of theirs."""
    if saturated is None:
        due = tx.due_schedules(now, limit)
        return DueBatch(due, len(due) == limit, (due[0].wake_at or now) if due else now)
    others = tx.schedule_list_due_excluding(now, limit, saturated.targets, saturated.scanned_until)
    saturated_due = tx.due_schedules(now, SATURATED_BATCH_SIZE)
    seen = {snapshot.id for snapshot in others}
    scanned_until = saturated.scanned_until
    if len(others) < limit:
        scanned_until = max(scanned_until, now - _RESCAN_MARGIN)
    return DueBatch(
        others + [snapshot for snapshot in saturated_due if snapshot.id not in seen],
        len(saturated_due) == SATURATED_BATCH_SIZE,
        scanned_until,
    )


def find_saturated_targets(
    batch: DueBatch, evaluations: Iterable[Evaluation], capacity: CapacitySnapshot, before: SaturatedTargets | None
) -> SaturatedTargets | None:
    """Return the targets that the next cycle takes last. None, as nearly always, if nothing more is due."""
    if not batch.has_more:
        return None
    queued = Counter(each.snapshot.target_id for each in evaluations if each.queue_count)
    full_targets = frozenset(
        target
        for target, count in queued.items()
        if count >= MIN_SATURATED_SCHEDULES and capacity.free_by_target.get(target, 0) <= 0
    )
    if not full_targets:
        return None
    return SaturatedTargets(full_targets | before.targets if before else full_targets, batch.scanned_until)


def load_capacity(
    tx: Transaction, now: datetime, context: ClaimContext, snapshots: Collection[ScheduleSnapshot]
) -> CapacitySnapshot:
    """Return how much of these schedules may start on this node now."""
    targets = tx.target_get_capacity({snapshot.target_id for snapshot in snapshots})
    free_by_target = {each.target_id: each.max_concurrent - each.running for each in targets.values()}
    capacity = CapacitySnapshot(context.free_slots, free_by_target, labels=context.labels)
    gates = tx.rare_gates() if snapshots else RareGates(False, False)
    has_shared = gates.has_budgets
    if gates.has_holds:
        capacity.holds_by_schedule, capacity.ended_holds = load_holds(tx, now, snapshots)
    if has_shared or any(snapshot.plan.policies.budget is not None for snapshot in snapshots):
        capacity.budgets_by_schedule = load_budgets(tx, now, snapshots, has_shared=has_shared)
    return capacity


def batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split into lists of `size`, the last one shorter. Takes a row only when its list is wanted."""
    remaining = iter(rows)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _count_paced_beats(tx: Transaction, context: ClaimContext, due: list[ScheduleSnapshot]) -> Mapping[int, int]:
    """Only where time was lost can beats wait for a catch-up slot, and only their schedules need the count."""
    if not context.gaps:
        return {}
    eligible_ids = [
        snapshot.id for snapshot in due if snapshot.waiting and snapshot.plan.policies.catchup is not Catchup.SKIP
    ]
    return tx.beat_count_catchup(eligible_ids) if eligible_ids else {}


def _count_free_start_slots(tx: Transaction, now: datetime, pacer: CatchupPacer, due: list[ScheduleSnapshot]) -> int:
    """Return how many paced starts may begin now: one, unless the last was a moment ago."""
    if not any(may_need_start_slot(snapshot) for snapshot in due):
        return 0
    return int(pacer.next_free_at(now, tx.start_slot_get_cursor(now)) <= now)


def _evaluate_all(cycle: ClaimCycle, due: list[ScheduleSnapshot]) -> Iterator[Evaluation]:
    """Only a full target queues beats: what a full node cannot start stays due, for its next cycle or another node."""
    for snapshot in due:
        if cycle.capacity.is_node_full:
            return
        yield evaluate_or_quarantine(cycle, snapshot)


def evaluate_or_quarantine(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> Evaluation:
    """Return the evaluation of a schedule; if it raises, its quarantine, with the capacity that it took given back."""
    capacity, target_id = cycle.capacity, snapshot.target_id
    taken = capacity.taken_by_target.get(target_id, 0)

    def quarantine(reason: str) -> Evaluation:
        capacity.release_excess(target_id, taken)
        return quarantine_evaluation(cycle.now, snapshot, reason)

    return decide_or_quarantine(lambda: evaluate(cycle, snapshot), quarantine)


def claim_evaluated(
    tx: Transaction, cycle: ClaimCycle, context: ClaimContext, evaluations: list[Evaluation], result: ClaimResult
) -> None:
    """Write these evaluations, and start the runs they call for."""
    assign_start_slots(tx, cycle.now, context.pacer, evaluations)
    assign_catchup_slots(tx, cycle.now, context.pacer, evaluations)
    beats = write_evaluations(tx, cycle.now, evaluations, node_id=context.node_id)
    _release_duplicates(cycle.capacity, evaluations, beats)
    result.add_evaluations(evaluations)
    result.claims += start_runs(tx, cycle, context.node_id, beats)


def assign_start_slots(tx: Transaction, now: datetime, pacer: CatchupPacer, evaluations: Sequence[Evaluation]) -> None:
    """Give every schedule that is due at once and may not start yet its slot, before it is written.

    Two hundred agents of a new fleet would otherwise start in one second, each with its own program and its own calls.
    """
    waiting = [evaluation for evaluation in evaluations if evaluation.needs_start_slot]
    taken = sum(evaluation.took_start_slot for evaluation in evaluations)
    if not waiting and not taken:
        return
    first = pacer.next_free_at(now, tx.start_slot_get_cursor(now))
    *slots, free_at = pacer.start_times(taken + len(waiting) + 1, first)
    tx.start_slot_set_cursor(free_at)
    for evaluation, slot in zip(waiting, slots[taken:], strict=True):
        evaluation.decision = decide_start_slot(evaluation.snapshot, slot, pacer.rate)


def assign_catchup_slots(
    tx: Transaction, now: datetime, pacer: CatchupPacer, evaluations: Sequence[Evaluation]
) -> None:
    """Give every catch-up beat of these evaluations the next free slot of the fleet, before they are written.

    The ledger hands the slots out. When each node counted for itself, three nodes that came back together started three
    times `catchup_rate` a second, and one that was started twice in a row began its count again.
    """
    catchup_evaluations = [evaluation for evaluation in evaluations if evaluation.catchup_count]
    if not catchup_evaluations:
        return
    number = sum(evaluation.catchup_count for evaluation in catchup_evaluations)
    *start_times, free_at = pacer.start_times(number + 1, pacer.next_free_at(now, tx.catchup_get_cursor()))
    tx.catchup_set_cursor(free_at)
    slots = iter(start_times)
    for evaluation in catchup_evaluations:
        evaluation.beats = [
            beat._replace(wake_at=next(slots)) if beat.reason == Source.CATCH_UP else beat for beat in evaluation.beats
        ]


def write_evaluations(
    tx: Transaction, now: datetime, evaluations: Sequence[Evaluation], *, node_id: int = 0
) -> list[BeatToStart]:
    """Write beats and schedules, and return the beats that start: they need `start_runs` in the same transaction.

    Other nodes are asked to cancel the runs that a beat replaces; those of `node_id` its own loop cancels.
    """
    ids = iter(tx.add_beats([beat for evaluation in evaluations for beat in evaluation.beats]))
    tx.beat_extend_many([extension for evaluation in evaluations for extension in evaluation.extensions], now)
    started_intervals: list[StartedInterval] = []
    changes: list[ChangedSchedule] = []
    beats_to_start: list[BeatToStart] = []
    for evaluation in evaluations:
        snapshot = evaluation.snapshot
        beat_ids = [next(ids) for _ in evaluation.beats]
        new_beats = [
            BeatToStart(beat_id, evaluation.beats[index], snapshot)
            for index in evaluation.start_indexes
            if (beat_id := beat_ids[index]) is not None
        ]
        if None in beat_ids:
            _settle_duplicates(now, evaluation, beat_ids)
        beats_to_start += new_beats
        if new_beats and len(evaluation.beats) == 1 and evaluation.is_rescheduled_on_completion:
            # An interval that starts only loses its next time: a narrower statement than a whole row.
            started_intervals.append(StartedInterval(snapshot, new_beats[0].beat.due_at))
        else:
            change = change_from_evaluation(evaluation, len(new_beats), beat_ids[-1] if beat_ids else None)
            changes.append(change._replace(last_started_at=now) if new_beats else change)
    tx.schedule_mark_started(started_intervals, now)
    tx.change_schedules(changes)
    tx.schedule_consume_skips([(each.snapshot.id, each.skip_count) for each in evaluations if each.skip_count])
    tx.end_one_shots(list(_list_used_hints(now, evaluations)), now)
    replaced = [evaluation.snapshot.id for evaluation in evaluations if evaluation.cancels_active_runs]
    if replaced:
        tx.run_request_stop(REPLACED_BY_NEXT, schedules=replaced, node_id=node_id)
        tx.remote_request_stop(str(RemoteStop(RunStatus.CANCELLED, REPLACED_BY_NEXT)), schedules=replaced)
    return beats_to_start


def _list_used_hints(now: datetime, evaluations: Iterable[Evaluation]) -> Iterator[tuple[int, datetime]]:
    """A claim uses up the one-shot hints of its instants, also of those it skips: else they would be due again."""
    for evaluation in evaluations:
        if evaluation.snapshot.hints and evaluation.last_due_at is not None and is_due(now, evaluation.snapshot):
            yield evaluation.snapshot.id, evaluation.last_due_at


def _settle_duplicates(now: datetime, evaluation: Evaluation, beat_ids: list[int | None]) -> None:
    """The ledger has some of these beats already (None): they ran or wait, and the schedule continues without them."""
    log.warning("duplicate beat ignored schedule=%s", evaluation.snapshot.label)
    pairs = zip(evaluation.beats, beat_ids, strict=True)
    evaluation.queue_count -= sum(beat.outcome is BeatOutcome.PENDING for beat, beat_id in pairs if beat_id is None)
    if evaluation.decision is not None or evaluation.queue_count or evaluation.quarantine is not None:
        return
    evaluation.anchor_at = now
    decided = decide_after_settling(now, evaluation)
    evaluation.decision, evaluation.quarantine = decided.decision, decided.quarantine


def _release_duplicates(
    capacity: CapacitySnapshot, evaluations: Sequence[Evaluation], beats: Sequence[BeatToStart]
) -> None:
    """Give back the slots of beats that were to start and were in the ledger already."""
    if sum(len(evaluation.start_indexes) for evaluation in evaluations) == len(beats):
        return
    reserved = Counter(evaluation.snapshot.target_id for evaluation in evaluations for _ in evaluation.start_indexes)
    reserved.subtract(beat.snapshot.target_id for beat in beats)
    for target_id in reserved.elements():
        capacity.release(target_id)


def start_runs(tx: Transaction, cycle: ClaimCycle, node_id: int, beats: Sequence[BeatToStart]) -> list[Claim]:
    """Write a run for each beat, reserve its cost, and return the claims: what is not in the ledger did not start."""
    run_ids = tx.add_runs([beat.new_run for beat in beats], node_id, cycle.now)
    claims = [_build_claim(beat, run_id, node_id) for beat, run_id in zip(beats, run_ids, strict=True)]
    if cycle.capacity.budgets_by_schedule:
        reserve_budgets(tx, cycle.capacity.budgets_by_schedule, claims)
    return claims


def _build_claim(beat: BeatToStart, run_id: int, node_id: int) -> Claim:
    snapshot = beat.snapshot
    return Claim(
        run_id=run_id,
        beat_id=beat.id,
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        label=snapshot.label,
        dedup_id=beat.beat.dedup_id,
        due_at=beat.beat.due_at,
        source=beat.source,
        attempt=beat.attempt,
        revision=snapshot.revision,
        plan=snapshot.plan,
        fence=node_id,
    )


def claim_pending(
    tx: Transaction,
    cycle: ClaimCycle,
    context: ClaimContext,
    pending: list[PendingBeat],
    snapshots: dict[int, ScheduleSnapshot],
) -> list[Claim]:
    """Start the pending beats that may start, keep the others pending, and settle those that came too late.

    `snapshots` then has the new counters and decisions of their schedules.
    """
    now, capacity = cycle.now, cycle.capacity
    slots = pace_released(tx, now, context.pacer, pending, capacity.holds_by_schedule)
    changes: list[ChangedBeat] = []
    counter_deltas: dict[int, CounterDelta] = {}
    beats_to_start: list[BeatToStart] = []
    for beat in pending:
        if capacity.is_node_full:
            break  # it stays due, and has the first pick of the next cycle
        snapshot = snapshots[beat.schedule_id]
        slot = slots.get(beat.id)
        change = evaluate_pending(now, beat, snapshot, capacity) if slot is None else wait_for_slot(beat, slot)
        changes.append(change)
        if change.outcome is BeatOutcome.PENDING:
            continue
        started = int(change.outcome is BeatOutcome.RUNNING)
        waiting = 1 if beat.source.is_clock and beat.attempt == 1 else 0  # a retry is not counted as waiting
        # One delta per schedule: of two changes of one row in one statement, only one would count.
        before = counter_deltas.get(snapshot.id, CounterDelta(snapshot.id))
        counter_deltas[snapshot.id] = CounterDelta(snapshot.id, before.running + started, before.waiting - waiting)
        snapshots[snapshot.id] = snapshot._replace(
            running=snapshot.running + started, waiting=snapshot.waiting - waiting
        )
        if started:
            beats_to_start.append(BeatToStart(beat.id, beat, snapshot))
    tx.change_beats(changes, now)
    tx.schedule_adjust_counters(list(counter_deltas.values()), now)
    _wake_next_pending(tx, cycle, pending, changes)
    settled_beats = [beat for beat, change in zip(pending, changes, strict=False) if change.settled]
    tx.change_schedules(reschedule_after_pending(now, snapshots, settled_beats))
    claims = _name_by_run(tx, start_runs(tx, cycle, context.node_id, beats_to_start))
    retried_by = {beat.id: beat.retried_by for beat in pending if beat.retried_by}
    tx.mark_retries([(claim.run_id, retried_by[claim.beat_id]) for claim in claims if claim.beat_id in retried_by])
    return claims


def _name_by_run(tx: Transaction, claims: list[Claim]) -> list[Claim]:
    """Give beats by hand, which no event named, the id of their run."""
    names = {claim.beat_id: started_dedup_id(claim.dedup_id, claim.run_id) for claim in claims}
    renamed = [(beat_id, name) for beat_id, name in names.items() if name is not None]
    if not renamed:
        return claims
    tx.rename_beats(renamed)
    return [claim._replace(dedup_id=names[claim.beat_id] or claim.dedup_id) for claim in claims]


def _wake_next_pending(
    tx: Transaction, cycle: ClaimCycle, pending: list[PendingBeat], changes: list[ChangedBeat]
) -> None:
    """A beat that was woken for a free slot and does not take it leaves it to the next: nothing else wakes that.

    Twice as many are woken as have declined. What holds one (a budget, a usage limit) mostly holds the whole queue, and
    one by one a queue of a hundred would take a hundred cycles.
    """
    declined = Counter(
        beat.target_id
        for beat, change in zip(pending, changes, strict=False)
        if change.outcome is not BeatOutcome.RUNNING and change.reason != SkipReason.AT_CAPACITY
    )
    for target_id, count in declined.items():
        free_slots = cycle.capacity.free_by_target.get(target_id, 0)
        if free_slots > 0:
            tx.beat_wake_pending(target_id, max(free_slots, 2 * count), cycle.now)


# ── instants that have an outcome already: a clock that is set back reaches them a second time ──
#
# Everything up to the mark of a schedule has an outcome, and nothing after it, until the clock is set back. Then the
# mark moves back with it, and what had not started is withdrawn: it is in the future again. What had started stays. No
# row may cover such an instant, so these instants are loaded before a range is settled. Once, a clock that was set back
# by an hour and forward again five times made 18,060 beats of 3,655 instants.

_SHORTEST_PERIOD = timedelta(seconds=1)
"""No two instants of a calendar are closer, so one that is less late is alone, and its dedup id protects it."""


def load_recorded(tx: Transaction, now: datetime, snapshots: Iterable[ScheduleSnapshot]) -> list[ScheduleSnapshot]:
    """Return the schedules with the instants up to now that have a beat although they are after the mark."""
    loaded = list(snapshots)
    windows = [
        (snapshot.id, _cron_id(snapshot.settled_until), _cron_id(now))
        for snapshot in loaded
        if _may_settle_range(now, snapshot)
    ]
    if not windows:
        return loaded
    recorded = tx.beat_list_recorded(windows)
    return [snapshot._replace(recorded=tuple(recorded.get(snapshot.id, ()))) for snapshot in loaded]


def move_clock_back(tx: Transaction, now: datetime, step: timedelta) -> None:
    """The clock was set back by `step`, to `now`: withdraw the outcomes of all instants that did not start."""
    tx.withdraw_future(now, step)
    # Listed only now: it waits for a node that has not noticed the clock yet, and may just have added to a row.
    rows = tx.beat_list_across(now, _cron_id(now))
    snapshots = tx.schedules({row.schedule_id for row in rows}) if rows else {}
    cuts = [_cut_row(now, row, snapshots[row.schedule_id]) for row in rows]
    tx.beat_cut_many([cut for cut in cuts if cut is not None])


def _cut_row(now: datetime, row: RangeRow, snapshot: ScheduleSnapshot) -> tuple[int, int, datetime] | None:
    """Return the row without the instants after now; None if its calendar cannot count them any more."""
    if snapshot.unreadable is not None:
        return None
    trigger = snapshot.plan.trigger
    kept = decide_or_quarantine(lambda: due_since(trigger, row.due_at, now), lambda _: None)
    return None if kept is None else (row.id, min(kept.count, row.number), kept.last)


def _cron_id(moment: datetime) -> str:
    """The dedup id of a calendar's instant in that second. These ids sort by time."""
    return f"{TriggerKind.CRON}:{format_timestamp(moment.replace(microsecond=0))}"


def _may_settle_range(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if its evaluation may settle more than one instant, or add one to the row before it."""
    if snapshot.unreadable is not None or not isinstance(snapshot.plan.trigger, CalendarTrigger):
        return False
    run_at = snapshot.next_run_at
    is_late = run_at is None or now - run_at >= _SHORTEST_PERIOD
    is_held = snapshot.next_source is Source.PAUSED or not snapshot.enabled or snapshot.quarantine is not None
    return is_late or is_held or snapshot.tail_id is not None or snapshot.plan.policies.active_hours is not None
