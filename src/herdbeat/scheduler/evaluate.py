"""What becomes of a schedule whose time has come: which beats are written, which start, and when it is due next.

Pure but for the places it takes: everything it needs is handed in, everything it decides is in the verdict.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import assert_never

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.trigger import CalendarTrigger, Trigger, TriggerKind
from herdbeat.errors import SchedulerError
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.active_hours import settled_through, skipped_outside_hours
from herdbeat.scheduler.admission import AdmissionRequest, Rejection, expires_at, find_rejection
from herdbeat.scheduler.evaluation import MERGEABLE_OUTCOMES, ClaimCycle, Evaluation
from herdbeat.scheduler.instants import InstantRange, due_since, take_newest, take_oldest
from herdbeat.scheduler.misfires import InstantOutcome, classify_due
from herdbeat.store.base import BeatExtension, NewBeat, ScheduleSnapshot, Transaction

# A beat comes due while its schedule is still at an earlier one: what the user chose for that.


REPLACED_BY_NEXT = "its next beat takes its place (overlap: cancel)"
"""What a run says of its end under `overlap: cancel`."""


class OverlapAction(StrEnum):
    """What becomes of the beat that came."""

    START = "start"
    SKIP = "skip"  # skipped: already_running
    ENQUEUE = "wait"  # pending until the run is over
    MERGE = "merge"  # absorbed by the one that waits already
    REPLACE = "replace"  # the run is told to stop, and this one waits for its place


def resolve_overlap(policy: Overlap, *, running: bool, waiting: bool) -> OverlapAction:
    """Nothing in the way: start. One that waits absorbs later ones, unless each is to have its own turn."""
    if policy is Overlap.ALLOW or not (running or waiting):
        return OverlapAction.START
    if policy is Overlap.QUEUE_ALL:
        return OverlapAction.ENQUEUE
    if waiting:
        return OverlapAction.MERGE
    match policy:
        case Overlap.SKIP:
            return OverlapAction.SKIP
        case Overlap.QUEUE:
            return OverlapAction.ENQUEUE
        case Overlap.CANCEL:
            return OverlapAction.REPLACE
        case never:
            assert_never(never)


# The next beat is let pass, because somebody asked for it.
#
# The wish is a number on the schedule: so many of its next clock instants are settled as `skipped: by_request` when
# they come, whatever else would have become of them. It survives restarts. An instant that a pause or a switch has
# settled already uses it up too: the wish was for that instant, and the one after it is to run.


CONSUMES_SKIP = frozenset({SkipReason.BY_REQUEST, SkipReason.PAUSED, SkipReason.DISABLED})
MAX_LISTED_INSTANTS = 20
"""More instants than this nobody reads one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipNextResult:
    """What was wished before and is wished now, and the instants that are known already."""

    schedule: str
    before: int
    skips: int
    instants: tuple[datetime, ...] = ()
    is_calendar: bool = True
    obstacle: str = ""


def set_skip_next(tx: Transaction, schedule_id: int, count: int, *, by: str, reason: str = "") -> SkipNextResult:
    """Let the next so many clock instants pass; 0 takes the wish back. Asking twice is asking once."""
    snapshot = tx.schedules([schedule_id])[schedule_id]
    obstacle = _find_skip_obstacle(snapshot) if count else ""
    if not obstacle:
        tx.set_skips(schedule_id, count, by if count else "", reason if count else "")
    return SkipNextResult(
        schedule=snapshot.label,
        before=snapshot.skips,
        skips=snapshot.skips if obstacle else count,
        instants=tuple(next_instants(snapshot, count)) if count and not obstacle else (),
        is_calendar=isinstance(snapshot.plan.trigger, CalendarTrigger),
        obstacle=obstacle,
    )


def next_instants(snapshot: ScheduleSnapshot, count: int) -> list[datetime]:
    """The instants that a wish is about, as far as they are known: a pace knows only its next one."""
    first, trigger = snapshot.next_due_at, snapshot.plan.trigger
    if first is None or snapshot.pause is not None:
        return []
    if not isinstance(trigger, CalendarTrigger):
        return [first]
    return list(islice(_iterate_instants(trigger, first), min(count, MAX_LISTED_INSTANTS)))


