"""Evaluate one schedule: which beats are written, which of them start, and when it runs next.

Pure except for the capacity it reserves: everything it needs is passed in, and everything it decides is in the
`Evaluation`. The rows of beats and schedules are built here and nowhere else, so that a column always means the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.beat import BeatOutcome, Gap, MergedReason, SkipReason
from herdbeat.domain.decision import Decision, Source, StepKind, TraceStep
from herdbeat.domain.planned_pause import PauseWindow, find_window
from herdbeat.domain.policies import Overlap
from herdbeat.domain.trigger import CalendarTrigger, InstantSeries, IntervalAnchor, Trigger, TriggerKind
from herdbeat.errors import SchedulerError
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.state import decision_to_text
from herdbeat.scheduler.active_hours import skipped_outside_hours
from herdbeat.scheduler.admission import AdmissionRequest, Rejection, expires_at, find_rejection
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.instants import (
    InstantRange,
    due_since,
    insert_moments,
    split_first,
    take_oldest,
    without_recorded,
)
from herdbeat.scheduler.misfires import InstantOutcome, classify_due
from herdbeat.store.base import BeatExtension, ChangedSchedule, NewBeat, ScheduleSnapshot
from herdbeat.timestamps import format_timestamp

MERGEABLE_OUTCOMES = frozenset({BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED})
"""Outcomes of settled rows. The next instant joins the row before it if both have the same outcome and reason."""

SKIP_CONSUMING_REASONS = frozenset({SkipReason.BY_REQUEST, SkipReason.PAUSED, SkipReason.DISABLED})
"""An instant that was skipped for one of these uses up a requested skip.

The request was for that instant: if a pause has settled it already, the one after it runs.
"""

_TICK = timedelta(microseconds=1)
_NO_TIME = timedelta(0)

REPLACED_BY_NEXT = "cancelled by its next beat (overlap: cancel)"
"""The error of a run that `overlap: cancel` ends."""


class OverlapAction(StrEnum):
    """What happens to a beat that comes due while an earlier run of its schedule is active or queued."""

    START = "start"
    SKIP = "skip"  # recorded as skipped: already_running
    ENQUEUE = "wait"  # pending until the active run ends
    MERGE = "merge"  # absorbed by the beat that is already queued
    REPLACE = "replace"  # the active run is cancelled, and this beat waits for its place


@dataclass(slots=True)
class Evaluation:
    """Everything one claim cycle does with one schedule.

    `start_indexes` are positions in `beats`. Without a decision the schedule has no next time, unless it `keeps_time`.
    """

    snapshot: ScheduleSnapshot
    beats: list[NewBeat] = field(default_factory=list)
    extensions: list[BeatExtension] = field(default_factory=list)
    start_indexes: list[int] = field(default_factory=list)
    queue_count: int = 0
    cancels_active_runs: bool = False
    decision: Decision | None = None
    anchor_at: datetime | None = None
    settled_until: datetime | None = None
    quarantine: str | None = None
    skip_count: int = 0
    catchup_count: int = 0
    keeps_time: bool = False
    took_start_slot: bool = False
    needs_start_slot: bool = False
    """It is due at once and paced: it took the slot that was free now, or gets a later one when it is written."""

    @property
    def last_due_at(self) -> datetime | None:
        """The newest instant that was settled, started or queued, or had an outcome before."""
        due_times = [beat.last_due_at for beat in self.beats]
        due_times += [extension.last_due_at for extension in self.extensions]
        due_times += [last for _, last in self.snapshot.recorded]
        return max(due_times, default=None)

    @property
    def is_rescheduled_on_completion(self) -> bool:
        """True if it has no next time while it runs: the completion of the run decides."""
        anchor = self.snapshot.plan.trigger.anchor
        is_hinted_calendar = anchor is None and self.snapshot.next_source is Source.AI_INTERVAL
        return anchor is IntervalAnchor.END or is_hinted_calendar


@dataclass(frozen=True, slots=True)
class ClaimCycle:
    """What all evaluations of one cycle share."""

    now: datetime
    capacity: CapacitySnapshot
    gaps: Sequence[Gap] = ()
    paced_counts: Mapping[int, int] = field(default_factory=dict)
    """By schedule: how many of its beats wait for their catch-up slot, and for nothing else."""


def evaluate(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> Evaluation:
    """Return what to do with one schedule whose time to be looked at has come.

    Raises whatever is wrong with the schedule: callers go through `decide_or_quarantine`.
    """
    if is_plain_start(cycle, snapshot) and cycle.capacity.reserve(snapshot.target_id):
        return _start_plain(cycle.now, snapshot)
    return evaluate_by_policies(cycle, snapshot)


def is_plain_start(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> bool:
    """True if no policy has a say in its due beat, as for nearly every one: given a slot, it starts.

    `evaluate_by_policies` comes to the same result, at four times the cost.
    """
    run_at, plan = snapshot.next_run_at, snapshot.plan
    return (
        plan.is_plain
        and run_at is not None
        and snapshot.next_due_at is not None
        and _NO_TIME <= cycle.now - run_at <= plan.policies.grace
        and snapshot.next_source is not Source.PAUSED
        and not (snapshot.running or snapshot.waiting or snapshot.skips or snapshot.windows or snapshot.recorded)
        and snapshot.unreadable is None
        and not cycle.capacity.has_gate(snapshot.id)
    )


def _start_plain(now: datetime, snapshot: ScheduleSnapshot) -> Evaluation:
    due_at = snapshot.next_due_at
    assert due_at is not None
    beat = NewBeat(
        snapshot.id,
        snapshot.target_id,
        snapshot.plan.trigger.dedup_id(due_at, snapshot.label),
        due_at,
        due_at,
        1,
        BeatOutcome.RUNNING,
        "",
        snapshot.next_source or snapshot.plan.trigger.kind.source,
        snapshot.next_origin,
        None,
        snapshot.plan.policies.priority,
        None,
        now,
    )
    return Evaluation(snapshot, [beat], start_indexes=[0], settled_until=now)


def evaluate_by_policies(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> Evaluation:
    """Evaluate any schedule: settle what has passed, apply overlap, admission and capacity, decide the next run."""
    require_readable(snapshot)
    now = cycle.now
    if snapshot.recorded:
        snapshot = _limit_recorded(now, snapshot)
    evaluation = Evaluation(snapshot)
    if snapshot.plan.policies.active_hours is not None and snapshot.next_due_at is not None:
        skip_outside_hours(now, evaluation)
    if not is_due(now, snapshot):
        _decide_again(now, evaluation)
        return evaluation
    if snapshot.windows and is_moved_by_window(now, snapshot):
        # As after any pause: what has no instants of its own is due when the pause ends.
        evaluation.decision = decide(now, governor_state(snapshot))
        return evaluation
    results = _apply_user_requests(now, snapshot, _classify_due(cycle, snapshot))
    if cycle.capacity.free_start_slots is not None and _has_only_starts(results) and is_due_at_once(snapshot):
        evaluation.took_start_slot = cycle.capacity.take_start_slot()
        evaluation.needs_start_slot = evaluation.keeps_time = not evaluation.took_start_slot
        if evaluation.needs_start_slot:
            return evaluation
    for result in results:
        if result.outcome is BeatOutcome.PENDING:
            _admit(cycle, evaluation, result)
        else:
            _record_unrun(now, evaluation, result)
    _schedule_next(now, evaluation)
    return evaluation


def is_moved_by_window(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if its beat is due in a planned pause, and the trigger has no instants that could be skipped in it."""
    if isinstance(snapshot.plan.trigger, InstantSeries) or snapshot.next_run_at is None:
        return False
    return any(find_window(snapshot.windows, at) is not None for at in (now, snapshot.next_run_at))


