"""One turn of the loop, inside one transaction: what is due is claimed, accounted for and decided again."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TypeVar

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup
from herdbeat.domain.run import Claim
from herdbeat.governor import decide
from herdbeat.scheduler.admission import expires_at, find_rejection
from herdbeat.scheduler.backpressure import SaturatedTargets, fetch_due, find_saturated_targets
from herdbeat.scheduler.budgets import load_budgets, reserve_budgets
from herdbeat.scheduler.capacity import CapacitySnapshot, CatchupPacer
from herdbeat.scheduler.evaluate import (
    REPLACED_BY_NEXT,
    OverlapAction,
    evaluate,
    governor_state,
    is_due,
    resolve_overlap,
)
from herdbeat.scheduler.evaluation import ClaimCycle, Evaluation, to_row
from herdbeat.scheduler.pending import admission_request, reject_pending, reschedule_after_pending
from herdbeat.scheduler.quarantine import QuarantinedSchedule, format_reason, quarantine_evaluation
from herdbeat.store.base import (
    ChangedBeat,
    ChangedSchedule,
    CounterDelta,
    NewBeat,
    NewRun,
    PendingBeat,
    ScheduleSnapshot,
    Transaction,
)

# What is caught up starts at the pace of the whole fleet: its places are given out by the ledger, not by each node.
#
# Counted by every node for itself, three nodes that came back together started three times `catchup_rate` a second, and
# one that was started twice in a row began its count anew.


def assign_catchup_slots(
    tx: Transaction, now: datetime, pacer: CatchupPacer, evaluations: Sequence[Evaluation]
) -> None:
    """Give every beat of these verdicts that is caught up the next free place, before they are written."""
    catching_up = [evaluation for evaluation in evaluations if evaluation.catchup_count]
    if not catching_up:
        return
    number = sum(evaluation.catchup_count for evaluation in catching_up)
    *start_times, free_at = pacer.start_times(number + 1, pacer.next_free_at(now, tx.catchup_get_cursor()))
    tx.catchup_set_cursor(free_at)
    slots = iter(start_times)
    for evaluation in catching_up:
        evaluation.beats = [
            beat._replace(wake_at=next(slots)) if beat.reason == Source.CATCH_UP else beat for beat in evaluation.beats
        ]


# A large batch in shares, each written as soon as it is decided: the database is at one while we decide the next.


T = TypeVar("T")

WRITE_CHUNK_SIZE = 256
"""Small enough to have the database begin early, large enough for a statement to be worth its way."""


def batched(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, WRITE_CHUNK_SIZE)):
        yield chunk


log = logging.getLogger(__name__)

MAX_CLAIM_BATCH = 500
"""Schedules and beats looked at in one turn: large enough to share a commit, small enough not to hold it long."""


@dataclass(slots=True)
class ClaimResult:
    """What a turn has claimed, whose runs are to be stopped first, and when to look again."""

    claims: list[Claim] = field(default_factory=list)
    schedules_to_cancel: list[int] = field(default_factory=list)
    settled: list[tuple[str, NewBeat]] = field(default_factory=list)
    quarantined: list[QuarantinedSchedule] = field(default_factory=list)
    wake_at: datetime | None = None
    saturated: SaturatedTargets | None = None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """The process that claims: its number in the ledger, its free places, and what it knows of the past."""

    id: int
    free_slots: int
    pacer: CatchupPacer
    gaps: Sequence[Gap] = ()
    batch_limit: int = MAX_CLAIM_BATCH
    saturated: SaturatedTargets | None = None
    labels: frozenset[str] = frozenset()
    fleet_limit: int | None = None


def claim_due(tx: Transaction, now: datetime, context: ClaimContext) -> ClaimResult:
    if context.fleet_limit is not None:
        context = replace(context, free_slots=min(context.free_slots, context.fleet_limit - tx.run_count_active()))
        if context.free_slots <= 0:
            return ClaimResult(is_full=True)  # what is due stays so, until a run of any node has ended
    # Not many more than there are places, yet never few: those of a full target take none, and must get out of the way.
    limit = min(context.batch_limit, max(context.free_slots, MAX_CLAIM_BATCH // 5))
    batch = fetch_due(tx, now, limit, context.saturated)
    due = batch.due
    waiting = tx.due_beats(now, limit)
    snapshots = {each.id: each for each in due}
    missing = {beat.schedule_id for beat in waiting} - snapshots.keys()
    snapshots |= tx.schedules(missing) if missing else {}
    capacity = CapacitySnapshot.from_targets(
        context.free_slots, tx.target_get_capacity({each.target_id for each in snapshots.values()})
    )
    capacity.budgets_by_schedule, capacity.labels = load_budgets(tx, now, snapshots.values()), context.labels
    result = ClaimResult()
    if waiting:
        # They were due before, so they have the first pick of the room.
        claim_waiting(tx, now, context, waiting, snapshots, capacity, result)
    due_snapshots = [snapshots[each.id] for each in due]
    cycle = ClaimCycle(now, capacity, context.pacer, context.gaps, _count_paced_beats(tx, context, due_snapshots))
    evaluations: list[Evaluation] = []
    for chunk in batched(_evaluate_all(cycle, due_snapshots)):
        write_evaluations(tx, cycle, context, chunk, result)
        evaluations += chunk
    tx.target_adjust_running(capacity.taken_by_target)
    result.wake_at = tx.next_wake()
    result.saturated = find_saturated_targets(batch, evaluations, capacity, context.saturated)
    return result


def _count_paced_beats(tx: Transaction, context: ClaimContext, due: list[ScheduleSnapshot]) -> Mapping[int, int]:
    """Only where time was lost can something be caught up, and only its schedule has to know."""
    if not context.gaps:
        return {}
    asked = [each.id for each in due if each.waiting and each.plan.policies.catchup is not Catchup.SKIP]
    return tx.beat_count_catchup(asked) if asked else {}


def _evaluate_all(cycle: ClaimCycle, due: list[ScheduleSnapshot]) -> Iterator[Evaluation]:
    """Only a full target parks: what a full node cannot start stays due, for its next turn or for other nodes."""
    for snapshot in due:
        if cycle.capacity.is_node_full:
            return
        taken = cycle.capacity.taken_by_target.get(snapshot.target_id, 0)
        try:
            evaluation = evaluate(cycle, snapshot)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one schedule, the others go on
            cycle.capacity.release_excess(snapshot.target_id, taken)
            evaluation = quarantine_evaluation(cycle.now, snapshot, error)
        yield evaluation


def write_evaluations(
    tx: Transaction, cycle: ClaimCycle, context: ClaimContext, evaluations: list[Evaluation], result: ClaimResult
) -> None:
    """Beats before runs, runs before schedules: what is not in the ledger did not start."""
    now = cycle.now
    assign_catchup_slots(tx, now, cycle.pacer, evaluations)
    beats = [beat for evaluation in evaluations for beat in evaluation.beats]
    ids = iter(tx.add_beats(beats))
    tx.beat_extend_many([grown for evaluation in evaluations for grown in evaluation.extensions], now)
    paced: list[tuple[int, datetime]] = []
    changes: list[ChangedSchedule] = []
    starts: list[Claim] = []
    for evaluation in evaluations:
        beat_ids = [next(ids) for _ in evaluation.beats]
        new_claims = _build_claims(evaluation, beat_ids)
        if None in beat_ids:
            _release_duplicates(cycle, evaluation, beat_ids, len(evaluation.starts) - len(new_claims))
        starts += new_claims
        result.settled += [
            (evaluation.snapshot.label, beat) for beat in evaluation.beats if beat.outcome is not BeatOutcome.RUNNING
        ]
        if evaluation.quarantine is not None:
            result.quarantined.append(QuarantinedSchedule(evaluation.snapshot.label, evaluation.quarantine))
        if evaluation.cancels_active_runs:
            result.schedules_to_cancel.append(evaluation.snapshot.id)
        if new_claims and len(evaluation.beats) == 1 and evaluation.is_rescheduled_on_completion:
            paced.append((evaluation.snapshot.id, new_claims[0].due_at))
        else:
            changes.append(to_row(evaluation, len(new_claims), beat_ids[-1] if beat_ids else None))
    tx.schedule_mark_started(paced, now)
    tx.change_schedules(changes)
    tx.schedule_consume_skips(
        [(evaluation.snapshot.id, evaluation.skipped) for evaluation in evaluations if evaluation.skipped]
    )
    tx.end_one_shots(list(_list_used_hints(now, evaluations)), now)
    if result.schedules_to_cancel:
        tx.run_request_stop(REPLACED_BY_NEXT, schedules=result.schedules_to_cancel, node_id=context.id)
    new_claims = _create_runs(tx, now, context, starts)
    reserve_budgets(tx, cycle.capacity.budgets_by_schedule, new_claims)
    result.claims += new_claims


def _list_used_hints(now: datetime, evaluations: list[Evaluation]) -> Iterator[tuple[int, datetime]]:
    """A claim uses up the one-shots of its instants, also of those that are then skipped: else they were due again."""
    for evaluation in evaluations:
        if evaluation.snapshot.hints and evaluation.last_due_at is not None and is_due(now, evaluation.snapshot):
            yield evaluation.snapshot.id, evaluation.last_due_at


def _build_claims(evaluation: Evaluation, beat_ids: list[int | None]) -> list[Claim]:
    """The claims of the beats that are ours: one whose dedup id was there already has started before."""
    new_claims = ((evaluation.beats[index], beat_ids[index]) for index in evaluation.starts)
    return [_build_claim(beat, beat_id, evaluation.snapshot) for beat, beat_id in new_claims if beat_id is not None]


def _release_duplicates(cycle: ClaimCycle, evaluation: Evaluation, beat_ids: list[int | None], known: int) -> None:
    """Beats that the ledger had already: they ran or wait already, so their places are free and time goes on."""
    log.warning("beat is known already schedule=%s", evaluation.snapshot.label)
    for _ in range(known):
        cycle.capacity.release(evaluation.snapshot.target_id)
    pairs = zip(evaluation.beats, beat_ids, strict=True)
    evaluation.queued -= sum(beat.outcome is BeatOutcome.PENDING for beat, beat_id in pairs if beat_id is None)
    if evaluation.decision is None and not evaluation.queued and evaluation.quarantine is None:
        state = replace(governor_state(evaluation.snapshot), anchor_at=cycle.now, is_new=False)
        evaluation.anchor_at = cycle.now
        try:
            evaluation.decision = decide(cycle.now, state)
        except Exception as error:  # noqa: BLE001 - as in _judged
            evaluation.quarantine = format_reason(error)


def _build_claim(beat: NewBeat | PendingBeat, beat_id: int, snapshot: ScheduleSnapshot) -> Claim:
    return Claim(
        run_id=0,
        beat_id=beat_id,
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        label=snapshot.label,
        dedup_id=beat.dedup_id,
        due_at=beat.due_at,
        source=Source.RETRY if isinstance(beat, PendingBeat) and beat.retried_by else beat.source,
        attempt=beat.attempt if isinstance(beat, PendingBeat) else 1,
        revision=snapshot.revision,
        plan=snapshot.plan,
    )


def _create_runs(tx: Transaction, now: datetime, context: ClaimContext, starts: list[Claim]) -> list[Claim]:
    runs = tx.add_runs([NewRun(each.beat_id, each.schedule_id, each.attempt) for each in starts], context.id, now)
    return [Claim(run_id, *each[1:-1], context.id) for each, run_id in zip(starts, runs, strict=True)]


def claim_waiting(
    tx: Transaction,
    now: datetime,
    context: ClaimContext,
    waiting: list[PendingBeat],
    snapshots: dict[int, ScheduleSnapshot],
    capacity: CapacitySnapshot,
    result: ClaimResult,
) -> None:
    """Beats that waited: start those that may, put the others back, write off those that came too late."""
    changed_beats: list[ChangedBeat] = []
    counter_deltas: dict[int, CounterDelta] = {}
    starts: list[Claim] = []
    for beat in waiting:
        if capacity.is_node_full:
            break  # it stays due, and has the first pick of the next turn
        snapshot = snapshots[beat.schedule_id]
        outcome, reason, wake_at = _evaluate_waiting_safely(now, beat, snapshot, capacity)
        is_over = outcome not in (BeatOutcome.PENDING, BeatOutcome.RUNNING)
        changed_beats.append(ChangedBeat(beat.id, outcome, reason, wake_at, beat.attempt, is_over))
        if outcome is BeatOutcome.PENDING:
            continue
        is_started = outcome is BeatOutcome.RUNNING
        clock = 1 if beat.source.is_clock and beat.attempt == 1 else 0  # a retry is not counted as waiting
        # One row for each: two changes of one schedule in one statement, and only one of them would count.
        before = counter_deltas.get(snapshot.id, CounterDelta(snapshot.id))
        counter_deltas[snapshot.id] = CounterDelta(
            snapshot.id, before.running + int(is_started), before.waiting - clock
        )
        snapshots[snapshot.id] = snapshot._replace(
            running=snapshot.running + int(is_started), waiting=snapshot.waiting - clock
        )
        if is_started:
            starts.append(_build_claim(beat, beat.id, snapshot))
    tx.change_beats(changed_beats, now)
    tx.schedule_adjust_counters(list(counter_deltas.values()), now)
    _wake_next_waiting(tx, now, waiting, changed_beats, capacity)
    tx.change_schedules(
        reschedule_after_pending(now, snapshots, [change for change in changed_beats if change.settled], waiting)
    )
    new_claims = _create_runs(tx, now, context, starts)
    reserve_budgets(tx, capacity.budgets_by_schedule, new_claims)
    asked = {beat.id: beat.retried_by for beat in waiting if beat.retried_by}
    tx.mark_retries([(each.run_id, asked[each.beat_id]) for each in new_claims if each.beat_id in asked])
    result.claims += new_claims


def _wake_next_waiting(
    tx: Transaction,
    now: datetime,
    waiting: list[PendingBeat],
    changed_beats: list[ChangedBeat],
    capacity: CapacitySnapshot,
) -> None:
    """A beat that was woken for a free place and cannot take it leaves it to the next, or nobody would wake that."""
    requeued_targets = {
        beat.target_id
        for beat, change in zip(waiting, changed_beats, strict=False)
        if change.outcome is not BeatOutcome.RUNNING and change.reason != SkipReason.AT_CAPACITY
    }
    for target_id in requeued_targets:
        if capacity.free_by_target.get(target_id, 0) > 0:
            tx.beat_wake_pending(target_id, capacity.free_by_target[target_id], now)


def _evaluate_waiting_safely(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot
) -> tuple[BeatOutcome, str, datetime | None]:
    if snapshot.unreadable is None:
        try:
            return _evaluate_waiting(now, beat, snapshot, capacity)
        except Exception:
            log.exception("waiting beat skipped schedule=%s its policies cannot be used", snapshot.label)
    return BeatOutcome.SKIPPED, SkipReason.CONFIG_ERROR, None


def _evaluate_waiting(
    now: datetime, beat: PendingBeat, snapshot: ScheduleSnapshot, capacity: CapacitySnapshot
) -> tuple[BeatOutcome, str, datetime | None]:
    policies = snapshot.plan.policies
    # Of the clock's first attempts only: what somebody asked for does not grow stale, and what has run was not missed.
    is_first = beat.source.is_clock and beat.attempt == 1
    if is_first and policies.max_late is not None and now > beat.due_at + policies.max_late:
        return BeatOutcome.MISSED, MissedReason.TOO_LATE, None
    action = resolve_overlap(policies.overlap, running=snapshot.running > 0, waiting=False)
    is_unblocked = action is OverlapAction.START or not (beat.attempt == 1 or beat.retried_by)
    is_gated = snapshot.plan.is_gated or snapshot.id in capacity.budgets_by_schedule
    rejection = (
        find_rejection(admission_request(now, beat, snapshot, capacity, is_unblocked=is_unblocked))
        if is_gated
        else None
    )
    if rejection is not None:
        return reject_pending(beat, rejection)
    ends_at = expires_at(policies, beat.due_at) if is_first else None
    if not is_unblocked:
        return BeatOutcome.PENDING, SkipReason.ALREADY_RUNNING, ends_at
    if capacity.reserve(beat.target_id):
        capacity.reserve_budget(snapshot.id)
        return BeatOutcome.RUNNING, "", None
    return BeatOutcome.PENDING, SkipReason.AT_CAPACITY, ends_at
