"""While a node of an older version runs, nothing is written that it would not respect."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.store.postgres.test_account_holds import NAMES, build_agents, pending_reasons, refuse
from tests.support.agent_reports import reach_limit
from tests.support.postgres_nodes import LEASE, ManualNode, open_nodes, set_clock

from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.planned_pause import PlannedPause
from herdbeat.domain.target import AgentSpec
from herdbeat.errors import Conflict
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.service.commands.base import PlanPause
from herdbeat.service.commands.dispatch import Environment
from herdbeat.service.commands.pauses import plan_pause
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import PostgresLocation

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _clock(database: PostgresLocation) -> None:
    set_clock(database, NOW)


def join_as_older(database: PostgresLocation, node: ManualNode, *, works: bool = True) -> None:
    """Join as the program of the schema before does, which writes no schema of its own into its row."""
    node.join(NOW, works=works)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE node SET schema = DEFAULT, version = '0.0.9' WHERE id = %s", [node.joined.node_id])


def plan(node: ManualNode) -> None:
    command = PlanPause(everything=True, from_at=NOW + HOUR, until=NOW + 2 * HOUR)
    node.store.write_now(lambda tx: plan_pause(tx, NOW, "human:you", command, Environment()))


def planned(node: ManualNode) -> list[PlannedPause]:
    return list(node.store.write_now(lambda tx: tx.planned_pauses(NOW)))


def test_a_planned_pause_is_refused_while_an_older_node_would_run_what_is_paused(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (new, old):
        new.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        new.join(NOW)
        join_as_older(database, old)

        with pytest.raises(Conflict, match=rf"Node {old.joined.node_id} on here \(0\.0\.9\) would not respect"):
            plan(new)
        assert planned(new) == []

        old.store.write_now(lambda tx: tx.leave_node(old.joined.node_id, NOW))
        plan(new)
        assert [pause.schedules for pause in planned(new)] == [len(NAMES)]


def test_a_target_on_an_engine_is_refused_while_an_older_node_would_run_it_itself(database: PostgresLocation) -> None:
    agents = build_agents()
    first = agents.targets[0]
    assert isinstance(first.spec, AgentSpec)
    on_ray = replace(first, spec=replace(first.spec, executor=ExecutorKind.RAY))
    remote = replace(agents, targets=(on_ray, *agents.targets[1:]))
    with open_nodes(database, 2) as (new, old):
        new.store.write_now(lambda tx: apply_fleet(tx, agents, NOW))
        new.join(NOW)
        join_as_older(database, old)

        with pytest.raises(
            Conflict, match=rf"Node {old.joined.node_id} on here \(0\.0\.9\) would not respect an executor:"
        ):
            new.store.write_now(lambda tx: apply_fleet(tx, remote, NOW))
        kept = new.store.write_now(lambda tx: tx.targets()[first.name][1].spec)
        old.store.write_now(lambda tx: tx.leave_node(old.joined.node_id, NOW))
        new.store.write_now(lambda tx: apply_fleet(tx, remote, NOW))
        changed = new.store.write_now(lambda tx: tx.targets()[first.name][1].spec)

    assert "ray" not in kept
    assert '"ray"' in changed


def test_a_node_that_is_dead_or_starts_nothing_does_not_stand_in_the_way(database: PostgresLocation) -> None:
    with open_nodes(database, 3) as (new, idle, dead):
        new.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        join_as_older(database, dead)
        set_clock(database, NOW + LEASE)
        new.join(NOW + LEASE)
        join_as_older(database, idle, works=False)

        plan(new)

        assert len(planned(new)) == 1


def test_no_account_is_held_while_an_older_node_would_use_it_all_the_same(database: PostgresLocation) -> None:
    """The beat that was refused waits by its own time; the others of the account are not said to wait."""
    with open_nodes(database, 2) as (new, old):
        new.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        new.join(NOW)
        join_as_older(database, old)
        (refused,) = new.claim(NOW, room=1).claims

        done = [FinishedRun(refused.run_id, NOW, reach_limit(NOW + HOUR))]
        result = new.store.write_now(lambda tx: complete_runs(tx, NOW, done))

        assert new.store.write_now(lambda tx: tx.hold_list_open()) == []
        assert (result.new_holds, [unheld.hold.until for unheld in result.unheld]) == ([], [NOW + HOUR])
        assert result.unheld[0].older_nodes == f"Node {old.joined.node_id} on here (0.0.9)"
        assert pending_reasons(database) == ["rate_limited"]
        others = {claim.label for claim in [*old.claim(NOW, room=2).claims, *new.claim(NOW).claims]}
        assert others == {f"{name}/default" for name in NAMES} - {refused.label}


def test_a_refused_beat_runs_again_at_the_reset_without_a_hold(database: PostgresLocation) -> None:
    with open_nodes(database, 3) as (new, old, later):
        new.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        new.join(NOW)
        join_as_older(database, old)
        (refused,) = new.claim(NOW, room=1).claims
        refuse(new, [refused], NOW + HOUR)
        new.claim(NOW)
        set_clock(database, NOW + HOUR)
        later.join(NOW + HOUR)

        again = {claim.label for claim in later.claim(NOW + HOUR).claims}

    assert refused.label in again


def test_holds_come_back_when_the_last_older_node_is_gone(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (new, old):
        new.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        new.join(NOW)
        join_as_older(database, old)
        first, second = new.claim(NOW, room=2).claims
        refuse(new, [first], NOW + HOUR)
        old.store.write_now(lambda tx: tx.leave_node(old.joined.node_id, NOW))

        refuse(new, [second], NOW + HOUR)

        assert [hold.account for hold in new.store.write_now(lambda tx: tx.hold_list_open())] == ["team"]
