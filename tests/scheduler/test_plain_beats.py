"""Nearly every beat is plain: it starts, succeeds, and its interval goes on. The short way must equal the long one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import Bounds, Budget, Catchup, Jitter, Overlap, Policies
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.governor import Pause
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.complete import SharedDecisions, complete_plain, complete_run, is_plain_success
from herdbeat.scheduler.evaluate import ClaimCycle, evaluate, evaluate_by_policies, is_plain_start
from herdbeat.store.base import OpenRun, ScheduleSnapshot
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import FixedRate, Interval

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
POLICIES = Policies(zone=ZoneInfo("UTC"), timeout=HOUR, catchup=Catchup.ONCE)
PLAN = ScheduleSpec(trigger=Interval(5 * HOUR), policies=POLICIES)
DUE = ScheduleSnapshot(
    id=7,
    target_id=3,
    label="api/default",
    plan=PLAN,
    revision=1,
    enabled=True,
    next_run_at=NOW - SECOND,
    next_due_at=NOW - SECOND,
    next_source=Source.BASELINE_INTERVAL,
    next_origin="",
    wake_at=NOW - SECOND,
    anchor_at=NOW - 5 * HOUR,
    settled_until=NOW - 5 * HOUR,
    is_new=False,
    failures=0,
    runs=4,
    running=0,
    waiting=0,
)
RUNNING = DUE._replace(next_run_at=None, next_due_at=None, wake_at=None, running=1)
RUN = OpenRun(11, 12, 7, 1, 3, Source.BASELINE_INTERVAL, has_reservation=False)
SUCCESS = Outcome(status=RunStatus.SUCCEEDED)

TRIGGERS = st.sampled_from(
    [Interval(5 * HOUR), Interval(SECOND), FixedRate(5 * HOUR), Cron.parse("0 * * * *", ZoneInfo("UTC"))]
)
POLICY_CHANGES: dict[str, list[Any]] = {
    "overlap": list(Overlap),
    "jitter": [None, Jitter(span=SECOND)],
    "max_late": [None, SECOND / 2],
    "grace": [timedelta(0), 10 * SECOND],
    "bounds": [Bounds(), Bounds(max_runs=4), Bounds(ends_at=NOW)],
    "priority": [0, 5],
    "runs_on": [None, "gpu"],
    "budget": [None, Budget(runs_per_day=1)],
}
STATE_CHANGES: dict[str, list[Any]] = {
    "enabled": [False, True],
    "next_source": [None, Source.PAUSED, Source.FIRST_RUN, Source.AI_INTERVAL],
    "next_origin": ["", "human:ana"],
    "next_run_at": [None, NOW, NOW - HOUR, NOW + HOUR],
    "wake_at": [None, NOW, NOW + HOUR],
    "running": [0, 1, 2],
    "waiting": [0, 1, 2],
    "skips": [0, 1],
    "failures": [0, 1, 2],
    "is_new": [False, True],
    "runs": [0, 5],
    "tail_id": [None, 5],
    "pause": [None, Pause(until=NOW - SECOND), Pause()],
    "not_before": [None, NOW + HOUR],
    "hints": [(), (Hint(origin="human:ana", expires_at=NOW + HOUR, every=SECOND),)],
    "windows": [(), (PauseWindow(id=1, from_at=NOW - HOUR, until=NOW + HOUR),)],
    "quarantine": [None, "it is broken"],
}


def differing(options: dict[str, list[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """A few of the fields, each with another value: with all of them at once hardly any example would be plain."""
    names = st.lists(st.sampled_from(sorted(options)), max_size=most, unique=True)
    return names.flatmap(
        lambda chosen: st.fixed_dictionaries({name: st.sampled_from(options[name]) for name in chosen})
    )


plans = st.builds(
    lambda trigger, changes: ScheduleSpec(trigger=trigger, policies=replace(POLICIES, **changes)),
    st.one_of(st.just(PLAN.trigger), TRIGGERS),
    differing(POLICY_CHANGES, 2),
)


def new_cycle(free_slots: int = 5, free_at_target: int = 1) -> ClaimCycle:
    return ClaimCycle(NOW, CapacitySnapshot(free_slots, {3: free_at_target}, free_start_slots=0))


@given(plans, differing(STATE_CHANGES, 3), st.integers(0, 1), st.integers(0, 1))
def test_a_beat_that_starts_without_its_policies_equals_one_that_they_have_admitted(
    plan: ScheduleSpec, changes: dict[str, Any], free_slots: int, free_at_target: int
) -> None:
    snapshot = DUE._replace(plan=plan, **changes)
    quick, thorough = new_cycle(free_slots, free_at_target), new_cycle(free_slots, free_at_target)

    assert evaluate(quick, snapshot) == evaluate_by_policies(thorough, snapshot)
    assert quick.capacity == thorough.capacity


def test_a_due_interval_is_plain() -> None:
    """Else the comparison above compares the long way with itself."""
    assert is_plain_start(new_cycle(), DUE)
    assert is_plain_success(RUNNING, RUN, SUCCESS)


def assert_equal_success(snapshot: ScheduleSnapshot, run: OpenRun, outcome: Outcome) -> None:
    """A plain schedule of the same plan has ended before, so that there is a decision to share."""
    decisions = SharedDecisions(NOW)
    complete_run(NOW, RUNNING._replace(plan=snapshot.plan), RUN, SUCCESS, decisions)
    decided = decisions.find_after_success(snapshot)
    if is_plain_success(snapshot, run, outcome) and decided is not None:
        thorough = complete_run(NOW, snapshot, run, outcome, SharedDecisions(NOW))
        assert complete_plain(NOW, snapshot, run, *decided) == thorough


@given(plans, differing(STATE_CHANGES, 3))
def test_a_plain_success_equals_one_that_its_policies_have_decided(plan: ScheduleSpec, changes: dict[str, Any]) -> None:
    assert_equal_success(RUNNING._replace(plan=plan, **changes), RUN, SUCCESS)


@pytest.mark.parametrize("name", STATE_CHANGES)
def test_one_thing_that_is_different_makes_no_difference(name: str) -> None:
    for value in STATE_CHANGES[name]:
        due = DUE._replace(**{name: value})
        assert evaluate(new_cycle(), due) == evaluate_by_policies(new_cycle(), due)
        assert_equal_success(RUNNING._replace(**{name: value}), RUN, SUCCESS)


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("status", RunStatus)
def test_other_endings_take_the_long_way(status: RunStatus, source: Source) -> None:
    assert_equal_success(RUNNING, RUN._replace(source=source), Outcome(status=status))


def test_schedules_share_a_decision_and_keep_their_number_of_runs() -> None:
    decisions = SharedDecisions(NOW)
    complete_run(NOW, RUNNING, RUN, SUCCESS, decisions)

    decided = decisions.find_after_success(RUNNING._replace(runs=34))

    assert decided is not None
    assert decided[1].endswith('"runs":35}}')


def test_a_completion_that_waited_for_a_lock_made_instants_due_again_that_another_node_had_settled() -> None:
    plan = replace(PLAN, trigger=Cron.parse("* * * * * *", ZoneInfo("UTC")))
    read_at = NOW - 6 * SECOND  # its clock; the other node has settled everything up to NOW meanwhile
    ahead = NOW + SECOND
    claimed = DUE._replace(plan=plan, next_run_at=ahead, next_due_at=ahead, wake_at=ahead, settled_until=NOW, running=1)
    run = RUN._replace(source=Source.BASELINE_CRON)

    _, change = complete_run(read_at, claimed, run, SUCCESS, SharedDecisions(read_at))

    assert (change.next_run_at, change.settled_until, change.running) == (ahead, NOW, 0)
