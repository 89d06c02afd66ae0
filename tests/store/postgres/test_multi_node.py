"""What holds between nodes: who may start what, who is dead, and when nobody was there."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.support.postgres_nodes import LEASE, ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.executor import ExecutorKind
from herdbeat.domain.remote_run import NewRemoteRun
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ClaimLost, Conflict
from herdbeat.scheduler.apply.apply import apply_fleet, require_same_fleet
from herdbeat.scheduler.complete import CompletionResult, complete_runs
from herdbeat.scheduler.membership import rescue_orphans
from herdbeat.store.base import FinishedRun, Transaction
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
DONE = Outcome(status=RunStatus.SUCCEEDED)
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _clock(database: PostgresLocation) -> None:
    set_clock(database, NOW)


def test_a_beat_is_claimed_by_one_node_only(database: PostgresLocation) -> None:
    with open_nodes(database, 3) as some:
        some[0].store.write_now(lambda tx: apply_fleet(tx, build_fleet(*(f"t{number}" for number in range(60))), NOW))
        for node in some:
            node.join(NOW)

        with ThreadPoolExecutor(3) as pool:
            rounds = [list(pool.map(lambda node: node.claim(NOW), some)) for _ in range(3)]

    labels = [each.label for claimed in rounds for turn in claimed for each in turn.claims]
    assert sorted(labels) == sorted(f"t{number}/default" for number in range(60))


def test_a_target_never_runs_more_than_its_limit_whichever_node_claims(database: PostgresLocation) -> None:
    fleet = build_fleet("worker", room=2)
    (one,) = fleet.schedules
    crowd = replace(fleet, schedules=tuple(replace(one, name=f"s{number}") for number in range(10)))
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, crowd, NOW))
        first.join(NOW)
        second.join(NOW)

        with ThreadPoolExecutor(2) as pool:
            turns = list(pool.map(lambda node: node.claim(NOW), (first, second)))

        assert sum(len(turn.claims) for turn in turns) == 2
        (ended, *_) = [each for turn in turns for each in turn.claims]
        second.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(ended.run_id, NOW, DONE)]))
        assert len(second.claim(NOW).claims) == 1


def test_the_limit_of_the_whole_fleet_holds_across_nodes(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("a", "b", "c", "d", "e"), NOW))
        first.join(NOW)
        second.join(NOW)

        turns = [first.claim(NOW, fleet_limit=3), second.claim(NOW, fleet_limit=3)]

        assert [len(turn.claims) for turn in turns] == [3, 0]
        assert turns[1].is_full


def test_nothing_is_claimed_before_the_database_says_that_it_is_time(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        node.join(NOW)
        node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), LATER))

        too_early = node.claim(LATER)  # by a clock that is ten seconds ahead
        set_clock(database, LATER)
        in_time = node.claim(LATER)

    assert too_early.claims == []
    assert len(in_time.claims) == 1


def test_a_node_that_was_declared_dead_changes_nothing(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (first, second):
        run_id = _claimed(first, second)
        set_clock(database, NOW + LEASE)

        swept = second.store.write_now(lambda tx: rescue_orphans(tx, NOW + LEASE, second.joined.node_id))

        assert [each.status for each in swept.completed] == [RunStatus.INTERRUPTED]
        with pytest.raises(ClaimLost, match="has lost its lease"):
            first.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(run_id, NOW, DONE)]))
        with pytest.raises(ClaimLost):
            first.store.write_now(lambda tx: tx.renew_node(first.joined.node_id, NOW))
    reader = open_reader(database)
    assert [run.status for run in reader.runs(Filter())] == [RunStatus.INTERRUPTED]
    assert [beat.outcome for beat in reader.beats(Filter())] == [BeatOutcome.RAN]
    reader.close()


def test_a_node_that_renews_keeps_what_it_holds(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (first, second):
        run_id = _claimed(first, second)
        for seconds in (20, 40, 60):
            now = NOW + timedelta(seconds=seconds)
            set_clock(database, now)
            for node in (first, second):
                node.store.write_now(lambda tx, node=node, now=now: tx.renew_node(node.joined.node_id, now))  # type: ignore[misc]

        swept = second.store.write_now(lambda tx: rescue_orphans(tx, now, second.joined.node_id))
        finished = first.store.write_now(lambda tx: complete_runs(tx, now, [FinishedRun(run_id, now, DONE)]))

    assert swept.completed == []
    assert [each.status for each in finished.completed] == [RunStatus.SUCCEEDED]


def _claimed(first: ManualNode, second: ManualNode) -> int:
    """A run of the first node, with the second one beside it, which has a longer lease."""
    first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
    first.join(NOW)
    (claimed,) = first.claim(NOW).claims
    set_clock(first.store.location, NOW + timedelta(seconds=5))
    second.join(NOW + timedelta(seconds=5))
    return claimed.run_id


def test_time_is_lost_only_when_no_node_held_a_lease(database: PostgresLocation) -> None:
    with open_nodes(database, 3) as (first, second, third):
        first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        first.join(NOW)
        set_clock(database, NOW + timedelta(seconds=20))
        joined = second.join(NOW + timedelta(seconds=20))
        assert joined.gaps == ()

        back = NOW + timedelta(minutes=5)  # both have died without a word
        set_clock(database, back)
        joined = third.join(back)

    assert [(gap.from_at, gap.until) for gap in joined.gaps] == [(NOW + timedelta(seconds=20) + LEASE, back)]


def test_a_node_without_workers_keeps_no_beat_from_being_missed(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (watcher, worker):
        worker.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        worker.join(NOW)
        worker.store.write_now(lambda tx: tx.leave_node(worker.joined.node_id, NOW))
        watcher.join(NOW, works=False)
        set_clock(database, LATER)

        joined = worker.join(LATER)

    assert [(gap.from_at, gap.until) for gap in joined.gaps] == [(NOW, LATER)]


def test_a_schedule_with_a_label_is_left_to_a_node_that_has_it(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as (plain, gpu):
        plain.store.write_now(lambda tx: apply_fleet(tx, build_fleet("train", runs_on="gpu"), NOW))
        plain.join(NOW)
        gpu.join(NOW, labels=("gpu",))

        turns = plain.claim(NOW), gpu.claim(NOW, labels=("gpu",))

    assert [len(turn.claims) for turn in turns] == [0, 1]
    assert turns[0].settled == []
    assert turns[0].wake_at is None, "a node that cannot run it must not be woken for it"


def test_a_beat_that_no_live_node_may_run_is_skipped_with_a_reason(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (plain,):
        plain.store.write_now(lambda tx: apply_fleet(tx, build_fleet("train", runs_on="gpu"), NOW))
        plain.join(NOW)

        turn = plain.claim(NOW)

    assert [beat.reason for _, beat in turn.settled] == ["target_offline"]


def test_a_store_holds_one_fleet_and_says_which(database: PostgresLocation) -> None:
    with open_nodes(database, 1) as (node,):
        with pytest.raises(Conflict, match="No fleet has been applied to this store yet"):
            node.store.write_now(lambda tx: require_same_fleet(tx, "ours"))
        node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("a", name="ours"), NOW))

        with pytest.raises(Conflict, match='holds the fleet "ours", not "theirs"'):
            node.store.write_now(lambda tx: apply_fleet(tx, build_fleet("b", name="theirs"), NOW))

        node.store.write_now(lambda tx: require_same_fleet(tx, "ours"))


def test_a_remote_run_of_a_node_that_has_stopped_is_adopted_by_one_of_two_nodes_that_look_together(
    database: PostgresLocation,
) -> None:
    set_clock(database, NOW)
    with open_nodes(database, 3) as (gone, first, second), ThreadPoolExecutor(1) as other:
        gone.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        for node in (gone, first, second):
            node.join(NOW)
        run_id = gone.claim(NOW).claims[0].run_id
        gone.store.write_now(lambda tx: submit_and_take(tx, run_id))
        gone.store.write_now(lambda tx: tx.leave_node(gone.joined.node_id, NOW))
        rescued: list[Future[CompletionResult]] = []

        def rescue_beside_another(tx: Transaction) -> CompletionResult:
            found = rescue_orphans(tx, NOW, first.joined.node_id)
            rescued.append(other.submit(second.store.write_now, rescue_by_second))
            wait_for_lock(database)
            return found

        def rescue_by_second(tx: Transaction) -> CompletionResult:
            return rescue_orphans(tx, NOW, second.joined.node_id)

        by_first = first.store.write_now(rescue_beside_another)
        by_second = rescued[0].result(DEADLINE_S)

    assert [each.run_id for each in by_first.adopted] == [run_id]
    assert by_second.adopted == []
    assert by_second.completed == []


def submit_and_take(tx: Transaction, run_id: int) -> None:
    new = NewRemoteRun(
        run_id=run_id,
        name=f"hb-abc-{run_id}-00000000",
        executor=ExecutorKind.RAY,
        start_by=NOW,
        job='{"lease": 300000000}',
        claim="{}",
    )
    tx.remote_add(new, NOW)
    assert tx.remote_take(run_id, "a" * 32, "machine", NOW + timedelta(minutes=5))


def wait_for_lock(database: PostgresLocation) -> None:
    """Return once a session waits for a lock of another one."""
    until = time.monotonic() + DEADLINE_S
    query = b"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(database.url, autocommit=True) as connection:
        while not (connection.execute(query).fetchone() or (0,))[0]:
            assert time.monotonic() < until, "nobody waits"
            time.sleep(0.02)
