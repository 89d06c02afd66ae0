"""Budgets: counted before a start, corrected after it, by days of the schedule's zone."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Cost, Reservation, SpendAdjustment, SpendTotals
from herdbeat.domain.policies import Budget, Overlap, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.budgets import (
    budget_date,
    compute_adjustment,
    estimate_cost,
    find_exhausted_limit,
    list_limits,
    next_reset_at,
)
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
ACCOUNT = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, 1), "2026-03-02")


def spent(herd: SimulatedHerd, label: str, day: str = "2026-03-02") -> SpendTotals:
    account = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, herd.snapshot(label).id), day)
    return herd.store.write_now(lambda tx: tx.budget_get_usage([account]))[account]


async def test_over_its_runs_a_day_every_beat_is_skipped_in_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *", budget=Budget(runs_per_day=3))

        await herd.advance(15 * HOUR)  # 00:59 of the next day

        assert herd.outcomes("report") == [
            ("ran", "", 1),
            ("ran", "", 1),
            ("ran", "", 1),
            ("skipped", "budget_exceeded", 11),
            ("ran", "", 1),  # midnight: another day
        ]


async def test_the_day_is_that_of_the_schedule_s_zone(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN + 11 * HOUR) as herd:  # 21:00 UTC, 22:00 in Berlin
        runner = ScriptedRunner()
        herd.schedule("report", cron="30 * * * *", zone="Europe/Berlin", budget=Budget(runs_per_day=1), runner=runner)

        await herd.advance(4 * HOUR)

        assert [claim.due_at.astimezone(BERLIN).strftime("%d %H:%M") for claim in runner.runs] == [
            "02 22:30",
            "03 00:30",
        ]


async def test_an_interval_over_its_budget_keeps_its_interval(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="10m", budget=Budget(runs_per_day=2))

        await herd.advance(HOUR)

        assert herd.outcomes("api") == [("ran", "", 1), ("ran", "", 1), ("skipped", "budget_exceeded", 5)]
        assert herd.next_run("api") == TEN + HOUR + 10 * MINUTE


async def test_tokens_and_dollars_count_as_soon_as_runs_report_them(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(usage={"input_tokens": 300, "output_tokens": 100, "cost_usd": 0.5})
        herd.schedule("scribe", every="10m", budget=Budget(tokens_per_day=1_000), runner=runner)
        herd.schedule("poet", every="10m", budget=Budget(usd_per_day=2), runner=runner)

        await herd.advance(HOUR)

        # 400 each: two fit, and the third is expected to go over.
        assert spent(herd, "scribe") == SpendTotals(2, 800, 1.0)
        assert spent(herd, "poet") == SpendTotals(4, 1_600, 2.0)
        assert herd.outcomes("poet")[-1] == ("skipped", "budget_exceeded", 3)


async def test_the_day_is_over_its_limit_by_no_more_than_what_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True, usage={"tokens": 700})
        herd.schedule(
            "scribe",
            cron="* * * * *",
            overlap=Overlap.ALLOW,
            max_concurrent=9,
            budget=Budget(tokens_per_day=1_000, runs_per_day=4),
            runner=runner,
        )

        await herd.advance(10 * MINUTE)

        assert len(runner.runs) == 4  # nobody knew yet what one costs, so the number of runs holds
        runner.let_go()
        await herd.settle()
        assert spent(herd, "scribe") == SpendTotals(4, 2_800, 0.0)


async def test_the_estimate_of_a_running_run_counts(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        first = ScriptedRunner(usage={"tokens": 600})
        herd.schedule(
            "scribe", cron="* * * * *", budget=Budget(tokens_per_day=1_300), overlap=Overlap.ALLOW, runner=first
        )
        await herd.advance(MINUTE)
        held = ScriptedRunner(holds=True, usage={"tokens": 10})
        herd.schedule(
            "scribe",
            cron="* * * * *",
            budget=Budget(tokens_per_day=1_300),
            overlap=Overlap.ALLOW,
            max_concurrent=9,
            runner=held,
        )

        await herd.advance(3 * MINUTE)

        assert len(held.runs) == 1  # 600 used and 600 reserved: a third 600 would be too many
        assert spent(herd, "scribe").tokens == 1_200
        held.let_go()
        await herd.settle()
        assert spent(herd, "scribe").tokens == 610


async def test_a_run_interrupted_by_a_crash_keeps_its_estimate_and_is_counted_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule(
            "scribe", every="10m", budget=Budget(tokens_per_day=10_000), runner=ScriptedRunner(usage={"tokens": 50})
        )
        await herd.tick()
        held = ScriptedRunner(holds=True)
        herd.schedule("scribe", every="10m", budget=Budget(tokens_per_day=10_000), runner=held, grace=HOUR)
        await herd.advance(10 * MINUTE)
        assert spent(herd, "scribe") == SpendTotals(2, 100, 0.0)

        herd.store.write_now(lambda tx: register_node(tx, herd.now, NodeInfo(host="other", pid=2, version="test")))

        assert spent(herd, "scribe") == SpendTotals(2, 100, 0.0)
        assert herd.store.write_now(lambda tx: tx.reservations([claim.run_id for claim in held.runs])) == []


async def test_what_was_used_survives_a_restart(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="10m", budget=Budget(runs_per_day=1))
        await herd.tick()

    async with open_herd(tmp_path, TEN + HOUR) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="10m", budget=Budget(runs_per_day=1), runner=runner)
        await herd.advance(HOUR)

        assert runner.runs == []
        assert herd.outcomes("api")[-1][:2] == ("skipped", "budget_exceeded")


async def test_a_beat_that_declines_costs_nothing(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(declines=3)
        herd.schedule("api", every="10m", budget=Budget(runs_per_day=1), runner=runner)

        await herd.advance(35 * MINUTE)

        assert [fate[:2] for fate in herd.outcomes("api")] == [("skipped", "precheck")] * 3 + [("ran", "")]
        assert spent(herd, "api").runs == 1


async def test_a_second_attempt_over_the_budget_does_not_start(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=9)
        herd.schedule(
            "api", every="1h", budget=Budget(runs_per_day=2), retry=Retry(attempts=5, wait=MINUTE), runner=runner
        )

        await herd.advance(50 * MINUTE)

        assert len(runner.runs) == 2
        assert herd.outcomes("api") == [("ran", "", 1)]
        assert herd.next_run("api") is not None


async def test_a_pending_beat_is_checked_again_when_a_slot_is_free(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        busy, poor = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", cron="0 10 * * *", runner=busy)
        herd.schedule("worker/poor", cron="1 10 * * *", budget=Budget(runs_per_day=0), runner=poor)
        herd.schedule("worker/next", cron="2 10 * * *", runner=poor)
        await herd.advance(4 * MINUTE)

        busy.let_go()
        await herd.tick()

        assert herd.outcomes("worker/poor") == [("skipped", "budget_exceeded", 1)]
        assert herd.outcomes("worker/next") == [("ran", "", 1)]  # the slot that was not taken goes to the next


async def test_a_run_by_hand_may_exceed_the_budget_and_is_counted(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="10m", budget=Budget(runs_per_day=1), runner=runner)
        await herd.tick()
        number = herd.snapshot("api").id

        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
        await herd.tick()

        assert len(runner.runs) == 2
        assert spent(herd, "api").runs == 2


@pytest.mark.parametrize(
    ("budget", "used", "cost", "reached"),
    [
        (Budget(runs_per_day=3), SpendTotals(runs=2), Cost(), None),
        (Budget(runs_per_day=3), SpendTotals(runs=3), Cost(), "runs_per_day"),
        (Budget(runs_per_day=0), SpendTotals(), Cost(), "runs_per_day"),
        (Budget(tokens_per_day=100), SpendTotals(tokens=99), Cost(), None),
        (Budget(tokens_per_day=100), SpendTotals(tokens=100), Cost(), "tokens_per_day"),
        (Budget(tokens_per_day=100), SpendTotals(tokens=60), Cost(tokens=40), None),
        (Budget(tokens_per_day=100), SpendTotals(tokens=60), Cost(tokens=41), "tokens_per_day"),
        (Budget(tokens_per_day=100), SpendTotals(), Cost(tokens=500), None),  # the first of a day may go over
        (Budget(usd_per_day=5), SpendTotals(usd=4.99), Cost(), None),
        (Budget(usd_per_day=5), SpendTotals(usd=5.0), Cost(), "usd_per_day"),
        (Budget(usd_per_day=5, runs_per_day=1), SpendTotals(runs=1, usd=5.0), Cost(), "usd_per_day"),
    ],
)
def test_the_limits(budget: Budget, used: SpendTotals, cost: Cost, reached: str | None) -> None:
    found = find_exhausted_limit(budget, used, cost)

    assert (found.name if found else None) == reached


def test_an_estimate_is_the_median_of_reported_usage() -> None:
    assert estimate_cost([]) == Cost()
    assert estimate_cost([{"tokens": 10}, {"tokens": 1_000_000}, {"tokens": 20}]) == Cost(tokens=20)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({}, Cost()),
        ({"tokens": 5, "input_tokens": 7}, Cost(tokens=5)),
        ({"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 90}, Cost(tokens=100)),
        ({"total_cost_usd": 0.25}, Cost(usd=0.25)),
        ({"tokens": float("nan"), "usd": float("inf")}, Cost()),
        ({"tokens": -5, "usd": -1.0}, Cost()),
        ({"tokens": True, "usd": "much"}, Cost()),
    ],
)
def test_reported_usage_is_not_trusted(usage: dict[str, object], cost: Cost) -> None:
    assert Cost.from_usage(usage) == cost


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(status=RunStatus.SUCCEEDED, usage={"tokens": 70}), SpendAdjustment(ACCOUNT, 0, 20, 0.0)),
        (Outcome(status=RunStatus.FAILED), SpendAdjustment(ACCOUNT, 0, -50, 0.0)),
        (Outcome(status=RunStatus.INTERRUPTED), SpendAdjustment(ACCOUNT)),
        (Outcome(status=RunStatus.TIMED_OUT), SpendAdjustment(ACCOUNT)),
        (Outcome(status=RunStatus.CANCELLED, usage={"tokens": 30}), SpendAdjustment(ACCOUNT, 0, -20, 0.0)),
        (Outcome(status=RunStatus.SKIPPED), SpendAdjustment(ACCOUNT, -1, -50, 0.0)),
    ],
)
def test_the_completion_corrects_the_estimate(outcome: Outcome, expected: SpendAdjustment) -> None:
    assert compute_adjustment(Reservation(7, ACCOUNT, 50, 0.0), outcome) == expected


@given(st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)))
def test_a_day_lasts_until_the_next_one_opens(now: datetime) -> None:
    opens = next_reset_at(now, BERLIN)

    assert opens > now
    assert budget_date(opens, BERLIN) > budget_date(now, BERLIN)
    assert budget_date(opens - timedelta(microseconds=1), BERLIN) == budget_date(now, BERLIN)


def test_only_the_limits_that_are_set_are_checked() -> None:
    found = list_limits(Budget(runs_per_day=9), SpendTotals(runs=2, tokens=10**9), Cost())

    assert [(each.name, each.used, each.maximum) for each in found] == [("runs_per_day", 2, 9)]
