"""Budgets that several schedules share: of a target, and of the whole fleet."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdbeat.domain.budget import FLEET_OWNER, BudgetDay, BudgetOwner, BudgetScope, SpendTotals
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Budget, Overlap
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.scheduler.apply.plan import FLEET_SUBJECT, BudgetEdit, diff_budgets
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sql_transaction import SqlTransaction
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
TODAY = "2026-03-02"
OVER = ("skipped", "budget_exceeded")


def spent(herd: SimulatedHerd, holder: BudgetOwner, day: str = TODAY) -> SpendTotals:
    account = BudgetDay(holder, day)
    return herd.store.write_now(lambda tx: tx.budget_get_usage([account]))[account]


def target_of(herd: SimulatedHerd, label: str) -> BudgetOwner:
    return BudgetOwner(BudgetScope.TARGET, herd.snapshot(label).target_id)


async def test_the_schedules_of_a_target_share_its_budget(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        herd.schedule("scribe/early", cron="0 * * * *")
        herd.schedule("scribe/late", cron="30 * * * *")
        herd.schedule("poet", cron="0 * * * *")
        herd.share(Budget(runs_per_day=3), "scribe")

        await herd.advance(3 * HOUR)

        assert [fate[:2] for fate in herd.outcomes("scribe/early")] == [("ran", ""), ("ran", ""), OVER]
        assert herd.outcomes("scribe/late") == [("ran", "", 1), (*OVER, 2)]
        assert herd.outcomes("poet") == [("ran", "", 1)] * 3
        assert spent(herd, target_of(herd, "scribe/late")) == SpendTotals(runs=3)


async def test_all_schedules_share_the_budget_of_the_fleet(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(usage={"tokens": 100})
        for label in ("one", "two/a", "two/b"):
            herd.schedule(label, cron="0 * * * *", runner=runner, max_concurrent=2)
        herd.share(Budget(tokens_per_day=500))

        await herd.advance(3 * HOUR)

        assert len(runner.runs) == 5
        assert spent(herd, FLEET_OWNER) == SpendTotals(5, 500, 0.0)
        assert sum(fate[:2] == OVER for label in ("one", "two/a", "two/b") for fate in herd.outcomes(label)) == 3


async def test_beats_that_start_at_the_same_moment_share_what_is_left(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        for number in range(20):
            herd.schedule(f"job-{number}", cron="0 10 * * *")
        herd.share(Budget(runs_per_day=7))

        await herd.advance(2 * MINUTE)

        fates = Counter(herd.outcomes(f"job-{number}")[0][:2] for number in range(20))
        assert fates == {("ran", ""): 7, OVER: 13}


async def test_every_budget_must_have_something_left(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe/own", every="10m", budget=Budget(runs_per_day=1))
        herd.schedule("scribe/free", every="10m")
        herd.share(Budget(runs_per_day=4), "scribe")
        herd.share(Budget(runs_per_day=9))

        await herd.advance(HOUR)

        assert herd.outcomes("scribe/own") == [("ran", "", 1), (*OVER, 6)]
        assert herd.outcomes("scribe/free") == [("ran", "", 1)] * 3 + [(*OVER, 4)]
        assert spent(herd, FLEET_OWNER) == SpendTotals(runs=4)


async def test_a_shared_budget_is_corrected_when_a_run_ends(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        usage = {"tokens": 70.0, "usd": 0.5}
        runner = ScriptedRunner(usage=usage)
        herd.schedule("scribe", every="10m", runner=runner)
        herd.share(Budget(usd_per_day=9), "scribe")
        herd.share(Budget(tokens_per_day=10_000))
        await herd.advance(10 * MINUTE)
        usage |= {"tokens": 10.0, "usd": 0.25}

        await herd.advance(10 * MINUTE)

        assert spent(herd, target_of(herd, "scribe")) == spent(herd, FLEET_OWNER) == SpendTotals(3, 150, 1.25)
        assert herd.store.write_now(lambda tx: tx.reservations([claim.run_id for claim in runner.runs])) == []


async def test_a_run_interrupted_by_a_crash_keeps_its_estimate_in_every_budget(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        held = ScriptedRunner(holds=True)
        herd.schedule("scribe", every="10m", runner=held)
        herd.share(Budget(runs_per_day=9), "scribe")
        herd.share(Budget(runs_per_day=9))
        await herd.tick()

        herd.store.write_now(lambda tx: register_node(tx, herd.now, NodeInfo(host="other", pid=2, version="test")))

        assert spent(herd, target_of(herd, "scribe")) == spent(herd, FLEET_OWNER) == SpendTotals(runs=1)
        assert herd.store.write_now(lambda tx: tx.reservations([claim.run_id for claim in held.runs])) == []


async def test_a_budget_removed_during_a_run_leaves_no_reservation(tmp_path: Path) -> None:
    """Once, the completion used the plan of that moment, and forgot what the claim had reserved under another."""
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True, usage={"tokens": 5})
        herd.schedule("scribe", every="10m", runner=runner, budget=Budget(runs_per_day=9))
        herd.share(Budget(runs_per_day=9))
        await herd.tick()
        herd.schedule("scribe", every="10m", runner=runner)
        herd.share(None)
        herd.snapshot("scribe")  # which applies it

        runner.let_go()
        await herd.settle()

        assert herd.store.write_now(lambda tx: tx.reservations([claim.run_id for claim in runner.runs])) == []
        assert spent(herd, FLEET_OWNER) == SpendTotals(1, 5, 0.0)


async def test_a_pending_beat_checks_the_shared_budget_when_a_slot_is_free(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("worker/busy", cron="0 10 * * *", runner=busy)
        herd.schedule("worker/next", cron="1 10 * * *")
        herd.schedule("worker/last", cron="2 10 * * *")
        herd.share(Budget(runs_per_day=2), "worker")
        await herd.advance(4 * MINUTE)
        assert herd.outcomes("worker/last") == [("pending", "at_capacity", 1)]

        busy.let_go()
        await herd.tick()

        assert herd.outcomes("worker/next") == [("ran", "", 1)]
        assert herd.outcomes("worker/last") == [(*OVER, 1)]


async def test_a_run_by_hand_may_exceed_a_shared_budget_and_is_counted(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="10m", runner=runner)
        herd.share(Budget(runs_per_day=1))
        await herd.tick()
        number = herd.snapshot("api").id

        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
        await herd.tick()

        assert len(runner.runs) == 2
        assert spent(herd, FLEET_OWNER).runs == 2


async def test_a_shared_day_is_that_of_the_schedule_that_runs(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN + 12 * HOUR) as herd:  # 22:00 UTC, 07:00 of the next day in Tokyo
        herd.schedule("west", cron="30 22 * * *")
        herd.schedule("east", cron="45 7 * * *", zone="Asia/Tokyo")
        herd.share(Budget(runs_per_day=1))

        await herd.advance(HOUR)

        assert herd.outcomes("west") == herd.outcomes("east") == [("ran", "", 1)]
        assert [spent(herd, FLEET_OWNER, day).runs for day in (TODAY, "2026-03-03")] == [1, 1]


async def test_a_fleet_without_shared_budgets_reads_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("own", every="10m", budget=Budget(runs_per_day=1))
        herd.snapshot("own")
        monkeypatch.delattr(SqlTransaction, "budgets")

        await herd.advance(20 * MINUTE)

        assert herd.outcomes("own") == [("ran", "", 1), (*OVER, 2)]


async def test_a_completion_reads_no_reservations_where_no_run_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("free", every="10m")
        monkeypatch.delattr(SqlTransaction, "reservations")

        await herd.advance(20 * MINUTE)

        assert herd.outcomes("free") == [("ran", "", 1)] * 3


async def test_an_edited_budget_counts_from_the_next_beat_on(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="10m")
        herd.share(Budget(runs_per_day=1), "api")
        await herd.advance(20 * MINUTE)

        herd.share(Budget(runs_per_day=2), "api")
        await herd.advance(20 * MINUTE)
        herd.share(None, "api")
        await herd.advance(10 * MINUTE)

        assert herd.outcomes("api") == [("ran", "", 1), (*OVER, 2), ("ran", "", 1), (*OVER, 1), ("ran", "", 1)]
        reader = SqliteReader(herd.store.path)
        edits = [change for change in reader.changes(Filter(limit=9)) if change.what == "edit"][::-1]
        assert [(each.subject, each.before, each.after) for each in edits] == [
            ("api", {"budget": {"runs_per_day": 1}}, {"budget": {"runs_per_day": 2}}),
            ("api", {"budget": {"runs_per_day": 2}}, {"budget": None}),
        ]
        reader.close()


def counted(own: int | None, target: int | None, fleet: int | None, instants: int) -> list[int]:
    """Count the runs naively: at each instant one after the other, while every budget has some left."""
    left = [[own, target, fleet], [target, fleet], [fleet]]
    used = {"own": 0, "target": 0, "fleet": 0}
    holders = [("own", "target", "fleet"), ("target", "fleet"), ("fleet",)]
    ran = [0, 0, 0]
    for _ in range(instants):
        for who in range(3):
            if all(most is None or used[name] < most for name, most in zip(holders[who], left[who], strict=True)):
                ran[who] += 1
                for name in holders[who]:
                    used[name] += 1
    return ran


@settings(max_examples=30, deadline=None)
@given(
    own=st.none() | st.integers(0, 5),
    target=st.none() | st.integers(0, 9),
    fleet=st.none() | st.integers(0, 13),
    holds=st.booleans(),
)
def test_a_naive_model_agrees_on_who_runs_how_often(
    tmp_path_factory: pytest.TempPathFactory, own: int | None, target: int | None, fleet: int | None, holds: bool
) -> None:
    labels = ("one/a", "one/b", "two/c")

    async def ran() -> list[int]:
        async with open_herd(tmp_path_factory.mktemp("shared"), TEN - MINUTE) as herd:
            runners = [ScriptedRunner(holds=holds) for _ in labels]
            for label, runner, limit in zip(labels, runners, (own, None, None), strict=True):
                budget, overlap = runs_a_day(limit), Overlap.ALLOW
                herd.schedule(
                    label, cron="*/5 * * * *", runner=runner, max_concurrent=99, budget=budget, overlap=overlap
                )
            herd.share(runs_a_day(target), "one")
            herd.share(runs_a_day(fleet))
            await herd.advance(16 * MINUTE)
            return [len(runner.runs) for runner in runners]

    assert asyncio.run(ran()) == counted(own, target, fleet, instants=4)


def runs_a_day(most: int | None) -> Budget | None:
    return None if most is None else Budget(runs_per_day=most)


def a_fleet(budget: Budget | None = None, **targets: Budget | None) -> Fleet:
    made = tuple(Target(name=name, spec=CallableSpec(call="a:b"), budget=each) for name, each in targets.items())
    zone = ZoneInfo("UTC")
    return Fleet(name="f", zone=zone, targets=made, schedules=(), store="", server=ServerSettings(), budget=budget)


@pytest.mark.parametrize("is_whole", [True, False])
def test_only_a_whole_fleet_removes_budgets_of_targets_it_lacks(is_whole: bool) -> None:
    stored = {BudgetOwner(BudgetScope.TARGET, 1): Budget(runs_per_day=1), FLEET_OWNER: Budget(runs_per_day=2)}

    edits = list(diff_budgets(a_fleet(kept=Budget(runs_per_day=5)), stored, {"gone": 1, "kept": 2}, is_whole=is_whole))

    added = BudgetEdit("kept", None, Budget(runs_per_day=5))
    gone = BudgetEdit("gone", Budget(runs_per_day=1), None)
    assert edits == ([gone, added, BudgetEdit(FLEET_SUBJECT, Budget(runs_per_day=2), None)] if is_whole else [added])
