"""The automatic spread of agents: `jitter: auto`."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from tests.support.governor_builders import NOW, Bounds, at, every, hours, limits, make_hint, state
from tests.support.governor_strategies import decision_inputs

from herdbeat.domain.decision import Decision, Source, StepKind
from herdbeat.domain.policies import AUTOMATIC_SPREAD
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import parse_duration
from herdbeat.governor import ScheduleState, decide

SECOND = timedelta(seconds=1)
DecisionInput = tuple[datetime, ScheduleState]


def shift(decision: Decision) -> timedelta:
    assert decision.next_run_at is not None
    assert decision.due_at is not None
    return decision.next_run_at - decision.due_at


@pytest.mark.parametrize(("interval", "most"), [("1s", "0.01"), ("5m", "3"), ("10m", "6"), ("1h", "10"), ("1d", "10")])
def test_agents_with_one_interval_start_within_one_percent_of_it_and_ten_seconds(interval: str, most: str) -> None:
    one = state(every(interval), jitter=AUTOMATIC_SPREAD)
    agents = [replace(one, schedule=f"agent-{number}/work") for number in range(100)]

    shifts = [shift(decide(NOW, agent)) for agent in agents]

    assert len(set(shifts)) > 90
    assert timedelta(0) <= min(shifts) <= max(shifts) <= timedelta(seconds=float(most))
    assert max(shifts) > timedelta(seconds=float(most)) * 0.8


def test_the_trace_calls_it_spread() -> None:
    decision = decide(NOW, replace(state(every("1h"), jitter=AUTOMATIC_SPREAD), schedule="scout/work"))

    step = decision.trace[-1]
    assert (step.kind, step.at) == (StepKind.JITTER, decision.next_run_at)
    assert step.text.startswith("spread adds ")


def test_the_spread_of_a_hint_is_one_percent_of_the_hint() -> None:
    hinted = state(every("1h"), jitter=AUTOMATIC_SPREAD, hints=(make_hint(every="30s"),))

    decision = decide(NOW, hinted)

    assert decision.source is Source.AI_INTERVAL
    assert timedelta(0) < shift(decision) <= timedelta(seconds=0.3)


def test_first_runs_overdue_beats_and_one_shots_are_not_spread() -> None:
    new = decide(NOW, state(every("1h"), is_new=True, jitter=AUTOMATIC_SPREAD))
    overdue = decide(NOW, state(every("1h"), anchor=at("01:00"), jitter=AUTOMATIC_SPREAD))
    asked = decide(NOW, state(every("1h"), jitter=AUTOMATIC_SPREAD, hints=(make_hint(at=at("03:10")),)))

    assert (new.next_run_at, overdue.next_run_at, asked.next_run_at) == (NOW, NOW, at("03:10"))


def test_the_last_run_before_the_hours_close_is_not_spread_into_the_next_day() -> None:
    for number in range(50):
        late = state(every("1h"), anchor=at("20:59:59"), jitter=AUTOMATIC_SPREAD, active_hours=hours("07:00-22:00"))

        decision = decide(at("20:59:59"), replace(late, schedule=f"agent-{number}/work"))

        assert decision.next_run_at is not None
        assert at("21:59:59") <= decision.next_run_at < at("22:00")


def test_the_spread_stays_inside_the_end_of_a_schedule() -> None:
    ending = state(every("1h"), jitter=AUTOMATIC_SPREAD, bounds=Bounds(ends_at=at("04:00:01")))

    assert at("04:00") <= (decide(NOW, ending).next_run_at or NOW) <= at("04:00:01")


@pytest.mark.parametrize("at_most", ["60m", "3601s", "30m"])
def test_max_interval_stays_the_longest_distance_and_is_not_blamed_for_the_spread(at_most: str) -> None:
    limited = state(every("1h"), jitter=AUTOMATIC_SPREAD, limits=limits(at_most=at_most))

    decision = decide(NOW, limited)

    assert decision.next_run_at is not None
    assert decision.next_run_at <= NOW + parse_duration(at_most)
    assert decision.source is (Source.CLAMPED_MAX if at_most == "30m" else Source.BASELINE_INTERVAL)


@given(decision_inputs())
def test_the_spread_changes_only_the_second_of_the_start(question: DecisionInput) -> None:
    """Same source, same due instant, same end: at most 10 seconds and one percent of the pace later, never earlier."""
    now, given_state = question
    if given_state.timing.trigger.kind is not TriggerKind.INTERVAL:
        return
    plain = replace(given_state, timing=replace(given_state.timing, jitter=None))
    spread = replace(given_state, timing=replace(given_state.timing, jitter=AUTOMATIC_SPREAD))

    without, decision = decide(now, plain), decide(now, spread)

    assert (decision.source, decision.due_at, decision.origin) == (without.source, without.due_at, without.origin)
    assert (decision.next_run_at is None) == (without.next_run_at is None)
    if decision.next_run_at is not None and without.next_run_at is not None:
        assert timedelta(0) <= decision.next_run_at - without.next_run_at <= 10 * SECOND
