"""Nodes on one machine see the death of a neighbour at once: the lease is longer than these tests wait for anything."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from tests.support.fault_fleet import WAIT_TIMEOUT_S, wait_until
from tests.support.postgres_fleet import PostgresFleet

from herdbeat.platform import ProcessOrigin, read_own_origin, read_process
from herdbeat.runners.process.process_tree import identify
from herdbeat.store.location import PostgresLocation

LEASE = timedelta(hours=1)
"""Whoever waits for it waits longer than WAIT_TIMEOUT_S, and the test fails."""

CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")

NO_ORIGIN = (None, None, None)
"""What a node of an earlier version has recorded."""

WORKER = """\
  - name: worker
    command: [sh, -c, 'echo "$HERDBEAT_RUN $$" >> FOLDER/worker; exec sleep 600']
    every: 1s
"""

STUBBORN = """\
  - name: worker
    command: [sh, -c, 'trap "" TERM; echo "$HERDBEAT_RUN $$" >> FOLDER/worker; while :; do sleep 0.1; done']
    every: 1s
"""

JOIN = """
INSERT INTO node (host, pid, version, started_at, seen_at, lease_until, boot_id, namespace, process_start)
VALUES ('here', %s, 'test', herdbeat_now(), herdbeat_now(), herdbeat_now() + 3600000000, %s, %s, %s) RETURNING id"""


def create_fleet(folder: Path, database: PostgresLocation, more: str = "") -> PostgresFleet:
    return PostgresFleet.create(folder, database, more.replace("FOLDER", str(folder)), lease=LEASE)


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = create_fleet(tmp_path, database)
    yield fleet
    fleet.end()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives and is no node."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def own_origin() -> ProcessOrigin:
    origin = read_own_origin()
    assert origin is not None
    return origin


def add_nodes(fleet: PostgresFleet, *nodes: tuple[int, Sequence[object]]) -> list[int]:
    """Write what nodes with these pids and origins would have written, in one transaction; return their numbers."""
    with psycopg.connect(fleet.place.url) as connection:
        rows = [connection.execute(JOIN, [pid, *origin]).fetchone() for pid, origin in nodes]
        connection.execute("NOTIFY herdbeat")
    return [row[0] for row in rows if row is not None]


def living_nodes(fleet: PostgresFleet) -> set[int]:
    return {number for (number,) in fleet.ask("SELECT id FROM node WHERE stopped_at IS NULL")}


def wait_for_death(fleet: PostgresFleet, node: int) -> None:
    """The node was found dead long before the end of its lease."""
    fleet.wait_for_row(f"SELECT 1 FROM node WHERE id = {node} AND stopped_at = lease_until")


def starts_of_worker(folder: Path) -> list[list[str]]:
    path = folder / "worker"
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def wait_for_worker(folder: Path, starts: int) -> None:
    wait_until(lambda: len(starts_of_worker(folder)) >= starts, lambda: "the cut-off schedule waits for the lease")


@pytest.mark.parametrize("program", [WORKER, STUBBORN], ids=["one that ends", "one that ignores SIGTERM"])
def test_what_a_killed_node_was_running_starts_again_on_its_neighbour_at_once_and_never_beside_itself(
    tmp_path: Path, database: PostgresLocation, program: str
) -> None:
    fleet = create_fleet(tmp_path, database, program)
    try:
        fleet.start(1)
        wait_for_worker(tmp_path, 1)  # the only node, so the run is its own
        fleet.start(2)

        fleet.kill(1)
        wait_for_worker(tmp_path, 2)
        first = read_process(int(starts_of_worker(tmp_path)[0][1]))

        fleet.wait_for_starts(2)
        fleet.stop_all()
    finally:
        fleet.end()
    assert first is None or not first.is_running, "the program of the dead node was still there"
    fleet.check_against_oracle()
    assert fleet.ask("SELECT 1 FROM gap") == []
    assert "neighbour died" in fleet.log(2)


def test_one_of_three_nodes_is_rescued_once(fleet: PostgresFleet) -> None:
    fleet.start_all(1, 2, 3)
    for _ in range(3):
        fleet.wait_for_starts(2)
        fleet.kill(1)
        fleet.start(1)

    fleet.wait_for_starts(4)
    fleet.stop_all()
    fleet.check_against_oracle()
    assert living_nodes(fleet) == set()


def test_a_stopped_node_is_not_dead_before_its_lease_ends(fleet: PostgresFleet) -> None:
    fleet.start(1)
    fleet.start(2)
    fleet.start(3)
    stopped, killed = 1, 3
    fleet.send(1, signal.SIGSTOP)

    fleet.kill(3)
    wait_for_death(fleet, killed)  # its neighbours have looked at both

    assert stopped in living_nodes(fleet)
    fleet.send(1, signal.SIGCONT)
    fleet.wait_for_starts(2)
    fleet.stop_all()
    fleet.check_against_oracle()
    assert fleet.ask("SELECT count(*) FROM node") == [(3,)]  # nobody had to register again


def test_only_a_process_that_began_when_the_node_did_is_the_node(
    fleet: PostgresFleet, other: subprocess.Popen[bytes]
) -> None:
    fleet.start(1)
    own = own_origin()
    start = identify(other.pid).start
    alive, recycled = add_nodes(
        fleet, (other.pid, own._replace(start=start)), (other.pid, own._replace(start=start - 1))
    )

    wait_for_death(fleet, recycled)

    assert alive in living_nodes(fleet)
    fleet.stop_all()


def test_pids_of_other_machines_and_namespaces_say_nothing(fleet: PostgresFleet) -> None:
    fleet.start(1)
    dead = subprocess.Popen(["true"])
    dead.wait(WAIT_TIMEOUT_S)
    own = own_origin()._replace(start=1)
    elsewhere = [
        own._replace(boot_id="another boot"),
        own._replace(namespace=own.namespace.replace("pid:[", "pid:[9")),
        own._replace(namespace=own.namespace.replace("time:[", "time:[9")),
        own._replace(namespace=f"{own.namespace}9"),
    ]
    *others, neighbour = add_nodes(fleet, *((dead.pid, origin) for origin in (*elsewhere, own)))

    wait_for_death(fleet, neighbour)

    assert set(others) <= living_nodes(fleet)
    fleet.stop_all()


def test_a_node_that_recorded_no_origin_is_left_to_its_lease(fleet: PostgresFleet) -> None:
    fleet.start(1)
    dead = subprocess.Popen(["true"])
    dead.wait(WAIT_TIMEOUT_S)
    unknown, neighbour = add_nodes(
        fleet,
        (dead.pid, NO_ORIGIN),
        (dead.pid, own_origin()._replace(start=1)),
    )

    wait_for_death(fleet, neighbour)

    assert unknown in living_nodes(fleet)
    fleet.stop_all()


def test_the_pid_of_a_node_in_a_container_is_not_looked_for_outside(fleet: PostgresFleet) -> None:
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make namespaces")
    fleet.start(1, wrapper=CONTAINER)
    fleet.start(2)
    ((inside, pid),) = fleet.ask("SELECT id, pid FROM node ORDER BY id LIMIT 1")
    (neighbour,) = add_nodes(fleet, (os.getpid(), own_origin()._replace(start=1)))

    wait_for_death(fleet, neighbour)

    assert pid == 1  # outside, that is the first process of the machine, which began at another time
    assert inside in living_nodes(fleet)
    fleet.stop(2)
    fleet.kill(1)
