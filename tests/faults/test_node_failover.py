"""Several nodes on one PostgreSQL: nothing is lost, nothing starts twice, whichever node dies or stops."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from tests.support.fault_fleet import LONG, wait_until
from tests.support.postgres_fleet import EXPIRED_NODES_QUERY, PostgresFleet

from herdbeat.store.location import PostgresLocation


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = PostgresFleet.create(tmp_path, database)
    yield fleet
    fleet.end()


def test_three_nodes_share_the_beats_and_none_starts_twice(fleet: PostgresFleet) -> None:
    fleet.start_all(1, 2, 3)

    fleet.wait_for_starts(4)

    fleet.stop_all()
    fleet.check_against_oracle()
    assert fleet.ask("SELECT 1 FROM gap") == []


def test_runs_of_a_killed_node_are_interrupted_by_another(fleet: PostgresFleet) -> None:
    fleet.start_all(1, 2)
    for _ in range(3):
        fleet.wait_for_starts(1)
        fleet.kill(1)
        fleet.start(1)

    fleet.wait_for_starts(3)
    fleet.stop_all()
    fleet.check_against_oracle()
    assert fleet.longest_recovery() < LONG


def is_going(pid: int) -> bool:
    """Return whether it runs; not so for a zombie whose suspended parent cannot reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


SLEEPER = """\
  - name: sleeper
    command: [sh, -c, 'echo $$ > FOLDER/sleeper; exec sleep 600']
    every: 1h
"""


def test_a_node_stopped_past_its_lease_changes_nothing_kills_its_children_and_registers_again(
    tmp_path: Path, database: PostgresLocation
) -> None:
    fleet = PostgresFleet.create(tmp_path, database, SLEEPER.replace("FOLDER", str(tmp_path)))
    try:
        fleet.start(1)
        fleet.wait_for_starts(2)  # the only node, so the sleeping run is its own
        fleet.start(2)
        child = int((tmp_path / "sleeper").read_text(encoding="utf-8"))
        fleet.send(1, signal.SIGSTOP)
        # Its guardian does it: the node itself is stopped, and no other node can reach its children.
        wait_until(lambda: not is_going(child), lambda: "its guardian should have ended it")
        fleet.wait_for_row(EXPIRED_NODES_QUERY)

        fleet.send(1, signal.SIGCONT)
        fleet.wait_for_starts(4)

        fleet.stop_all()
    finally:
        fleet.end()
    fleet.check_against_oracle()
    [(count,)] = fleet.ask("SELECT count(*) FROM node")
    assert count >= 3, "it has registered again"
    if count == 3:  # on a busy machine the other node may lose its lease, too, and then nobody had one
        assert fleet.ask("SELECT 1 FROM gap") == []
    ran = "SELECT status FROM run JOIN schedule ON schedule.id = schedule_id JOIN target ON target.id = target_id"
    assert fleet.ask(f"{ran} WHERE target.name = 'sleeper'") == [("interrupted",)]


def test_a_client_that_stops_in_the_middle_of_a_pipeline_does_not_stop_the_fleet(fleet: PostgresFleet) -> None:
    """Its locks stayed until it continued, and all other nodes claimed nothing."""
    fleet.start_all(1, 2)
    fleet.wait_for_starts(2)
    with (
        psycopg.connect(fleet.place.url, autocommit=True, application_name="herdbeat") as stopped,
        suppress(psycopg.OperationalError),
        stopped.pipeline(),
    ):
        stopped.execute("BEGIN")
        stopped.execute("UPDATE target SET running = running")
        stopped.execute("UPDATE schedule SET running = running")
        stopped.execute("SELECT 1").fetchone()

        fleet.wait_for_starts(4)
    fleet.stop_all()
    fleet.check_against_oracle()


def test_nodes_whose_clocks_are_minutes_apart_start_nothing_early_and_nothing_twice(fleet: PostgresFleet) -> None:
    for number, seconds in ((1, 0), (2, 90), (3, -600)):
        fleet.set_clock(number, seconds)
    fleet.start_all(1, 2, 3)

    fleet.wait_for_starts(3)
    fleet.set_clock(1, 3_600)  # a clock is set forward while its node runs
    fleet.wait_for_starts(3)

    fleet.stop_all()
    fleet.check_against_oracle()
    assert "this machine is ahead of the database" in fleet.log(2)
    assert "this machine is behind the database" in fleet.log(3)


CROWD = """\
  - name: crowd
    instances: { max_concurrent: 2 }
    command: [sh, -c, 'echo "+" >> FOLDER/places; sleep 0.05; echo "-" >> FOLDER/places']
    schedules:
"""


SHARES = "SELECT count(*) FROM run GROUP BY node_id"


def most_at_once(places: Path) -> int:
    """Return how many of the crowd were active at the same time, by their own count."""
    active, most = 0, 0
    for line in places.read_text(encoding="utf-8").splitlines() if places.exists() else ():
        active += 1 if line == "+" else -1
        most = max(most, active)
    return most


def test_the_capacity_of_a_target_holds_across_nodes(tmp_path: Path, database: PostgresLocation) -> None:
    schedules = [f"      s{number}: {{ type: interval, interval: 1s }}\n" for number in range(40)]
    more = CROWD.replace("FOLDER", str(tmp_path)) + "".join(schedules)
    # On a busy machine a node would lose a short lease, and share the work under one more id.
    fleet = PostgresFleet.create(tmp_path, database, more, lease=timedelta(seconds=30))
    places = tmp_path / "places"
    try:
        fleet.start_all(1, 2, 3)
        fleet.wait_for_starts(6)
        wait_until(lambda: most_at_once(places) >= 2, lambda: "two of them never run at once")
        wait_until(lambda: len(fleet.ask(SHARES)) == 3, lambda: f"a node has starved: {fleet.ask(SHARES)}")
        fleet.stop_all()
    finally:
        fleet.end()

    assert most_at_once(places) == 2
    assert len(fleet.ask(SHARES)) == 3
    fleet.check_against_oracle()


def test_a_lost_notification_delays_by_at_most_one_poll(fleet: PostgresFleet) -> None:
    fleet.start(1)
    fleet.wait_for_starts(2)
    end_listeners = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    )
    assert fleet.ask(end_listeners)

    fleet.wait_for_starts(4)

    fleet.stop(1)
    fleet.check_against_oracle()