def apply_skip_next(trigger: Trigger, results: list[InstantOutcome], skip_count: int) -> list[InstantOutcome]:
    """The fates of instants in the order of time, of which the first so many are let pass. Pure.

    What lay outside the active hours was not the schedule's to run, so it does not count.
    """
    remaining, adjusted = skip_count, list[InstantOutcome]()
    for result in results:
        if remaining <= 0 or result.reason == SkipReason.INACTIVE_HOURS:
            adjusted.append(result)
            continue
        skipped_range, rest = take_oldest(trigger, result.instants, remaining)
        adjusted.append(InstantOutcome(skipped_range, BeatOutcome.SKIPPED, SkipReason.BY_REQUEST))
        adjusted += [replace(result, instants=rest)] if rest else []
        remaining -= skipped_range.count
    return adjusted


def _iterate_instants(trigger: CalendarTrigger, first: datetime) -> Iterator[datetime]:
    instant: datetime | None = first
    while instant is not None:
        yield instant
        instant = trigger.next_time(None, instant)


def _find_skip_obstacle(snapshot: ScheduleSnapshot) -> str:
    """Why no instant can come that could be let pass; empty if one can."""
    kind = snapshot.plan.trigger.kind
    if kind.waits_for_event:
        return f"a {kind} schedule has no beats of its own to let pass"
    if not snapshot.enabled:
        return "it is disabled, so no beat comes"
    if snapshot.quarantine is not None or snapshot.unreadable is not None:
        return "it cannot be decided, so no beat comes"
    is_over = snapshot.next_run_at is None and snapshot.pause is None and not (snapshot.running or snapshot.waiting)
    return "no further beat is planned" if is_over or _has_fired(snapshot) else ""


def _has_fired(snapshot: ScheduleSnapshot) -> bool:
    return snapshot.plan.trigger.kind is TriggerKind.DELAY and snapshot.next_run_at is None and not snapshot.is_new