def _apply_user_requests(
    now: datetime, snapshot: ScheduleSnapshot, results: list[InstantOutcome]
) -> list[InstantOutcome]:
    """Apply what users have requested: a planned pause, and instants to skip."""
    if snapshot.windows and snapshot.pause_at(now) is not None:
        results = skip_pending(results)
    if snapshot.skips:
        results = apply_skip_next(snapshot.plan.trigger, results, snapshot.skips)
    return results


def skip_pending(results: list[InstantOutcome]) -> list[InstantOutcome]:
    """Skip what was due before a planned pause and has not started: as by a pause at this moment."""
    return [
        replace(each, outcome=BeatOutcome.SKIPPED, reason=SkipReason.PAUSED, source=_unrun_source(each))
        if each.outcome is BeatOutcome.PENDING
        else each
        for each in results
    ]


def _unrun_source(result: InstantOutcome) -> Source | None:
    """A one-shot hint stays one, so that no row of the calendar counts it; what is not run is not caught up either."""
    return Source.AI_ONESHOT if result.origin else None


def _has_only_starts(results: list[InstantOutcome]) -> bool:
    """True if nothing is missed, skipped or caught up: then a later start changes nothing about the instant."""
    return all(each.outcome is BeatOutcome.PENDING and each.source is not Source.CATCH_UP for each in results)


def may_need_start_slot(snapshot: ScheduleSnapshot) -> bool:
    """True if its start may be paced: its jitter is automatic, and neither that nor a slot has moved its start."""
    jitter = snapshot.plan.policies.jitter
    return (
        jitter is not None
        and jitter.is_automatic
        and snapshot.plan.trigger.interval is not None
        and snapshot.next_run_at == snapshot.next_due_at
        and snapshot.next_source is not Source.AI_ONESHOT  # somebody has asked for this very moment
    )


def is_due_at_once(snapshot: ScheduleSnapshot) -> bool:
    """True if it was overdue when it was decided: by a start, a reload, a resume or a hint, as others may be with it.

    A beat that came due by its own pace was decided ahead.
    """
    if not may_need_start_slot(snapshot) or snapshot.next_due_at is None:
        return False
    if snapshot.next_source is Source.FIRST_RUN:
        return True
    if snapshot.plan.trigger.anchor is IntervalAnchor.START:
        return False  # what is past of a fixed rate was settled, and its next instant was decided ahead
    on_time = decide(snapshot.anchor_at, replace(governor_state(snapshot), pause=None))
    return on_time.due_at is not None and on_time.due_at < snapshot.next_due_at


