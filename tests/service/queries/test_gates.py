"""The gates as people see them: in the engine's order, with what is used of a budget and when it opens again."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.record_builders import NOW, UTC_ZONE, make_schedule_record, make_schedule_spec

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Cost, SpendTotals
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.policies import ActiveHours, Bounds, Budget
from herdbeat.scheduler.admission import AdmissionGate as Name
from herdbeat.scheduler.budgets import BudgetUsage, ScheduleBudgets
from herdbeat.service.queries.explain import explain_next
from herdbeat.service.queries.gates import GateContext, describe_closed, evaluate_gates, load_gate_context
from herdbeat.service.serialize import serialize_gate
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd

SERVED = GateContext(has_live_node=True)
MIDNIGHT = datetime(2026, 3, 27, tzinfo=UTC)


def wallet(
    budget: Budget, spent: SpendTotals, cost: Cost | None = None, scope: BudgetScope = BudgetScope.SCHEDULE
) -> ScheduleBudgets:
    return ScheduleBudgets(
        cost or Cost(), (BudgetUsage(BudgetDay(BudgetOwner(scope, 1), "2026-03-26"), budget, spent),)
    )


def test_a_schedule_without_policies_has_the_common_gates() -> None:
    found = evaluate_gates(make_schedule_record(), SERVED, NOW)

    assert [gate.gate for gate in found] == ["scheduler", "enabled", "not_paused", "not_running", "capacity"]
    assert all(gate.ok for gate in found)


def test_the_gates_come_in_the_order_in_which_the_engine_checks_them() -> None:
    everything = make_schedule_spec(
        active_hours=ActiveHours(opens=time(7), closes=time(22), zone=UTC_ZONE),
        bounds=Bounds(max_runs=3),
        budget=Budget(runs_per_day=3),
        runs_on="gpu",
        precheck=("./check.sh",),
    )
    hold = AccountHold(account="team", began_at=NOW, until=NOW + timedelta(hours=1), run_id=7)
    budgets = wallet(Budget(runs_per_day=3), SpendTotals())
    context = GateContext(has_live_node=True, budgets=budgets, account_hold=hold)

    names = [gate.gate for gate in evaluate_gates(make_schedule_record(plan=everything), context, NOW)]

    assert names[1:] == [gate for gate in Name if gate is not Name.WORK]


def test_a_held_account_is_a_closed_gate_that_names_the_run_and_the_reset() -> None:
    hold = AccountHold(account="team", model="opus", began_at=NOW, until=NOW + timedelta(hours=1), run_id=7)
    context = GateContext(has_live_node=True, account_hold=hold)

    gates = evaluate_gates(make_schedule_record(), context, NOW)

    (gate,) = [gate for gate in gates if gate.gate == "account"]
    assert (gate.ok, gate.opens_at) == (False, NOW + timedelta(hours=1))
    assert gate.text == f"team (opus), usage limit reached by run {format_short_id(7)}"
    assert list(describe_closed(gates, NOW)) == [f"its account is held: {gate.text}, opens in 1h"]


@pytest.mark.parametrize(
    ("budget", "spent", "cost", "ok", "text"),
    [
        (Budget(usd_per_day=5), SpendTotals(), Cost(), True, "$0/$5"),
        (Budget(usd_per_day=5), SpendTotals(usd=0.256), Cost(), True, "$0.26/$5"),
        (Budget(tokens_per_day=100_000), SpendTotals(tokens=41_000), Cost(), True, "41,000/100,000 tokens"),
        (Budget(runs_per_day=3), SpendTotals(runs=3), Cost(), False, "3/3 runs"),
        (Budget(usd_per_day=5, runs_per_day=3), SpendTotals(runs=2, usd=1), Cost(), True, "2/3 runs"),  # the closest
        (
            Budget(usd_per_day=5, runs_per_day=3),
            SpendTotals(runs=2, usd=4.9),
            Cost(usd=0.2),
            False,
            "$4.90/$5, a run takes about $0.20",
        ),
        (Budget(runs_per_day=0), SpendTotals(), Cost(), False, "0/0 runs"),
    ],
)
def test_a_budget_shows_what_is_used(budget: Budget, spent: SpendTotals, cost: Cost, ok: bool, text: str) -> None:
    context = GateContext(has_live_node=True, budgets=wallet(budget, spent, cost))

    (gate,) = [each for each in evaluate_gates(make_schedule_record(), context, NOW) if each.gate == "budget"]

    assert (gate.ok, gate.text, gate.opens_at) == (ok, text, None if ok else MIDNIGHT)


def test_of_several_budgets_the_one_that_is_used_up_is_shown_and_whose_it_is() -> None:
    own = wallet(Budget(usd_per_day=5), SpendTotals(usd=4.9))
    target = wallet(Budget(runs_per_day=9), SpendTotals(runs=3), scope=BudgetScope.TARGET)
    fleet = wallet(Budget(runs_per_day=30), SpendTotals(runs=30), scope=BudgetScope.FLEET)
    shared = ScheduleBudgets(Cost(), (*own.budget_usages, *target.budget_usages, *fleet.budget_usages))

    (gate,) = [
        each
        for each in evaluate_gates(make_schedule_record(), GateContext(has_live_node=True, budgets=shared), NOW)
        if not each.ok
    ]

    assert (gate.gate, gate.text) == ("budget", "30/30 runs, shared by the whole fleet")


def test_a_budget_with_too_little_left_does_not_say_that_it_is_used_up() -> None:
    budgets = wallet(Budget(usd_per_day=5), SpendTotals(usd=4.5), Cost(usd=0.75))
    context = GateContext(has_live_node=True, budgets=budgets)

    answer = explain_next(make_schedule_record(), NOW, has_live_node=True, context=context)

    assert "its budget has no room for one more run ($4.50/$5, a run takes about $0.75)" in answer.text


def test_a_used_up_budget_says_when_it_opens_again() -> None:
    context = GateContext(has_live_node=True, budgets=wallet(Budget(runs_per_day=3), SpendTotals(runs=3)))

    answer = explain_next(make_schedule_record(), NOW, has_live_node=True, context=context)

    assert answer.text.endswith("its budget is used up (3/3 runs); beats are skipped for another 10h 56m")
    shut = next(gate for gate in answer.gates if not gate.ok)
    assert serialize_gate(shut) == {
        "gate": "budget",
        "ok": False,
        "used": 3,
        "max": 3,
        "text": "3/3 runs",
        "opens_at": "2026-03-27T00:00:00Z",
    }


def test_a_label_that_no_node_has_says_how_to_give_it() -> None:
    answer = explain_next(make_schedule_record(plan=make_schedule_spec(runs_on="gpu")), NOW, has_live_node=True)

    assert answer.text.endswith("and its beats are skipped; start one: herdbeat up --label gpu")


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
def test_the_bounds_gate_checks_start_end_and_number_of_runs(
    chosen: dict[str, Any], changes: dict[str, Any], ok: bool, opens_at: datetime | None
) -> None:
    found = evaluate_gates(make_schedule_record(plan=make_schedule_spec(**chosen), **changes), SERVED, NOW)

    (gate,) = [each for each in found if each.gate == "bounds"]
    assert (gate.ok, gate.opens_at) == (ok, opens_at)


@pytest.mark.parametrize(("closes", "ok"), [(time(22), True), (time(9), False)])
def test_active_hours_are_checked_at_this_moment(closes: time, ok: bool) -> None:
    hours = ActiveHours(opens=time(7), closes=closes, zone=UTC_ZONE)

    (gate,) = [
        each
        for each in evaluate_gates(make_schedule_record(plan=make_schedule_spec(active_hours=hours)), SERVED, NOW)
        if each.gate == "active_hours"
    ]

    assert gate.ok is ok
    assert gate.opens_at == (None if ok else datetime(2026, 3, 27, 7, tzinfo=UTC))


async def test_the_remaining_budget_is_read_from_the_ledger(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW, labels=["gpu"]) as herd:
        budget = Budget(tokens_per_day=1_000, runs_per_day=9)
        herd.schedule("scribe", every="10m", budget=budget, runs_on="gpu", runner=ScriptedRunner(usage={"tokens": 70}))
        await herd.advance(timedelta(minutes=20))
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter(target="scribe"))

        context = load_gate_context(reader, record, herd.now, has_live_node=True)

        account = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, record.id), "2026-03-26")
        assert context.budgets == ScheduleBudgets(
            Cost(tokens=70), (BudgetUsage(account, budget, SpendTotals(3, 210, 0.0)),)
        )
        assert context.labels == {"gpu"}
        reader.close()


async def test_the_remaining_shared_budget_is_read_from_the_ledger(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("scribe/one", every="10m")
        herd.schedule("scribe/two", every="10m")
        herd.schedule("poet", every="10m")
        herd.share(Budget(runs_per_day=9), "scribe")
        herd.share(Budget(runs_per_day=90))
        await herd.tick()
        reader = SqliteReader(herd.store.path)
        (one, two), (poet,) = reader.schedules(Filter(target="scribe")), reader.schedules(Filter(target="poet"))

        wallets = [load_gate_context(reader, each, herd.now, has_live_node=True).budgets for each in (one, two, poet)]

        used = [
            [(purse.account.holder.scope, purse.spent.runs) for purse in each.budget_usages] for each in wallets if each
        ]
        assert used == [[("fleet", 3), ("target", 2)], [("fleet", 3), ("target", 2)], [("fleet", 3)]]
        reader.close()


async def test_a_schedule_without_a_budget_has_none_in_its_gate_context(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("scribe", every="10m")
        await herd.tick()
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter(target="scribe"))

        assert load_gate_context(reader, record, herd.now, has_live_node=True) == SERVED
        reader.close()