def evaluate(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> Evaluation:
    """Raises whatever is wrong with the schedule: the caller contains it."""
    if snapshot.unreadable is not None:
        raise SchedulerError(snapshot.unreadable)
    evaluation = Evaluation(snapshot)
    if snapshot.plan.policies.active_hours is not None:
        skip_outside_hours(cycle, evaluation)
    if not is_due(cycle.now, snapshot):
        if is_in_flight(cycle.now, snapshot):
            # A hint has ended between its instant and its jittered start: decided anew, that instant were lost.
            evaluation.keep_time = True
            return evaluation
        if snapshot.next_source is Source.PAUSED:
            over_at = _pause_ended_at(cycle.now, snapshot)
            skip_passed(cycle, evaluation, SkipReason.PAUSED, over_at)
            # Decided as of its end: instants after it are late or missed, and no longer the pause's.
            evaluation.decision = decide(over_at, governor_state(snapshot))
        else:
            evaluation.decision = decide(cycle.now, governor_state(snapshot))
        return evaluation
    results = _classify_due(cycle, snapshot)
    if snapshot.skips:
        results = apply_skip_next(snapshot.plan.trigger, results, snapshot.skips)
    for result in results:
        if result.outcome is BeatOutcome.PENDING:
            _admit(cycle, evaluation, result)
        else:
            _record_unrun(cycle, evaluation, result)
    _schedule_next(cycle, evaluation)
    return evaluation


def is_due(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """A time that was reached. The end of a pause or of a hint is only a reason to decide again."""
    return (
        snapshot.next_run_at is not None
        and snapshot.next_due_at is not None
        and snapshot.next_run_at <= now
        and snapshot.next_source is not Source.PAUSED
    )


def is_in_flight(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """Due, or on its way between its nominal instant and its jitter: deciding it anew would lose that instant."""
    if snapshot.next_due_at is None or snapshot.next_run_at is None or snapshot.next_source is Source.PAUSED:
        return False
    return snapshot.next_run_at <= now or (snapshot.plan.trigger.interval is None and snapshot.next_due_at <= now)


def has_pause_ended(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """Its pause is over, and no turn has looked at it since: deciding it anew would forget what passed meanwhile."""
    return snapshot.next_source is Source.PAUSED and snapshot.wake_at is not None and snapshot.wake_at <= now


def _pause_ended_at(now: datetime, snapshot: ScheduleSnapshot) -> datetime:
    """Until when instants of a calendar were the pause's. A pace has none meanwhile, and goes on from now."""
    pause = snapshot.pause
    if pause is None or pause.until is None or not isinstance(snapshot.plan.trigger, CalendarTrigger):
        return now
    return min(now, max(pause.until, snapshot.settled_until))


def governor_state(snapshot: ScheduleSnapshot) -> ScheduleState:
    return ScheduleState(
        schedule=snapshot.label,
        timing=snapshot.plan.timing,
        anchor_at=snapshot.anchor_at,
        is_new=snapshot.is_new,
        failures=snapshot.failures,
        runs=snapshot.runs,
        hints=snapshot.hints,
        pause=snapshot.pause,
        enabled=snapshot.enabled,
    )


def _classify_due(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> list[InstantOutcome]:
    run_at, due_at = snapshot.next_run_at, snapshot.next_due_at
    assert run_at is not None
    assert due_at is not None
    plan = snapshot.plan
    is_within_grace = cycle.now - run_at <= plan.policies.grace and plan.policies.max_late is None
    if plan.trigger.interval is not None and is_within_grace:
        return [InstantOutcome(InstantRange.single(due_at), BeatOutcome.PENDING)]  # the way of nearly every beat
    # Lateness counts from the jittered time, so the clock that judges is put back by the jitter.
    jitter = run_at - due_at
    gaps = [replace(gap, from_at=gap.from_at - jitter, until=gap.until - jitter) for gap in cycle.gaps]
    return classify_due(cycle.now - jitter, due_at, plan.trigger, plan.policies, gaps)


def skip_passed(cycle: ClaimCycle, evaluation: Evaluation, reason: SkipReason, until: datetime | None = None) -> None:
    """Instants of a calendar that passed while nobody was to run them: one row, and the mark moves on.

    Up to now, or as long as it was held.
    """
    until = until or cycle.now
    snapshot = evaluation.snapshot
    trigger = snapshot.plan.trigger
    if not isinstance(trigger, CalendarTrigger):
        return  # a pace has no instants of its own while it stands still
    first = trigger.next_time(None, snapshot.settled_until)
    if first is not None and first <= until:
        _record_unrun(cycle, evaluation, InstantOutcome(due_since(trigger, first, until), BeatOutcome.SKIPPED, reason))
    evaluation.settled_until = until


def skip_outside_hours(cycle: ClaimCycle, evaluation: Evaluation) -> None:
    """Instants outside the active hours, which the governor has passed over: a whole night is one row."""
    snapshot = evaluation.snapshot
    if snapshot.next_source is Source.PAUSED:
        return  # what passed meanwhile belongs to the pause
    instants = skipped_outside_hours(snapshot, cycle.now)
    if instants is not None:
        source = snapshot.plan.trigger.kind.source
        _record_unrun(
            cycle, evaluation, InstantOutcome(instants, BeatOutcome.SKIPPED, SkipReason.INACTIVE_HOURS, source)
        )
    evaluation.settled_until = settled_through(snapshot, cycle.now)


def skip_due(cycle: ClaimCycle, evaluation: Evaluation, reason: SkipReason) -> None:
    """What is due and not yet claimed, when somebody says no at that very moment."""
    snapshot = evaluation.snapshot
    if not is_due(cycle.now, snapshot) or snapshot.next_due_at is None:
        return
    instants = due_since(snapshot.plan.trigger, snapshot.next_due_at, cycle.now)
    _record_unrun(cycle, evaluation, InstantOutcome(instants, BeatOutcome.SKIPPED, reason))
    evaluation.settled_until = evaluation.anchor_at = cycle.now


def _record_unrun(cycle: ClaimCycle, evaluation: Evaluation, result: InstantOutcome) -> None:
    """Instants that do not run, as one row; they grow the row before if it says the same."""
    snapshot, instants = evaluation.snapshot, result.instants
    if snapshot.skips and result.reason in CONSUMES_SKIP:
        evaluation.skipped = min(snapshot.skips, evaluation.skipped + instants.count)
    can_extend_last = _last_outcome_key(evaluation) == f"{result.outcome}:{result.reason}"
    if can_extend_last and evaluation.beats:
        before = evaluation.beats[-1]
        evaluation.beats[-1] = before._replace(number=before.number + instants.count, last_due_at=instants.last)
    elif can_extend_last and snapshot.tail_id is not None:
        # One row for all: two changes of one row in one statement, and only one of them would count.
        more = instants.count + (evaluation.extensions.pop().more if evaluation.extensions else 0)
        evaluation.extensions.append(BeatExtension(snapshot.tail_id, more, instants.last))
    else:
        evaluation.beats.append(_build_beat(cycle, snapshot, instants, result.outcome, result.reason, result.source))


def _last_outcome_key(evaluation: Evaluation) -> str | None:
    """Outcome and reason of the row that the next one could be part of."""
    if not evaluation.beats:
        return evaluation.snapshot.tail
    last = evaluation.beats[-1]
    return f"{last.outcome}:{last.reason}" if last.outcome in MERGEABLE_OUTCOMES else None


def _admit(cycle: ClaimCycle, evaluation: Evaluation, result: InstantOutcome) -> None:
    """Instants that may run: the first now, later ones as if they came while it is there.

    What is caught up waits for its place in the pace first, and meets others when it is taken up. That place is given
    when the verdict is written: the pace is the fleet's, and others may be catching up at the same time.
    """
    if result.source is Source.CATCH_UP:
        _enqueue(cycle, evaluation, result.instants, result.source, Source.CATCH_UP, cycle.now)
        evaluation.catchup_count += 1
        return
    first, later = _split_first(evaluation.snapshot, result.instants)
    _apply_overlap(cycle, evaluation, InstantRange.single(first), result.source)
    for instants in later:
        _apply_overlap(cycle, evaluation, instants, result.source)


def _split_first(snapshot: ScheduleSnapshot, instants: InstantRange) -> tuple[datetime, list[InstantRange]]:
    if instants.count == 1:
        return instants.first, []
    trigger, policies = snapshot.plan.trigger, snapshot.plan.policies
    following = trigger.next_time(None, instants.first)
    assert following is not None
    rest = InstantRange(following, instants.last, instants.count - 1)
    if policies.overlap not in (Overlap.ALLOW, Overlap.QUEUE_ALL):
        return instants.first, [rest]
    older, listed = take_newest(trigger, rest, policies.catchup_max)
    return instants.first, [*([older] if older else []), *(InstantRange.single(each) for each in listed)]


def _apply_overlap(cycle: ClaimCycle, evaluation: Evaluation, instants: InstantRange, source: Source | None) -> None:
    snapshot = evaluation.snapshot
    action = resolve_overlap(
        snapshot.plan.policies.overlap,
        running=snapshot.running + len(evaluation.starts) > 0,
        # What is caught up waits for its pace, not for room: it absorbs nothing. While a node lives, an instant runs.
        waiting=snapshot.waiting + evaluation.queued
        > evaluation.catchup_count + cycle.paced_counts.get(snapshot.id, 0),
    )
    if snapshot.plan.is_gated or snapshot.id in cycle.capacity.budgets_by_schedule:
        rejection = find_rejection(
            _build_admission_request(cycle, evaluation, instants, source, is_unblocked=action is OverlapAction.START)
        )
        if rejection is not None:
            _apply_rejection(cycle, evaluation, instants, source, rejection)
            return
    match action:
        case OverlapAction.SKIP:
            _record_unrun(
                cycle, evaluation, InstantOutcome(instants, BeatOutcome.SKIPPED, SkipReason.ALREADY_RUNNING, source)
            )
        case OverlapAction.MERGE:
            # What the one waits for that absorbs it: its own run, or room at the target.
            is_active = snapshot.running + len(evaluation.starts) > 0
            reason = SkipReason.ALREADY_RUNNING if is_active else SkipReason.AT_CAPACITY
            _record_unrun(cycle, evaluation, InstantOutcome(instants, BeatOutcome.MERGED, reason, source))
        case OverlapAction.START:
            if cycle.capacity.reserve(snapshot.target_id):
                cycle.capacity.reserve_budget(snapshot.id)
                evaluation.starts.append(len(evaluation.beats))
                evaluation.beats.append(_build_beat(cycle, snapshot, instants, BeatOutcome.RUNNING, "", source))
            else:
                wake_at = cycle.now if cycle.capacity.is_node_full else None
                _enqueue(cycle, evaluation, instants, source, SkipReason.AT_CAPACITY, wake_at)
        case OverlapAction.ENQUEUE | OverlapAction.REPLACE:
            evaluation.cancels_active_runs |= action is OverlapAction.REPLACE
            _enqueue(cycle, evaluation, instants, source, SkipReason.ALREADY_RUNNING)


def _build_admission_request(
    cycle: ClaimCycle, evaluation: Evaluation, instants: InstantRange, source: Source | None, *, is_unblocked: bool
) -> AdmissionRequest:
    snapshot = evaluation.snapshot
    due_at = snapshot.next_due_at or instants.first
    return AdmissionRequest(
        now=cycle.now,
        due_at=instants.first,
        run_at=instants.first + ((snapshot.next_run_at or due_at) - due_at),
        source=source or snapshot.next_source or snapshot.plan.trigger.kind.source,
        snapshot=snapshot,
        started_count=len(evaluation.starts),
        is_unblocked=is_unblocked,
        capacity=cycle.capacity,
    )


def _apply_rejection(
    cycle: ClaimCycle, evaluation: Evaluation, instants: InstantRange, source: Source | None, rejection: Rejection
) -> None:
    if rejection.until is None:
        _record_unrun(cycle, evaluation, InstantOutcome(instants, BeatOutcome.SKIPPED, rejection.reason, source))
    else:
        _enqueue(cycle, evaluation, instants, source, rejection.reason, rejection.until)


def _enqueue(
    cycle: ClaimCycle,
    evaluation: Evaluation,
    instants: InstantRange,
    source: Source | None,
    reason: str,
    wake_at: datetime | None = None,
) -> None:
    """One row that waits, however long; what comes with it is merged into it."""
    snapshot = evaluation.snapshot
    evaluation.queued += 1
    beat = _build_beat(cycle, snapshot, instants, BeatOutcome.PENDING, reason, source)
    evaluation.beats.append(beat._replace(wake_at=wake_at or expires_at(snapshot.plan.policies, instants.first)))


def _build_beat(
    cycle: ClaimCycle,
    snapshot: ScheduleSnapshot,
    instants: InstantRange,
    outcome: BeatOutcome,
    reason: str,
    source: Source | None,
) -> NewBeat:
    trigger = snapshot.plan.trigger
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=trigger.dedup_id(instants.first, snapshot.label),
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=outcome,
        reason=reason,
        source=source or snapshot.next_source or trigger.kind.source,
        origin=snapshot.next_origin,
        priority=snapshot.plan.policies.priority,
        created_at=cycle.now,
        settled_at=cycle.now if outcome in MERGEABLE_OUTCOMES else None,
    )


def _schedule_next(cycle: ClaimCycle, evaluation: Evaluation) -> None:
    """When next: an interval after its run, a calendar after the instants just settled."""
    snapshot = evaluation.snapshot
    evaluation.settled_until = settled_through(snapshot, cycle.now)
    is_active = bool(evaluation.starts or evaluation.queued)
    if is_active and evaluation.is_rescheduled_on_completion:
        return
    evaluation.anchor_at = snapshot.anchor_at if is_active else cycle.now
    last = evaluation.last_due_at or cycle.now
    remaining_hints = tuple(hint for hint in snapshot.hints if hint.at is None or hint.at > last)
    state = replace(governor_state(snapshot), anchor_at=evaluation.anchor_at, is_new=False, hints=remaining_hints)
    evaluation.decision = decide(min(last, cycle.now) if snapshot.plan.trigger.interval is None else cycle.now, state)
