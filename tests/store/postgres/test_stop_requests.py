"""A run that somebody elsewhere wants to end: the word reaches the node that has it, and nobody else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.command_bus import YOU, make_handle
from tests.support.postgres_nodes import ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.policies import Overlap
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.evaluate import REPLACED_BY_NEXT
from herdbeat.service.commands.base import CancelledWork, CancelRuns, CancelSchedules
from herdbeat.store.base import FinishedRun, StopRequest
from herdbeat.store.location import PostgresLocation, open_reader, open_shared_store
from herdbeat.triggers.cron import Cron

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TEN = timedelta(seconds=10)
DONE = Outcome(status=RunStatus.SUCCEEDED)


@pytest.fixture(autouse=True)
def _clock(database: PostgresLocation) -> None:
    set_clock(database, NOW)


def cancel(database: PostgresLocation, command: CancelRuns | CancelSchedules) -> tuple[CancelledWork, ...]:
    return make_handle(database, NOW).dispatcher.run(YOU, command).items


def asked_of(node: ManualNode) -> list[StopRequest]:
    shared = open_shared_store(node.store)
    assert shared is not None
    try:
        return list(shared.list_stop_requests(node.joined.node_id))
    finally:
        shared.close()


def forget(node: ManualNode, *runs: int) -> None:
    shared = open_shared_store(node.store)
    assert shared is not None
    shared.ack_stop_requests(node.joined.node_id, runs)
    shared.close()


def test_a_cancel_on_another_machine_reaches_the_node_that_has_the_run(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        first.join(NOW)
        second.join(NOW)
        (claim,) = first.claim(NOW).claims

        (item,) = cancel(database, CancelSchedules(schedules=(1,), reason="wrong day"))

        assert item.runs == (format_short_id(claim.run_id),)
        assert asked_of(first) == [StopRequest(claim.run_id, "cancelled by human:you: wrong day", force=False)]
        assert asked_of(second) == []


def test_one_run_is_requested_to_stop_and_a_second_request_forces_it(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("one", "other"), NOW))
        node.join(NOW)
        run_id = node.claim(NOW).claims[0].run_id

        for force in (False, True, False):
            cancel(database, CancelRuns(runs=(run_id,), force=force))

        assert asked_of(node) == [StopRequest(run_id, "cancelled by human:you", force=True)]


def test_stop_requests_that_were_handled_or_came_too_late_are_deleted(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("a", "b", "c"), NOW))
        node.join(NOW)
        taken, ended, waits = (each.run_id for each in node.claim(NOW).claims)
        cancel(database, CancelSchedules(schedules=(1, 2, 3)))
        node.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(ended, NOW, DONE)]))

        forget(node, taken)

        assert [each.run_id for each in asked_of(node)] == [waits]


def test_a_run_that_has_ended_is_not_requested_to_stop(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        node.join(NOW)
        (claim,) = node.claim(NOW).claims
        node.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(claim.run_id, NOW, DONE)]))

        (item,) = cancel(database, CancelRuns(runs=(claim.run_id,)))

        assert item.runs == ()
        assert asked_of(node) == []


def test_overlap_cancel_stops_the_run_that_another_node_has(database: PostgresLocation) -> None:
    fleet = build_fleet("worker", room=2)
    policies = replace(fleet.schedules[0].policies, overlap=Overlap.CANCEL)
    schedule = replace(fleet.schedules[0], trigger=Cron.parse("*/10 * * * * *", fleet.zone), policies=policies)
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, replace(fleet, schedules=(schedule,)), NOW))
        first.join(NOW)
        second.join(NOW)
        set_clock(database, NOW + TEN)
        (claim,) = first.claim(NOW + TEN).claims

        set_clock(database, NOW + 2 * TEN)
        turn = second.claim(NOW + 2 * TEN)

        assert turn.claims == []
        assert asked_of(first) == [StopRequest(claim.run_id, REPLACED_BY_NEXT, force=False)]


def test_stop_requests_for_dead_nodes_and_nodes_without_history_are_pruned(database: PostgresLocation) -> None:
    month = timedelta(days=30)
    with open_nodes(database, 3) as (early, late, last):
        early.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        early.join(NOW)
        early.store.write_now(lambda tx: tx.leave_node(early.joined.node_id, NOW))
        set_clock(database, NOW + MINUTE)
        late.join(NOW + MINUTE)
        (claim,) = late.claim(NOW + MINUTE).claims
        late.store.write_now(lambda tx: tx.run_request_stop("x", runs=[claim.run_id]))
        late.store.write_now(lambda tx: complete_runs(tx, NOW + MINUTE, [FinishedRun(claim.run_id, NOW, DONE)]))
        late.store.write_now(lambda tx: tx.leave_node(late.joined.node_id, NOW + 2 * MINUTE))
        set_clock(database, NOW + 2 * month)
        last.join(NOW + 2 * month)

        dropped = last.store.write_now(lambda tx: tx.drop_nodes(NOW + month))

        reader = open_reader(database)
        kept = [each.id for each in reader.nodes(10)]
        reader.close()
        assert dropped == 1
        assert kept == [last.joined.node_id, late.joined.node_id]  # the one has a run in the ledger
        assert asked_of(late) == []


def test_the_node_that_was_seen_last_is_never_pruned(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        node.join(NOW)
        node.store.write_now(lambda tx: tx.leave_node(node.joined.node_id, NOW))

        dropped = node.store.write_now(lambda tx: tx.drop_nodes(NOW + timedelta(days=365)))

        assert dropped == 0
        assert node.store.write_now(lambda tx: tx.node_get_last_seen()) == NOW
