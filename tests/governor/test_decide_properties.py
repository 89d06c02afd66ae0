"""Properties that hold for every state."""

from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise

from hypothesis import given
from tests.support.governor_strategies import decision_inputs, moments

from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.policies import FirstRun
from herdbeat.governor import Pause, ScheduleState, decide, forecast_decisions

DecisionInput = tuple[datetime, ScheduleState]


@given(decision_inputs())
def test_no_decision_is_in_the_past(question: DecisionInput) -> None:
    now, state = question

    decision = decide(now, state)

    assert decision.next_run_at is None or decision.next_run_at >= now
    assert decision.revisit_at is None or decision.revisit_at > now


@given(decision_inputs())
def test_no_decision_is_outside_the_limits(question: DecisionInput) -> None:
    now, state = question
    limits, bounds = state.timing.limits, state.timing.bounds

    decision = decide(now, state)

    if decision.next_run_at is None or decision.source in (Source.PAUSED, Source.DELAY):
        return
    if limits.at_least is not None and decision.source is not Source.FIRST_RUN:
        assert decision.next_run_at >= state.anchor_at + limits.at_least
    if limits.at_most is not None and not _held_back(decision):
        assert decision.next_run_at <= max(now, state.anchor_at + limits.at_most)
    assert bounds.starts_at is None or decision.next_run_at >= bounds.starts_at
    assert bounds.ends_at is None or decision.next_run_at <= bounds.ends_at


def _held_back(decision: Decision) -> bool:
    """Return whether starts_at or the active hours, which come after the limits, may move the run past max_interval."""
    return any(step.kind in (StepKind.BOUND, StepKind.HOURS) for step in decision.trace)


@given(decision_inputs())
def test_no_due_instant_is_outside_the_active_hours(question: DecisionInput) -> None:
    now, state = question
    hours = state.timing.active_hours

    decision = decide(now, state)

    if hours is not None and decision.due_at is not None and decision.next_run_at is not None:
        assert hours.contains(decision.due_at) or hours.contains(decision.next_run_at)


@given(decision_inputs(), moments)
def test_a_pause_overrides_everything(question: DecisionInput, until: datetime) -> None:
    now, state = question
    paused = replace(state, enabled=True, pause=Pause(until=until))

    decision = decide(now, paused)

    if until > now:
        assert (decision.next_run_at, decision.source, decision.due_at) == (until, Source.PAUSED, None)
    else:
        assert decision.source is not Source.PAUSED


@given(decision_inputs())
def test_the_same_arguments_give_the_same_decision(question: DecisionInput) -> None:
    now, state = question

    assert decide(now, state) == decide(now, state)


@given(decision_inputs())
def test_expired_hints_do_not_change_the_decision(question: DecisionInput) -> None:
    now, state = question
    alive = replace(state, hints=tuple(hint for hint in state.hints if hint.expires_at > now))

    with_expired, without = decide(now, state), decide(now, alive)

    assert (with_expired.next_run_at, with_expired.source) == (without.next_run_at, without.source)


@given(decision_inputs())
def test_exactly_one_candidate_wins_if_there_is_any(question: DecisionInput) -> None:
    now, state = question

    candidates = [step for step in decide(now, state).trace if step.kind is StepKind.CANDIDATE]

    assert sum(step.won for step in candidates) == (1 if candidates else 0)


@given(decision_inputs())
def test_a_planned_run_always_has_its_due_instant(question: DecisionInput) -> None:
    now, state = question

    decision = decide(now, state)

    planned = decision.next_run_at is not None and decision.source is not Source.PAUSED
    assert (decision.due_at is not None) == planned
    if decision.due_at is not None and decision.next_run_at is not None:
        assert decision.due_at <= decision.next_run_at


@given(decision_inputs())
def test_right_after_a_run_the_next_one_is_later(question: DecisionInput) -> None:
    """A run that has just ended is never due again at the same instant, which would be a tight loop."""
    now, state = question
    ended = replace(state, anchor_at=now, is_new=False, hints=tuple(hint for hint in state.hints if hint.at is None))

    decision = decide(now, ended)

    assert decision.next_run_at is None or decision.next_run_at > now


@given(decision_inputs())
def test_the_forecast_is_strictly_increasing_and_begins_with_the_decision(question: DecisionInput) -> None:
    now, state = question

    planned = [decision.next_run_at or now for decision in islice(forecast_decisions(now, state), 6)]

    assert all(earlier < later for earlier, later in pairwise(planned))
    first = decide(now, state)
    if first.wake_at is not None and first.wake_at == first.next_run_at and first.source is not Source.PAUSED:
        assert planned[0] == first.next_run_at


@given(decision_inputs())
def test_the_forecast_equals_a_loop_that_runs_at_once(question: DecisionInput) -> None:
    """A minimal loop: wake up, run if due, record, decide again."""
    now, state = question
    expected = [decision.next_run_at for decision in islice(forecast_decisions(now, state), 4)]

    ran: list[datetime] = []
    for _ in range(40):
        decision = decide(now, state)
        if decision.wake_at is None or len(ran) == len(expected):
            break
        now = decision.wake_at
        if decision.due_at is not None and decision.next_run_at == now:
            ran.append(now)
            left = tuple(hint for hint in state.hints if hint.at is None or hint.at > decision.due_at)
            state = replace(state, anchor_at=now, is_new=False, failures=0, runs=state.runs + 1, hints=left)

    assert ran == expected


@given(decision_inputs())
def test_the_first_run_waits_only_with_its_policy(question: DecisionInput) -> None:
    now, state = question
    waiting = replace(state, is_new=True, timing=replace(state.timing, first_run=FirstRun.AFTER_INTERVAL))

    assert decide(now, waiting).source is not Source.FIRST_RUN
