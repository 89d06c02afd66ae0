"""What `python -m bench postgres` measures, and how it evaluates the figures. No test checks speed."""

from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from bench.__main__ import main
from bench.environments import MODULES, PACKAGES, PeerUnavailable
from bench.load.run_monitor import Percentiles
from bench.postgres import ONLY_BY_NAME, PARTS, change_latency, idle, lateness, scaling, server, throughput
from bench.postgres.ledger import insert_due_schedules, ledger
from bench.postgres.node_processes import running_nodes
from bench.subprocesses import PEERS
from tests.support.postgres_server import PostgresServer

from bench import environments
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter

CONTENDERS = {each.name: each for each in throughput.CONTENDERS}


def test_two_nodes_share_the_beats_and_each_reports_its_count(database: PostgresLocation, tmp_path: Path) -> None:
    with ledger(database.url, tmp_path) as store, running_nodes(database.url, tmp_path, 2, max_concurrent=5) as started:
        insert_due_schedules(store, 40)
        scaling.wait_for_beats(database.url, 40)
        reports = [node.done() for node in started]

    reader = open_reader(database)
    outcomes = [beat.outcome for beat in reader.beats(Filter(limit=100))]
    reader.close()
    assert outcomes == ["ran"] * 40
    assert sum(each["beats"] for each in reports) == 40


def test_a_node_stops_by_itself_after_the_given_number_of_runs(database: PostgresLocation, tmp_path: Path) -> None:
    with ledger(database.url, tmp_path) as store:
        insert_due_schedules(store, 20)

    with running_nodes(database.url, tmp_path, 1, until=20) as (node,):
        report = node.done()

    assert report["beats"] == 20
    assert report["seconds"] > 0
    assert report["lateness"]["count"] == 20


@pytest.mark.parametrize("without_notify", [False, True])
def test_every_kind_of_change_acts_on_another_node(database: PostgresLocation, *, without_notify: bool) -> None:
    latencies = change_latency.measure_changes(database.url, 1, without_notify=without_notify)

    assert {what: each.count for what, each in latencies.items()} == {"run": 1, "apply": 1, "resume": 1}
    assert all(each.longest > 0 for each in latencies.values())


def test_a_node_that_cannot_register_raises_at_once(tmp_path: Path) -> None:
    nowhere = f"postgresql:///nothing?host={tmp_path}"

    with pytest.raises(RuntimeError, match='never said "ready"'), running_nodes(nowhere, tmp_path, 1):
        pass


def test_a_copy_of_a_filled_database_has_its_rows(postgres: PostgresServer, tmp_path: Path) -> None:
    with server.fresh_database(postgres) as template_url:
        with ledger(template_url, tmp_path) as store:
            insert_due_schedules(store, 3)
        server.vacuum(template_url)

        with server.fresh_database(postgres, like=template_url) as copy, psycopg.connect(copy) as connection:
            names = connection.execute("SELECT name FROM target ORDER BY name").fetchall()

    assert names == [("due-0",), ("due-1",), ("due-2",)]


def test_the_conditions_name_the_version_and_the_durability(postgres: PostgresServer) -> None:
    output = str(server.describe_server(postgres))

    assert output.startswith("PostgreSQL ")
    assert "fsync off" in output  # as the tests' own server is
    assert "synchronous_commit on" in output


def test_the_server_of_a_measurement_has_the_default_durability() -> None:
    assert "fsync" not in server.DEFAULT_DURABILITY
    assert "synchronous_commit" not in server.DEFAULT_DURABILITY


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://bench@127.0.0.1:5432/one", "one"),
        ("postgresql:///two?host=%2Fvar%2Ftmp%2Fx&user=postgres", "two"),
        ("template1", "template1"),
    ],
)
def test_the_database_name_is_the_last_part_of_the_path(url: str, name: str) -> None:
    assert server.database_name(url) == name


def test_every_peer_has_a_script_and_an_environment() -> None:
    missing = [
        each.name
        for each in throughput.CONTENDERS
        if each.environment not in PACKAGES
        or not (PEERS / f"{each.script}.{'mjs' if each.environment in MODULES else 'py'}").exists()
    ]

    assert missing == []


def test_an_unavailable_peer_has_a_row_without_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {name: 100.0 for name in CONTENDERS if not name.startswith("DBOS")}

    results = throughput.evaluate(5_500, rates)

    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[-2:] for row in rows if row.startswith("DBOS")] == [["not", "measured"]]
    assert not any("DBOS" in each.what for each in results)
    assert all(each.is_met for each in results)


def test_a_missing_program_makes_a_peer_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))

    with pytest.raises(PeerUnavailable, match="huey could not be set up"):
        environments.peer_python("huey")


def test_the_goal_is_ten_times_the_rate_of_a_peer() -> None:
    name = "Procrastinate, 10 at a time"

    met, missed = (throughput.evaluate(rate, {name: 500.0})[0] for rate in (5_000, 4_999))

    assert (met.measured, met.goal, met.is_met) == ("10.0 x", "at least 10 x", True)
    assert not missed.is_met


@pytest.mark.parametrize(
    ("counts", "fairness"), [((10, 10), 1.0), ((5, 15), 0.5), ((0, 20), 0.0), ((4, 5, 6), 0.8), ((7,), 1.0)]
)
def test_fairness_is_the_smallest_part_of_an_equal_share(counts: tuple[int, ...], fairness: float) -> None:
    assert scaling.ScalingResult(rate=1, counts=counts).fairness == pytest.approx(fairness)


def test_several_nodes_that_are_slower_than_one_miss_the_goal() -> None:
    alone, pair = scaling.ScalingResult(rate=5_000, counts=(10,)), scaling.ScalingResult(rate=4_000, counts=(1, 9))

    results = scaling.evaluate({1: alone, 2: pair})

    assert [(each.measured, each.is_met) for each in results] == [("0.80 x", False), ("0.20 of an equal share", False)]


def test_the_median_round_counts() -> None:
    rounds = [scaling.ScalingResult(rate=rate, counts=(1,)) for rate in (3.0, 1.0, 2.0)]

    assert scaling.median_round(rounds).rate == 2.0


@pytest.mark.parametrize(("p50", "p99", "is_met"), [(5, 25, True), (5.1, 20, False), (1, 25.1, False)])
def test_both_percentiles_of_lateness_have_to_be_small(p50: float, p99: float, *, is_met: bool) -> None:
    (result,) = lateness.evaluate({"p50": p50, "p99": p99, "longest": 30, "count": 10})

    assert result.is_met is is_met


@pytest.mark.parametrize(("transactions", "is_met"), [(4.9, True), (5.0, False)])
def test_an_idle_node_stays_under_five_transactions_a_second(transactions: float, *, is_met: bool) -> None:
    (result,) = idle.evaluate(idle.Idle(transactions=transactions, core=0.01))

    assert result.is_met is is_met


def test_with_notify_the_median_counts_and_without_it_the_longest() -> None:
    with_notify = Percentiles.from_times([timedelta(milliseconds=each) for each in (10, 15, 90)])
    polling = Percentiles.from_times([timedelta(milliseconds=each) for each in (10, 15, 1_200)])

    results = change_latency.evaluate({"run": with_notify}, {"run": polling})

    assert [(each.measured, each.is_met) for each in results] == [
        ("median 15.0 ms", True),
        ("longest 1,200.0 ms", False),
    ]


def test_a_part_can_be_run_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["postgres.nothing"])

    output = capsys.readouterr().err
    assert status == 2
    assert [name for name in PARTS | ONLY_BY_NAME if f"postgres.{name}" not in output] == []
