"""The gates as people see them: in the engine's order, with what is used of a budget and when it opens again."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.service.records import NOW, UTC_ZONE, plan, schedule

from herdbeat.domain.policies import ActiveHours, Bounds, Budget
from herdbeat.domain.spend import Account, Cost, Holder, Scope, Spent
from herdbeat.scheduler.budget import Purse, Wallet
from herdbeat.scheduler.gates import Gate as Name
from herdbeat.service.budgets import look_around
from herdbeat.service.explain import explain_next
from herdbeat.service.gates import Around, gate_object, gates_of
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd

SERVED = Around(is_served=True)
MIDNIGHT = datetime(2026, 3, 27, tzinfo=UTC)


def wallet(budget: Budget, spent: Spent, cost: Cost | None = None, scope: Scope = Scope.SCHEDULE) -> Wallet:
    return Wallet(cost or Cost(), (Purse(Account(Holder(scope, 1), "2026-03-26"), budget, spent),))


def test_a_schedule_without_policies_has_the_gates_that_everybody_has() -> None:
    found = gates_of(schedule(), SERVED, NOW)

    assert [gate.gate for gate in found] == ["scheduler", "enabled", "not_paused", "not_running", "capacity"]
    assert all(gate.ok for gate in found)


def test_the_gates_stand_in_the_order_in_which_the_engine_asks_them() -> None:
    everything = plan(
        active_hours=ActiveHours(opens=time(7), closes=time(22), zone=UTC_ZONE),
        bounds=Bounds(max_runs=3),
        budget=Budget(runs_per_day=3),
        runs_on="gpu",
        precheck=("./check.sh",),
    )
    around = Around(is_served=True, wallet=wallet(Budget(runs_per_day=3), Spent()))

    names = [gate.gate for gate in gates_of(schedule(plan=everything), around, NOW)]

    assert names[1:] == [gate for gate in Name if gate is not Name.WORK]


@pytest.mark.parametrize(
    ("budget", "spent", "cost", "ok", "text"),
    [
        (Budget(usd_per_day=5), Spent(), Cost(), True, "$0/$5"),
        (Budget(usd_per_day=5), Spent(usd=0.256), Cost(), True, "$0.26/$5"),
        (Budget(tokens_per_day=100_000), Spent(tokens=41_000), Cost(), True, "41,000/100,000 tokens"),
        (Budget(runs_per_day=3), Spent(runs=3), Cost(), False, "3/3 runs"),
        (Budget(usd_per_day=5, runs_per_day=3), Spent(runs=2, usd=1), Cost(), True, "2/3 runs"),  # the closest
        (Budget(usd_per_day=5, runs_per_day=3), Spent(runs=2, usd=4.9), Cost(usd=0.2), False, "$4.90/$5"),
        (Budget(runs_per_day=0), Spent(), Cost(), False, "0/0 runs"),
    ],
)
def test_a_budget_shows_what_is_used(budget: Budget, spent: Spent, cost: Cost, ok: bool, text: str) -> None:
    around = Around(is_served=True, wallet=wallet(budget, spent, cost))

    (gate,) = [each for each in gates_of(schedule(), around, NOW) if each.gate == "budget"]

    assert (gate.ok, gate.text, gate.opens_at) == (ok, text, None if ok else MIDNIGHT)


def test_of_several_budgets_the_one_that_is_used_up_is_shown_and_whose_it_is() -> None:
    own = wallet(Budget(usd_per_day=5), Spent(usd=4.9))
    target = wallet(Budget(runs_per_day=9), Spent(runs=3), scope=Scope.TARGET)
    fleet = wallet(Budget(runs_per_day=30), Spent(runs=30), scope=Scope.FLEET)
    shared = Wallet(Cost(), (*own.purses, *target.purses, *fleet.purses))

    (gate,) = [each for each in gates_of(schedule(), Around(is_served=True, wallet=shared), NOW) if not each.ok]

    assert (gate.gate, gate.text) == ("budget", "30/30 runs, shared by the whole fleet")


def test_a_used_up_budget_says_when_it_opens_again() -> None:
    around = Around(is_served=True, wallet=wallet(Budget(runs_per_day=3), Spent(runs=3)))

    answer = explain_next(schedule(), NOW, is_served=True, around=around)

    assert answer.text.endswith(
        "its budget is used up (3/3 runs); it opens again in 10h 56m, until then beats are skipped"
    )
    shut = next(gate for gate in answer.gates if not gate.ok)
    assert gate_object(shut) == {
        "gate": "budget",
        "ok": False,
        "used": 3,
        "max": 3,
        "text": "3/3 runs",
        "opens_at": "2026-03-27T00:00:00Z",
    }


def test_a_label_that_no_node_has_says_how_to_give_it() -> None:
    answer = explain_next(schedule(plan=plan(runs_on="gpu")), NOW, is_served=True)

    assert answer.text.endswith("so its beats are skipped; give it to one: herdbeat up --label gpu")


@pytest.mark.parametrize(
    ("chosen", "changes", "ok", "opens_at"),
    [
        ({"bounds": Bounds(max_runs=3)}, {"runs": 2}, True, None),
        ({"bounds": Bounds(max_runs=3)}, {"runs": 3}, False, None),
        ({"bounds": Bounds(ends_at=NOW)}, {}, True, None),
        ({"bounds": Bounds(ends_at=NOW - timedelta(seconds=1))}, {}, False, None),
        ({"bounds": Bounds(starts_at=NOW)}, {}, True, None),
        ({"bounds": Bounds(starts_at=MIDNIGHT)}, {}, False, MIDNIGHT),
    ],
)
def test_the_bounds(chosen: dict[str, Any], changes: dict[str, Any], ok: bool, opens_at: datetime | None) -> None:
    found = gates_of(schedule(plan=plan(**chosen), **changes), SERVED, NOW)

    (gate,) = [each for each in found if each.gate == "bounds"]
    assert (gate.ok, gate.opens_at) == (ok, opens_at)


@pytest.mark.parametrize(("closes", "ok"), [(time(22), True), (time(9), False)])
def test_active_hours_are_asked_of_this_moment(closes: time, ok: bool) -> None:
    hours = ActiveHours(opens=time(7), closes=closes, zone=UTC_ZONE)

    (gate,) = [
        each for each in gates_of(schedule(plan=plan(active_hours=hours)), SERVED, NOW) if each.gate == "active_hours"
    ]

    assert gate.ok is ok
    assert gate.opens_at == (None if ok else datetime(2026, 3, 27, 7, tzinfo=UTC))


async def test_the_ledger_knows_what_is_left(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW, labels=["gpu"]) as herd:
        budget = Budget(tokens_per_day=1_000, runs_per_day=9)
        herd.schedule("scribe", every="10m", budget=budget, runs_on="gpu", runner=ScriptedRunner(usage={"tokens": 70}))
        await herd.advance(timedelta(minutes=20))
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter(target="scribe"))

        around = look_around(reader, record, herd.now, is_served=True)

        account = Account(Holder(Scope.SCHEDULE, record.id), "2026-03-26")
        assert around.wallet == Wallet(Cost(tokens=70), (Purse(account, budget, Spent(3, 210, 0.0)),))
        assert around.labels == {"gpu"}
        reader.close()


async def test_the_ledger_knows_what_is_left_of_shared_budgets(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("scribe/one", every="10m")
        herd.schedule("scribe/two", every="10m")
        herd.schedule("poet", every="10m")
        herd.share(Budget(runs_per_day=9), "scribe")
        herd.share(Budget(runs_per_day=90))
        await herd.tick()
        reader = SqliteReader(herd.store.path)
        (one, two), (poet,) = reader.schedules(Filter(target="scribe")), reader.schedules(Filter(target="poet"))

        wallets = [look_around(reader, each, herd.now, is_served=True).wallet for each in (one, two, poet)]

        used = [[(purse.account.holder.scope, purse.spent.runs) for purse in each.purses] for each in wallets if each]
        assert used == [[("fleet", 3), ("target", 2)], [("fleet", 3), ("target", 2)], [("fleet", 3)]]
        reader.close()


async def test_a_schedule_without_a_budget_is_not_asked_about(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("scribe", every="10m")
        await herd.tick()
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter(target="scribe"))

        assert look_around(reader, record, herd.now, is_served=True) == SERVED
        reader.close()
