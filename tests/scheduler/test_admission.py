"""The gates in their order: the first that is closed gives the reason."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Cost
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours, Bounds, Budget, Catchup, Policies
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.scheduler.admission import AdmissionGate, AdmissionRequest, Rejection, expires_at, find_rejection
from herdbeat.scheduler.budgets import BudgetUsage, ScheduleBudgets
from herdbeat.scheduler.capacity import CapacitySnapshot
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.base import ScheduleSnapshot
from herdbeat.testing.herd import ScriptedRunner, open_herd
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

UTC_ZONE = ZoneInfo("UTC")
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
HOURLY = Cron.parse("0 * * * *", UTC_ZONE)
MORNING = ActiveHours(opens=time(7), closes=time(11), zone=UTC_ZONE)
OVER = Bounds(ends_at=NOON - HOUR)
EMPTY = Budget(runs_per_day=0)


def policies(**changes: object) -> Policies:
    usual = {"zone": UTC_ZONE, "timeout": HOUR, "catchup": Catchup.SKIP}
    return Policies(**{**usual, **changes})  # type: ignore[arg-type]


def standing(trigger: Trigger = HOURLY, *, runs: int = 0, running: int = 0, **chosen: object) -> ScheduleSnapshot:
    return ScheduleSnapshot(
        id=1,
        target_id=1,
        label="report/hourly",
        plan=ScheduleSpec(trigger=trigger, policies=policies(**chosen)),
        revision=1,
        enabled=True,
        next_run_at=NOON,
        next_due_at=NOON,
        next_source=Source.BASELINE_CRON,
        next_origin="",
        wake_at=NOON,
        anchor_at=NOON - HOUR,
        settled_until=NOON - HOUR,
        is_new=False,
        failures=0,
        runs=runs,
        running=running,
        waiting=0,
        arm=1,
        pause=None,
        tail_id=None,
        tail=None,
        hints=(),
    )


def arrival(
    who: ScheduleSnapshot, *, late: timedelta = HOUR, source: Source = Source.BASELINE_CRON, is_unblocked: bool = True
) -> AdmissionRequest:
    budget = who.plan.policies.budget
    account = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, who.id), "2026-03-02")
    budgets_by_schedule = {} if budget is None else {who.id: ScheduleBudgets(Cost(), (BudgetUsage(account, budget),))}
    return AdmissionRequest(
        now=NOON,
        due_at=NOON - late,
        run_at=NOON - late,
        source=source,
        snapshot=who,
        started_count=0,
        is_unblocked=is_unblocked,
        capacity=CapacitySnapshot(1, budgets_by_schedule=budgets_by_schedule, labels=frozenset({"large"})),
    )


def test_the_order_is_the_documented_one() -> None:
    """The gates have one order. The label comes right before the capacity: both are about where to run."""
    assert [gate for gate in AdmissionGate if gate is not AdmissionGate.LABEL] == [
        "enabled",
        "not_paused",
        "bounds",
        "not_running",
        "active_hours",
        "budget",
        "account",
        "capacity",
        "precheck",
        "work",
    ]


@pytest.mark.parametrize(
    ("who", "is_unblocked", "reason"),
    [
        (standing(), True, None),
        (standing(bounds=OVER, active_hours=MORNING, budget=EMPTY, runs_on="gpu"), True, "expired"),
        (standing(bounds=OVER, active_hours=MORNING, budget=EMPTY, runs_on="gpu"), False, "expired"),
        (standing(active_hours=MORNING, budget=EMPTY, runs_on="gpu"), False, None),  # overlap decides
        (standing(active_hours=MORNING, budget=EMPTY, runs_on="gpu"), True, "inactive_hours"),
        (standing(budget=EMPTY, runs_on="gpu"), True, "budget_exceeded"),
        (standing(runs_on="gpu"), True, "target_offline"),
        (standing(runs_on="large"), True, None),
    ],
)
def test_the_first_closed_gate_gives_the_reason(who: ScheduleSnapshot, is_unblocked: bool, reason: str | None) -> None:
    held = find_rejection(arrival(who, is_unblocked=is_unblocked))

    assert (held.reason if held else None) == reason


@pytest.mark.parametrize(
    ("who", "late", "is_held"),
    [
        (standing(bounds=Bounds(ends_at=NOON)), HOUR, False),  # at its very end it still starts
        (standing(bounds=Bounds(ends_at=NOON - timedelta(seconds=10))), timedelta(seconds=20), False),  # within grace
        (standing(bounds=Bounds(ends_at=NOON - timedelta(seconds=10))), timedelta(seconds=31), True),
        (standing(bounds=Bounds(max_runs=3), runs=2), HOUR, False),
        (standing(bounds=Bounds(max_runs=3), runs=3), HOUR, True),
        (standing(bounds=Bounds(max_runs=3), runs=2, running=1), HOUR, True),
    ],
)
def test_the_edges_of_the_bounds(who: ScheduleSnapshot, late: timedelta, is_held: bool) -> None:
    assert (find_rejection(arrival(who, late=late)) is not None) == is_held


def test_outside_the_hours_a_calendar_is_skipped_and_anything_else_waits_for_the_opening() -> None:
    cron = find_rejection(arrival(standing(active_hours=MORNING)))
    pace = find_rejection(arrival(standing(Interval(HOUR), active_hours=MORNING), source=Source.BASELINE_INTERVAL))

    assert cron == Rejection(SkipReason.INACTIVE_HOURS)
    assert pace == Rejection(SkipReason.INACTIVE_HOURS, datetime(2026, 3, 3, 7, 0, tzinfo=UTC))


@pytest.mark.parametrize("source", [Source.MANUAL, Source.BACKFILL])
def test_hours_and_bounds_do_not_apply_to_beats_by_hand(source: Source) -> None:
    assert find_rejection(arrival(standing(bounds=OVER, active_hours=MORNING), source=source)) is None


def test_an_event_waits_for_a_node_with_its_label() -> None:
    held = find_rejection(arrival(standing(runs_on="gpu"), source=Source.WEBHOOK))

    assert held == Rejection(SkipReason.TARGET_OFFLINE, NOON + MINUTE)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, None),
        ({"max_late": HOUR}, NOON + HOUR),
        ({"bounds": Bounds(ends_at=NOON + MINUTE)}, NOON + MINUTE),
        ({"max_late": HOUR, "bounds": Bounds(ends_at=NOON + MINUTE)}, NOON + MINUTE),
        ({"max_late": MINUTE, "bounds": Bounds(ends_at=NOON + HOUR)}, NOON + MINUTE),
    ],
)
def test_a_pending_beat_is_evaluated_right_after_it_expires(
    chosen: dict[str, object], expected: datetime | None
) -> None:
    found = expires_at(policies(**chosen), NOON)

    assert found == (None if expected is None else expected + timedelta(microseconds=1))


async def test_beats_that_no_node_may_run_are_skipped_at_their_interval(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON - MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("train", cron="0 * * * *", runs_on="gpu", runner=runner)
        herd.schedule("poll", every="10m", runs_on="gpu", runner=runner)

        await herd.advance(2 * HOUR)

        assert runner.runs == []
        assert herd.outcomes("train") == [("skipped", "target_offline", 2)]
        assert herd.outcomes("poll") == [("skipped", "target_offline", 13)]
        assert herd.next_run("poll") == herd.now + 9 * MINUTE + MINUTE


async def test_a_node_with_the_label_runs_them(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON - MINUTE, labels=["gpu", "large"]) as herd:
        herd.schedule("train", cron="0 * * * *", runs_on="gpu")

        await herd.advance(HOUR)

        assert herd.outcomes("train") == [("ran", "", 1)]


async def test_a_beat_by_hand_waits_for_a_node_with_its_label(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOON) as herd:
        herd.schedule("train", cron="0 9 * * *", runs_on="gpu")
        number = herd.snapshot("train").id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
        await herd.advance(5 * MINUTE)
        assert herd.outcomes("train") == [("pending", "target_offline", 1)]

    async with open_herd(tmp_path, NOON + HOUR, labels=["gpu"]) as herd:
        runner = ScriptedRunner()
        herd.schedule("train", cron="0 9 * * *", runs_on="gpu", runner=runner)
        await herd.advance(2 * MINUTE)

        assert len(runner.runs) == 1
        assert herd.outcomes("train") == [("ran", "", 1)]


async def test_an_interval_whose_beat_waited_too_long_continues(tmp_path: Path) -> None:
    """It stood still for ever: the beat was missed while it waited, and nobody decided the next time."""
    async with open_herd(tmp_path, NOON) as herd:
        busy, poll = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", every="1d", runner=busy)
        await herd.tick()
        herd.schedule("worker/poll", every="10m", max_late=5 * MINUTE, runner=poll)

        await herd.advance(20 * MINUTE)

        assert herd.outcomes("worker/poll")[0] == ("missed", "too_late", 1)
        assert herd.snapshot("worker/poll").waiting + int(herd.next_run("worker/poll") is not None) == 1
        busy.let_go()
        await herd.advance(20 * MINUTE)
        assert poll.runs != []


@pytest.mark.parametrize("source", [Source.RULE_TRIGGER, Source.WEBHOOK, Source.CHAT])
def test_an_event_that_comes_after_the_end_of_its_schedule_is_refused(source: Source) -> None:
    """It is never late, because it is due when it comes: only its own instant shows that the end has passed."""
    rejection = find_rejection(arrival(standing(bounds=OVER), late=timedelta(0), source=source))

    assert rejection == Rejection(SkipReason.EXPIRED)


def test_a_person_may_run_a_schedule_after_its_end() -> None:
    assert find_rejection(arrival(standing(bounds=OVER), late=timedelta(0), source=Source.MANUAL)) is None
