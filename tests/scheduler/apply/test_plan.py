"""A plan says what an apply will do: it is compared with an apply that is really done."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.schedule_builders import POLICIES, file_location, make_fleet, make_schedule, make_target

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CreatedVia
from herdbeat.domain.trigger import Trigger
from herdbeat.scheduler import control
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.apply.plan import ApplyPlan, plan_apply
from herdbeat.store.audit import SqliteAudit
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.triggers import Cron, Delay, Interval, Manual

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
LATER = NOW + timedelta(minutes=2)
ZONE = ZoneInfo("Europe/Berlin")
TRIGGERS: list[Trigger] = [
    Interval.parse("1m"),
    Interval.parse("1h"),
    Cron.parse("0 9 * * 1-5", ZONE),
    Cron.parse("*/5 * * * *", ZONE),
    Delay.parse("2026-03-27T09:00:00Z"),
    Manual(),
]


@contextmanager
def a_ledger(fleet: Fleet) -> Iterator[SqliteStore]:
    """Where that fleet was applied at NOW."""
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "ledger.db")
        store.open()
        try:
            store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
            yield store
        finally:
            store.close()


def plan_of(store: SqliteStore, fleet: Fleet, *, is_whole: bool = True) -> ApplyPlan:
    return SqliteAudit(store.path).read_transaction(
        lambda tx: plan_apply(tx, fleet, LATER, is_whole=is_whole, has_snapshots=True)
    )


def subjects(plan: ApplyPlan, what: ChangeKind) -> list[str]:
    return [each.subject for each in plan.items if each.what is what]


def schedules_of(picked: dict[str, int]) -> list[Schedule]:
    return [
        make_schedule(label, trigger=TRIGGERS[index % len(TRIGGERS)], origin=file_location(number))
        for number, (label, index) in enumerate(picked.items(), 1)
    ]


FLEETS = st.dictionaries(st.sampled_from(["a", "b", "b/x", "c", "d/y"]), st.integers(0, 5), min_size=1)


@settings(max_examples=60, deadline=None)
@given(before=FLEETS, after=FLEETS, is_whole=st.booleans())
def test_an_apply_does_exactly_what_its_plan_shows(
    before: dict[str, int], after: dict[str, int], is_whole: bool
) -> None:
    wanted = make_fleet(*schedules_of(after))
    with a_ledger(make_fleet(*schedules_of(before))) as store:
        plan = plan_of(store, wanted, is_whole=is_whole)

        done = store.write_now(lambda tx: apply_fleet(tx, wanted, LATER, is_whole=is_whole))
        after_it = plan_of(store, wanted, is_whole=is_whole)
        times = {each.label: each for each in store.write_now(lambda tx: list(tx.schedules(range(1, 20)).values()))}

    assert subjects(plan, ChangeKind.ADD) == done.added
    assert subjects(plan, ChangeKind.EDIT) == done.changed
    assert {each if "/" in each else f"{each}/default" for each in subjects(plan, ChangeKind.REMOVE)} == set(
        done.removed
    )
    assert after_it.items == ()
    for each in plan.items:
        if each.what is not ChangeKind.REMOVE:
            label = each.subject if "/" in each.subject else f"{each.subject}/default"
            assert times[label].next_run_at == each.next_after


def test_a_plan_for_a_ledger_that_does_not_exist_adds_everything() -> None:
    plan = plan_apply(None, make_fleet(make_schedule("a", "1h")), NOW)

    assert [(each.what, each.subject, each.next_after) for each in plan.items] == [(ChangeKind.ADD, "a", NOW)]
    assert (plan.runs_before, plan.runs_after) == (0, 24)


def test_a_plan_warns_of_hints_that_new_limits_change() -> None:
    with a_ledger(make_fleet(make_schedule("a", "1h"))) as store:
        wish = Hint(origin="human:you", every=timedelta(seconds=30), expires_at=LATER + timedelta(hours=1))
        store.write_now(lambda tx: control.give_hint(tx, NOW, 1, wish))
        limited = Limits(at_least=timedelta(minutes=2))
        slower = make_schedule("a", "1h")
        plan = plan_of(store, make_fleet(_with_limits(slower, limited)))

    assert plan.items[0].warnings == ("the active hint by human:you (every 30s) becomes 2m",)


def test_a_plan_names_a_target_whose_program_differs_and_leaves_its_schedules_out() -> None:
    schedule = make_schedule("a")
    with a_ledger(make_fleet(schedule)) as store:
        plan = plan_of(store, make_fleet(schedule, targets=(make_target("a", command="false"),)))

    assert [(each.what, each.subject, each.after) for each in plan.items] == [
        (ChangeKind.EDIT, "a", {"changed": ["command"]})
    ]


def test_a_plan_warns_before_a_file_takes_over_what_was_made_by_hand() -> None:
    with a_ledger(make_fleet(make_schedule("a", origin=CreatedVia.CLI))) as store:
        plan = plan_of(store, make_fleet(make_schedule("a", "1h", origin=file_location(9))))

    assert plan.items[0].warnings == ("created by cli; now defined by herdbeat.yaml:9:3",)


def test_a_file_that_says_the_same_as_was_made_by_hand_changes_nothing_and_owns_it_from_now_on() -> None:
    fleet = make_fleet(make_schedule("a", origin=file_location(9)))
    with a_ledger(make_fleet(make_schedule("a", origin=CreatedVia.API))) as store:
        plan = plan_of(store, fleet)
        store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
        again = plan_of(store, make_fleet())

    assert list(plan.items) == []
    assert [each.what for each in again.items] == [ChangeKind.REMOVE]  # what a file defines goes with it


def _with_limits(schedule: Schedule, limits: Limits) -> Schedule:
    return replace(schedule, policies=replace(POLICIES, limits=limits))