def decide_start_slot(snapshot: ScheduleSnapshot, slot: datetime, rate: float) -> Decision:
    """Return the decision that a schedule which is due at once starts at its slot. The instant stays what it was."""
    source, due_at = snapshot.next_source, snapshot.next_due_at
    assert source is not None
    text = f"spread: agents that are due together start at most {rate:g} a second (catchup_rate)"
    cause = "never run before: due immediately" if source is Source.FIRST_RUN else "due immediately"
    steps = (
        TraceStep(StepKind.CANDIDATE, cause, due_at, source, snapshot.next_origin, won=True),
        TraceStep(StepKind.JITTER, text, slot),
    )
    return Decision(next_run_at=slot, source=source, trace=steps, due_at=due_at, origin=snapshot.next_origin)


def _limit_recorded(now: datetime, snapshot: ScheduleSnapshot) -> ScheduleSnapshot:
    """Leave out what an evaluation at `now` does not reach yet: with jitter, it goes less far."""
    until = _settled_through(snapshot, now)
    return snapshot._replace(recorded=tuple(each for each in snapshot.recorded if each[0] <= until))


def require_readable(snapshot: ScheduleSnapshot) -> None:
    """Raises SchedulerError if the stored plan could not be read."""
    if snapshot.unreadable is not None:
        raise SchedulerError(snapshot.unreadable)


def is_due(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if its next run has come. The end of a pause or of a hint is only a reason to decide again."""
    return (
        snapshot.next_run_at is not None
        and snapshot.next_due_at is not None
        and snapshot.next_run_at <= now
        and snapshot.next_source is not Source.PAUSED
    )


def is_in_flight(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if it is due, or between its nominal instant and its jittered start: deciding again would lose that."""
    if snapshot.next_due_at is None or snapshot.next_run_at is None or snapshot.next_source is Source.PAUSED:
        return False
    has_instants = snapshot.plan.trigger.anchor is not IntervalAnchor.END
    return snapshot.next_run_at <= now or (has_instants and snapshot.next_due_at <= now)


def has_pause_ended(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if its pause is over and no cycle has evaluated it since.

    A decision that does not go through `evaluate` would then forget the instants that passed during the pause.
    """
    return snapshot.next_source is Source.PAUSED and snapshot.wake_at is not None and snapshot.wake_at <= now


def is_undecided(now: datetime, snapshot: ScheduleSnapshot) -> bool:
    """True if the clock was set back and no cycle has decided this calendar since.

    Only a cycle may: it decides as of the mark, and settles what has passed since then.
    """
    has_wake = snapshot.wake_at is not None and snapshot.wake_at <= now
    return has_wake and snapshot.next_run_at is None and isinstance(snapshot.plan.trigger, CalendarTrigger)


def is_quarantined(snapshot: ScheduleSnapshot) -> bool:
    """True if it is not decided any more: it failed to be decided before, or its plan cannot be read."""
    return snapshot.quarantine is not None or snapshot.unreadable is not None


def governor_state(snapshot: ScheduleSnapshot) -> ScheduleState:
    """Return what the Governor decides by."""
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
        not_before=snapshot.not_before,
        windows=snapshot.windows,
    )


def _decide_again(now: datetime, evaluation: Evaluation) -> None:
    """Decide the next run after a pause or a hint has ended, when no instant is due."""
    snapshot = evaluation.snapshot
    if is_in_flight(now, snapshot):
        # A hint has ended between the instant and its jittered start: a new decision would lose that instant.
        evaluation.keeps_time = True
        evaluation.snapshot = snapshot._replace(wake_at=snapshot.next_run_at)
    elif snapshot.next_source is Source.PAUSED:
        pause_ended_at, state = _pause_ended_at(now, snapshot), governor_state(snapshot)
        window = find_passed_window(now, snapshot) if snapshot.windows else None
        if window is not None and window.until <= now:
            # The end of a planned pause is not part of it: an instant at that very moment runs.
            pause_ended_at, state = state.after_window(window)
        skip_passed(now, evaluation, SkipReason.PAUSED, pause_ended_at)
        # Decided as of the end of the pause: instants after it are late or missed, not paused.
        evaluation.decision = decide(pause_ended_at, state)
    elif not snapshot.enabled:
        evaluation.decision = decide(now, governor_state(snapshot))  # what passes is settled when it is enabled
    elif snapshot.next_run_at is None and isinstance(snapshot.plan.trigger, CalendarTrigger):
        # The clock was set back, and may have moved on since: the next cycle settles what has passed after the mark.
        evaluation.decision = decide(min(now, snapshot.settled_until), governor_state(snapshot))
        if evaluation.decision.next_run_at is None:  # what has passed, if anything, lay outside the active hours
            skip_outside_hours(now, evaluation)
            evaluation.decision = decide(now, governor_state(snapshot))
    else:
        evaluation.settled_until = _settled_through(snapshot, now)
        evaluation.decision = decide(now, governor_state(snapshot))


def _pause_ended_at(now: datetime, snapshot: ScheduleSnapshot) -> datetime:
    """Until when the instants of a calendar belong to the pause. An interval has none, and continues from now."""
    pause = snapshot.pause
    if pause is None or pause.until is None or not isinstance(snapshot.plan.trigger, CalendarTrigger):
        return now
    return min(now, max(pause.until, snapshot.settled_until))


def find_passed_window(now: datetime, snapshot: ScheduleSnapshot) -> PauseWindow | None:
    """Return the planned pause that has held a calendar since its mark; None if an ordinary pause has."""
    mark, is_calendar = snapshot.settled_until, isinstance(snapshot.plan.trigger, CalendarTrigger)
    if not is_calendar or (snapshot.pause is not None and snapshot.pause.is_active(mark)):
        return None
    begun = (each for each in snapshot.windows if each.until - _TICK > mark and each.from_at <= now)
    return min(begun, key=lambda each: each.from_at, default=None)


def _classify_due(cycle: ClaimCycle, snapshot: ScheduleSnapshot) -> list[InstantOutcome]:
    run_at, due_at = snapshot.next_run_at, snapshot.next_due_at
    assert run_at is not None
    assert due_at is not None
    plan = snapshot.plan
    is_within_grace = cycle.now - run_at <= plan.policies.grace and plan.policies.max_late is None
    if plan.trigger.anchor is IntervalAnchor.END and is_within_grace:
        return [InstantOutcome(InstantRange.single(due_at), BeatOutcome.PENDING)]  # nearly every beat takes this way
    # Lateness counts from the jittered time, so `now` is moved back by the jitter.
    jitter = run_at - due_at
    gaps = [replace(gap, from_at=gap.from_at - jitter, until=gap.until - jitter) for gap in cycle.gaps]
    one_shots = _find_one_shots(snapshot)
    results = classify_due(
        cycle.now - jitter,
        due_at,
        plan.trigger,
        plan.policies,
        gaps,
        one_shots=tuple(one_shots),
        recorded=snapshot.recorded,
        windows=snapshot.windows if isinstance(plan.trigger, InstantSeries) else (),
    )
    return [_attribute_source(snapshot, result, one_shots) for result in results] if one_shots else results


def _find_one_shots(snapshot: ScheduleSnapshot) -> dict[datetime, str]:
    """Return the moments of one-shot hints between the instants of a calendar, with the origin of each.

    A claim uses up all hints up to its last instant, so each of them is an instant with an outcome, too. A hint for an
    instant of the calendar is served by that.
    """
    trigger, due_at = snapshot.plan.trigger, snapshot.next_due_at
    if not snapshot.hints or not isinstance(trigger, CalendarTrigger) or due_at is None:
        return {}
    hints = rank_hints(due_at, snapshot.hints).effective
    origins = {hint.at: hint.origin for hint in hints if hint.at is not None and hint.at > due_at}
    one_shots = {at: origin for at, origin in origins.items() if trigger.latest(at - _TICK, at) != at}
    if snapshot.next_source is Source.AI_ONESHOT:
        one_shots[due_at] = snapshot.next_origin
    return one_shots


def _attribute_source(
    snapshot: ScheduleSnapshot, result: InstantOutcome, one_shots: Mapping[datetime, str]
) -> InstantOutcome:
    """Return the outcome with the source of its instants: a one-shot hint, or the calendar beside it."""
    origin = one_shots.get(result.instants.first)
    if origin is not None:
        return replace(result, source=result.source or Source.AI_ONESHOT, origin=origin)
    if snapshot.next_source is Source.AI_ONESHOT:
        return replace(result, source=result.source or snapshot.plan.trigger.kind.source, origin="")
    return result


def apply_skip_next(trigger: Trigger, results: list[InstantOutcome], skip_count: int) -> list[InstantOutcome]:
    """Return the outcomes, in order of time, with the first `skip_count` instants skipped as `by_request`. Pure.

    Instants outside the active hours would not have run, so they do not count.
    """
    remaining, adjusted = skip_count, list[InstantOutcome]()
    for result in results:
        if remaining <= 0 or result.reason == SkipReason.INACTIVE_HOURS:
            adjusted.append(result)
            continue
        skipped_range, rest = take_oldest(trigger, result.instants, remaining)
        skipped = replace(result, instants=skipped_range, outcome=BeatOutcome.SKIPPED, reason=SkipReason.BY_REQUEST)
        adjusted.append(replace(skipped, source=_unrun_source(result)))
        adjusted += [replace(result, instants=rest)] if rest else []
        remaining -= skipped_range.count
    return adjusted


def skip_passed(now: datetime, evaluation: Evaluation, reason: SkipReason, until: datetime | None = None) -> None:
    """Settle the instants of a calendar that passed while it was held: one row, up to `until` or now."""
    until, snapshot = until or now, evaluation.snapshot
    trigger, evaluation.settled_until = snapshot.plan.trigger, until
    if not isinstance(trigger, CalendarTrigger):
        return  # an interval that is held has no instants
    bounds, since, last = snapshot.plan.policies.bounds, snapshot.settled_until, until
    if bounds.starts_at is not None:
        since = max(since, bounds.starts_at - _TICK)  # before its start nothing is due, and past its end neither
    if bounds.ends_at is not None:
        last = min(until, bounds.ends_at)
    first = trigger.next_time(None, since)
    if first is not None and first <= last:
        _skip(now, evaluation, due_since(trigger, first, last), reason)


def skip_outside_hours(now: datetime, evaluation: Evaluation) -> None:
    """Settle the instants outside the active hours that the governor has passed over: a whole night is one row."""
    snapshot = evaluation.snapshot
    if snapshot.next_source is Source.PAUSED:
        return  # what passed meanwhile belongs to the pause
    instants = skipped_outside_hours(snapshot, now)
    if instants is not None:
        _skip(now, evaluation, instants, SkipReason.INACTIVE_HOURS, snapshot.plan.trigger.kind.source)
    evaluation.settled_until = _settled_through(snapshot, now)


def skip_due(now: datetime, evaluation: Evaluation, reason: SkipReason) -> None:
    """Settle what is due and not yet claimed when the schedule is paused or disabled at that very moment."""
    snapshot = evaluation.snapshot
    if not is_due(now, snapshot) or snapshot.next_due_at is None:
        return
    trigger, one_shots = snapshot.plan.trigger, _find_one_shots(snapshot)
    ends_at = snapshot.plan.policies.bounds.ends_at
    until = now if ends_at is None else max(min(now, ends_at), snapshot.next_due_at)  # past its end nothing is due
    due = due_since(trigger, snapshot.next_due_at, until)
    for instants in insert_moments(trigger, due, tuple(one_shots)):
        for each in without_recorded(trigger, instants, snapshot.recorded):
            skipped = InstantOutcome(each, BeatOutcome.SKIPPED, reason)
            _record_unrun(now, evaluation, _attribute_source(snapshot, skipped, one_shots))
    evaluation.settled_until = now
    evaluation.anchor_at = due.last if trigger.anchor is IntervalAnchor.START else now


def _skip(
    now: datetime, evaluation: Evaluation, instants: InstantRange, reason: SkipReason, source: Source | None = None
) -> None:
    """Record instants as skipped, except for those that have an outcome already."""
    snapshot = evaluation.snapshot
    for each in without_recorded(snapshot.plan.trigger, instants, snapshot.recorded):
        _record_unrun(now, evaluation, InstantOutcome(each, BeatOutcome.SKIPPED, reason, source))


def skip_event(now: datetime, evaluation: Evaluation, reason: SkipReason, source: Source, *, dedup_id: str) -> None:
    """Record an event that does not run. Consecutive ones with one reason are one row, which has the id of the first.

    Its id is given: two events may come at one moment, and the trigger has no instants to tell them apart.
    """
    known = len(evaluation.beats)
    _record_unrun(now, evaluation, InstantOutcome(InstantRange.single(now), BeatOutcome.SKIPPED, reason, source))
    if len(evaluation.beats) > known:
        evaluation.beats[-1] = evaluation.beats[-1]._replace(dedup_id=dedup_id)


def _record_unrun(now: datetime, evaluation: Evaluation, result: InstantOutcome) -> None:
    """Record instants that do not run as one row. They extend the row before it if that has the same reason."""
    snapshot, instants = evaluation.snapshot, result.instants
    if snapshot.skips and result.reason in SKIP_CONSUMING_REASONS:
        evaluation.skip_count = min(snapshot.skips, evaluation.skip_count + instants.count)
    beat = build_beat(now, snapshot, instants, result.outcome, result.reason, result.source, origin=result.origin)
    key = _outcome_key(beat)
    can_extend_last = key is not None and _last_outcome_key(evaluation, instants.first) == key
    if can_extend_last and evaluation.beats:
        before = evaluation.beats[-1]
        evaluation.beats[-1] = before._replace(number=before.number + instants.count, last_due_at=instants.last)
    elif can_extend_last and snapshot.tail_id is not None:
        # One extension per row: of two changes of one row in one statement, only one would count.
        more = instants.count + (evaluation.extensions.pop().more if evaluation.extensions else 0)
        evaluation.extensions.append(BeatExtension(snapshot.tail_id, more, instants.last))
    else:
        evaluation.beats.append(beat)


def _last_outcome_key(evaluation: Evaluation, following: datetime | None = None) -> str | None:
    """Outcome and reason of the row that the `following` instant may extend; None if there is none.

    A row does not extend over an instant that has a row of its own since before the clock was set back.
    """
    rows = evaluation.beats or evaluation.extensions
    is_interrupted = any(
        (not rows or first > rows[-1].last_due_at) and (following is None or first < following)
        for first, _ in evaluation.snapshot.recorded
    )
    if is_interrupted:
        return None
    if not evaluation.beats:
        return evaluation.snapshot.tail
    return _outcome_key(evaluation.beats[-1])


def _outcome_key(beat: NewBeat) -> str | None:
    """None for an open row, and for a one-shot: a row counts the instants of its calendar, and no others."""
    is_extensible = beat.outcome in MERGEABLE_OUTCOMES and beat.source is not Source.AI_ONESHOT
    return f"{beat.outcome}:{beat.reason}" if is_extensible else None


def _admit(cycle: ClaimCycle, evaluation: Evaluation, result: InstantOutcome) -> None:
    """Start or queue instants that may run: the first now, later ones as if they came while it runs.

    A catch-up beat waits for its slot first, and meets the overlap policy when it is taken up. The slot is assigned
    when the evaluation is written: the pace is the fleet's, and other nodes may be catching up at the same time.
    """
    if result.source is Source.CATCH_UP:
        _enqueue(cycle.now, evaluation, replace(result, reason=Source.CATCH_UP), cycle.now)
        evaluation.catchup_count += 1
        return
    remaining: InstantOutcome | None = result
    while remaining is not None:
        remaining = _apply_overlap(cycle, evaluation, remaining)


def _apply_overlap(cycle: ClaimCycle, evaluation: Evaluation, due: InstantOutcome) -> InstantOutcome | None:
    """Settle all of the instants if none of them may run. Else start or queue one, and return those after it.

    A row that starts or waits is one instant, because it gets one run. Once a range waited as one row, and when that
    had run, all of its instants were recorded as `ran`.
    """
    now, snapshot, capacity = cycle.now, evaluation.snapshot, cycle.capacity
    has_active_run = snapshot.running + len(evaluation.start_indexes) > 0
    # A catch-up beat waits for its slot, not for room, so it absorbs nothing: while a node lives, every instant runs.
    catchup_count = evaluation.catchup_count + cycle.paced_counts.get(snapshot.id, 0)
    has_queued_beat = snapshot.waiting + evaluation.queue_count > catchup_count
    action = resolve_overlap(
        snapshot.plan.policies.overlap, has_active_run=has_active_run, has_queued_beat=has_queued_beat
    )
    rejection = None
    if snapshot.plan.is_gated or capacity.has_gate(snapshot.id):
        is_held = snapshot.id in capacity.holds_by_schedule
        if is_held and has_queued_beat and action is OverlapAction.START:
            action = OverlapAction.MERGE  # one waits for the account: a week of others beside it would all be refused
        is_unblocked = action is OverlapAction.START
        rejection = find_rejection(_build_admission_request(cycle, evaluation, due, is_unblocked))
    unrun = _find_unrun_outcome(action, rejection, _absorbing_reason(capacity, snapshot, has_active_run=has_active_run))
    if unrun is not None:
        outcome, reason = unrun
        _record_unrun(now, evaluation, replace(due, outcome=outcome, reason=reason))
        return None
    first, remaining = _take_next_run(now, evaluation, due)
    if rejection is not None:
        expiry = expires_at(snapshot.plan.policies, first.instants.first)
        wake_at = rejection.recheck_at(now, expiry)
        _enqueue(now, evaluation, replace(first, reason=rejection.reason), wake_at)
    elif action is not OverlapAction.START:
        evaluation.cancels_active_runs |= action is OverlapAction.REPLACE
        _enqueue(now, evaluation, replace(first, reason=SkipReason.ALREADY_RUNNING))
    elif capacity.reserve(snapshot.target_id):
        capacity.reserve_budget(snapshot.id)
        evaluation.start_indexes.append(len(evaluation.beats))
        beat = build_beat(now, snapshot, first.instants, BeatOutcome.RUNNING, "", first.source, origin=first.origin)
        evaluation.beats.append(beat)
    else:
        # No completion at this target wakes a beat that waits for the node, so it stays due.
        wake_at = now if capacity.is_node_full else None
        _enqueue(now, evaluation, replace(first, reason=SkipReason.AT_CAPACITY), wake_at)
    return remaining


def _find_unrun_outcome(
    action: OverlapAction, rejection: Rejection | None, absorbed_by: MergedReason
) -> tuple[BeatOutcome, str] | None:
    """Return outcome and reason of instants that neither start nor wait; None if they do."""
    if rejection is not None:
        return None if rejection.until is not None else (BeatOutcome.SKIPPED, rejection.reason)
    if action is OverlapAction.SKIP:
        return BeatOutcome.SKIPPED, SkipReason.ALREADY_RUNNING
    return (BeatOutcome.MERGED, absorbed_by) if action is OverlapAction.MERGE else None


def _absorbing_reason(capacity: CapacitySnapshot, snapshot: ScheduleSnapshot, *, has_active_run: bool) -> MergedReason:
    """Return what the queued beat that absorbs others waits for: its own run, its account, or room at the target."""
    if has_active_run:
        return MergedReason.ALREADY_RUNNING
    is_held = snapshot.id in capacity.holds_by_schedule
    return MergedReason.RATE_LIMITED if is_held else MergedReason.AT_CAPACITY


def _take_next_run(
    now: datetime, evaluation: Evaluation, due: InstantOutcome
) -> tuple[InstantOutcome, InstantOutcome | None]:
    """Return the one instant that starts or waits next, and those after it.

    Of more than can run, the newest do; the older ones are recorded as merged into the first of those. Under `cancel`
    one can: a run that is replaced at once would be recorded, and never start.
    """
    plan, instants = evaluation.snapshot.plan, due.instants
    if instants.count == 1:
        return due, None
    reason = _OLDER_INSTANT_REASONS.get(plan.policies.overlap)
    limit = 1 if reason is MergedReason.CANCEL else plan.policies.catchup_max
    if reason is not None and instants.count > limit:
        older, newest = take_oldest(plan.trigger, instants, instants.count - limit)
        assert newest is not None
        _record_unrun(now, evaluation, replace(due, instants=older, outcome=BeatOutcome.MERGED, reason=reason))
        instants = newest
    first, remaining = split_first(plan.trigger, instants)
    return replace(due, instants=first), None if remaining is None else replace(due, instants=remaining)


_OLDER_INSTANT_REASONS = {
    Overlap.CANCEL: MergedReason.CANCEL,
    Overlap.ALLOW: MergedReason.CATCHUP_MAX,
    Overlap.QUEUE_ALL: MergedReason.CATCHUP_MAX,
}


def resolve_overlap(policy: Overlap, *, has_active_run: bool, has_queued_beat: bool) -> OverlapAction:
    """Return the action for a beat that is due now.

    With nothing active or queued every policy starts it. A queued beat absorbs later ones, except under `queue_all`,
    where each gets its own run.
    """
    if policy is Overlap.ALLOW or not (has_active_run or has_queued_beat):
        return OverlapAction.START
    if policy is Overlap.QUEUE_ALL:
        return OverlapAction.ENQUEUE
    return OverlapAction.MERGE if has_queued_beat else _ACTIONS_DURING_RUN[policy]


_ACTIONS_DURING_RUN = {
    Overlap.SKIP: OverlapAction.SKIP,
    Overlap.QUEUE: OverlapAction.ENQUEUE,
    Overlap.CANCEL: OverlapAction.REPLACE,
}


def _build_admission_request(
    cycle: ClaimCycle, evaluation: Evaluation, due: InstantOutcome, is_unblocked: bool
) -> AdmissionRequest:
    snapshot, first = evaluation.snapshot, due.instants.first
    due_at = snapshot.next_due_at or first
    return AdmissionRequest(
        now=cycle.now,
        due_at=first,
        run_at=first + ((snapshot.next_run_at or due_at) - due_at),
        source=due.source or snapshot.next_source or snapshot.plan.trigger.kind.source,
        snapshot=snapshot,
        started_count=len(evaluation.start_indexes),
        is_unblocked=is_unblocked,
        capacity=cycle.capacity,
    )


def _enqueue(now: datetime, evaluation: Evaluation, queued: InstantOutcome, wake_at: datetime | None = None) -> None:
    """Add one pending beat. Without `wake_at` it is looked at again when it expires."""
    snapshot, instants, outcome = evaluation.snapshot, queued.instants, queued.outcome
    evaluation.queue_count += 1
    wake_at = wake_at or expires_at(snapshot.plan.policies, instants.first)
    source, origin = queued.source, queued.origin
    beat = build_beat(now, snapshot, instants, outcome, queued.reason, source, origin=origin, wake_at=wake_at)
    evaluation.beats.append(beat)


def _schedule_next(now: datetime, evaluation: Evaluation) -> None:
    """Decide the next run: of an interval when its run is over, of a calendar after the instants just settled."""
    snapshot = evaluation.snapshot
    evaluation.settled_until = _settled_through(snapshot, now)
    is_active = bool(evaluation.start_indexes or evaluation.queue_count)
    if is_active and evaluation.is_rescheduled_on_completion:
        return
    last, anchor = evaluation.last_due_at or now, snapshot.plan.trigger.anchor
    # A fixed rate counts from the instants themselves, whatever their outcome. So does a calendar while a beat of it is
    # open: counted from the beat before, max_interval asked for the same instant again, without end.
    evaluation.anchor_at = now
    if anchor is IntervalAnchor.START:
        evaluation.anchor_at = last
    elif is_active:
        evaluation.anchor_at = max(snapshot.anchor_at, last)
    remaining_hints = tuple(hint for hint in snapshot.hints if hint.at is None or hint.at > last)
    state = replace(governor_state(snapshot), anchor_at=evaluation.anchor_at, is_new=False, hints=remaining_hints)
    evaluation.decision = decide(now if anchor is IntervalAnchor.END else min(last, now), state)


def _settled_through(snapshot: ScheduleSnapshot, now: datetime) -> datetime:
    """Up to where an evaluation at `now` settles instants: with jitter, that is as long ago as the jitter is."""
    run_at, due_at = snapshot.next_run_at, snapshot.next_due_at
    if snapshot.plan.policies.jitter is None or run_at is None or due_at is None or due_at > now:
        return now
    return max(snapshot.settled_until, now - (run_at - due_at))


def build_beat(
    now: datetime,
    snapshot: ScheduleSnapshot,
    instants: InstantRange,
    outcome: BeatOutcome,
    reason: str,
    source: Source | None = None,
    *,
    dedup_id: str | None = None,
    origin: str | None = None,
    priority: int | None = None,
    wake_at: datetime | None = None,
) -> NewBeat:
    """Return the row of one beat. What is not given comes from the schedule's trigger, next decision and policies."""
    trigger = snapshot.plan.trigger
    return NewBeat(
        schedule_id=snapshot.id,
        target_id=snapshot.target_id,
        dedup_id=build_dedup_id(snapshot, instants.first) if dedup_id is None else dedup_id,
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=outcome,
        reason=reason,
        source=source or snapshot.next_source or trigger.kind.source,
        origin=snapshot.next_origin if origin is None else origin,
        priority=snapshot.plan.policies.priority if priority is None else priority,
        wake_at=wake_at,
        created_at=now,
        settled_at=now if outcome in MERGEABLE_OUTCOMES else None,
    )


def build_dedup_id(snapshot: ScheduleSnapshot, due_at: datetime) -> str:
    """Return the id of the trigger. A calendar has whole seconds, so a moment between them keeps its microseconds.

    Once it had the id of its second, and a hint in a second that had a beat was used up without a beat of its own.
    """
    trigger = snapshot.plan.trigger
    if due_at.microsecond and trigger.kind is TriggerKind.CRON:
        return f"{trigger.kind}:{format_timestamp(due_at)}"
    return trigger.dedup_id(due_at, snapshot.label)


def build_schedule_change(
    snapshot: ScheduleSnapshot,
    decision: Decision | None = None,
    *,
    trace: str | None = None,
    keeps_time: bool = False,
    quarantine: str | None = None,
    last_run_at: datetime | None = None,
    last_status: str | None = None,
    last_error: str | None = None,
) -> ChangedSchedule:
    """Return the row of a schedule: everything as `snapshot` has it, and its next time by the decision.

    Without a decision it has no next time, unless it `keeps_time`. The stored trace stays in both cases.
    `trace` is the text of the decision, if it is known already.
    """
    next_run_at, next_due_at, wake_at = None, None, None
    if decision is not None:
        next_run_at, next_due_at, wake_at = decision.next_run_at, decision.due_at, decision.wake_at
    elif keeps_time:
        next_run_at, next_due_at, wake_at = snapshot.next_run_at, snapshot.next_due_at, snapshot.wake_at
    return ChangedSchedule(
        id=snapshot.id,
        next_run_at=next_run_at,
        next_due_at=next_due_at,
        next_source=decision.source if decision else snapshot.next_source,
        next_origin=decision.origin if decision else snapshot.next_origin,
        next_trace=trace or (decision_to_text(decision) if decision else None),
        wake_at=wake_at,
        anchor_at=snapshot.anchor_at,
        settled_until=snapshot.settled_until,
        is_new=snapshot.is_new,
        failures=snapshot.failures,
        runs=snapshot.runs,
        running=snapshot.running,
        waiting=snapshot.waiting,
        tail_id=snapshot.tail_id,
        tail=snapshot.tail,
        last_run_at=last_run_at,
        last_status=last_status,
        last_error=last_error,
        quarantine=quarantine,
    )


def change_from_evaluation(evaluation: Evaluation, started: int = 0, tail_id: int | None = None) -> ChangedSchedule:
    """Return the schedule's row after an evaluation. `tail_id` is the id of its last beat, if it wrote any."""
    snapshot = evaluation.snapshot
    tail, tail_id = _last_outcome_key(evaluation), tail_id if evaluation.beats else snapshot.tail_id
    after = snapshot._replace(
        anchor_at=evaluation.anchor_at or snapshot.anchor_at,
        # Never back: only a cycle that notices a clock set back withdraws what is settled.
        settled_until=max(evaluation.settled_until or snapshot.settled_until, snapshot.settled_until),
        is_new=snapshot.is_new and not evaluation.beats,
        running=snapshot.running + started,
        waiting=snapshot.waiting + evaluation.queue_count,
        tail_id=None if tail is None else tail_id,
        tail=tail,
    )
    return build_schedule_change(
        after, evaluation.decision, keeps_time=evaluation.keeps_time, quarantine=evaluation.quarantine
    )


def apply_change(snapshot: ScheduleSnapshot, change: ChangedSchedule) -> ScheduleSnapshot:
    """Return the schedule as it is after the change was written, for what follows in the same transaction."""
    return snapshot._replace(**{name: getattr(change, name) for name in _CHANGED_FIELDS})


_CHANGED_FIELDS = (set(ChangedSchedule._fields) & set(ScheduleSnapshot._fields)) - {"id"}
