"""PostgreSQL that responds but cannot work: read-only, full, or out of connections.

Nothing is lost, nothing starts twice, every command reports what is wrong, and everything recovers by itself.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres_fleet import PostgresFleet, make_herd_yaml

from herdbeat.errors import StoreUnavailable
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.store import PostgresStore

HERD = 20


@pytest.fixture
def fleet(tmp_path: Path, place: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = PostgresFleet.create(tmp_path, place, make_herd_yaml(HERD))
    yield fleet
    fleet.end()


@contextmanager
def read_only(fleet: PostgresFleet) -> Iterator[None]:
    """Make the server read-only, as before a failover, or like a replica."""
    _execute(fleet, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    yield
    _execute(fleet, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")


@contextmanager
def full(fleet: PostgresFleet) -> Iterator[None]:
    """Respond as a server does whose disk is full: rows can be updated in place, but not added."""
    error_text = 'could not extend file "base/5/16385": No space left on device'
    _execute(
        fleet,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{error_text}' USING ERRCODE = 'disk_full'; END $$",
        *(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {each} EXECUTE FUNCTION full_disk()"
            for each in ("beat", "run", "meta")
        ),
    )
    yield
    _execute(fleet, "DROP FUNCTION full_disk CASCADE")


@contextmanager
def out_of_connections(fleet: PostgresFleet) -> Iterator[None]:
    """Reject all connections and accept no new ones, except those of a superuser."""
    _execute(
        fleet,
        "ALTER ROLE herder CONNECTION LIMIT 0",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'herder'",
    )
    yield
    _execute(fleet, "ALTER ROLE herder CONNECTION LIMIT -1")


def test_a_read_only_server_delays_beats_and_loses_none(fleet: PostgresFleet) -> None:
    _start(fleet)

    with read_only(fleet):
        fleet.wait_for_log_text(1, "read-only")
        begun = len(fleet.starts())
        fleet.wait_for_log_text(2, "join failed")  # long enough for their leases to expire
        output = _herdbeat(fleet, "doctor")
        asked = _herdbeat(fleet, "pause", "pacer", "--yes")
        assert len(fleet.starts()) == begun, "something has started that could not be written down"

    _go_on_and_stop(fleet)
    assert "read-only transaction" in output
    assert "The server is read-only" in output
    assert "The server is read-only" in asked
    assert fleet.ask("SELECT DISTINCT reason FROM gap") == [("scheduler_down",)]


def test_a_full_server_delays_beats_and_loses_none(fleet: PostgresFleet) -> None:
    _start(fleet)

    with full(fleet):
        fleet.wait_for_log_text(1, "No space left on device")
        fleet.wait_for_log_text(2, "No space left on device", more=2)
        output = _herdbeat(fleet, "doctor")

    _go_on_and_stop(fleet)
    assert "No space left on device" in output, output
    assert "Free disk space on the server" in output
    assert fleet.ask("SELECT * FROM gap") == [], "the nodes could renew their leases all the time"


def test_a_server_without_free_connections_delays_beats_and_loses_none(fleet: PostgresFleet) -> None:
    _execute(fleet, "DROP ROLE IF EXISTS herder", "CREATE ROLE herder LOGIN")
    _execute(fleet, *(f"GRANT ALL ON ALL {each} IN SCHEMA public TO herder" for each in ("TABLES", "SEQUENCES")))
    _start(fleet, fleet.place.url.replace("user=postgres", "user=herder"))

    with out_of_connections(fleet):
        fleet.wait_for_log_text(1, "too many connections")
        fleet.wait_for_log_text(2, "join failed")
        output = _herdbeat(fleet, "doctor")

    _go_on_and_stop(fleet)
    assert "too many connections" in output, output
    assert "raise its max_connections" in output
    _execute(fleet, "DROP OWNED BY herder", "DROP ROLE herder")


def test_a_start_waits_for_a_table_that_another_session_has_locked(fleet: PostgresFleet) -> None:
    """It used to end with exit status 7 as soon as the server cancelled its first write."""
    with psycopg.connect(fleet.place.url) as other:
        other.execute("LOCK TABLE target_account IN ACCESS EXCLUSIVE MODE")
        fleet.begin(1)
        fleet.wait_for_log_text(1, "start waits for the ledger")
        other.rollback()

    fleet.wait_for_starts(HERD)
    fleet.stop_all()
    fleet.check_against_oracle()


def test_a_connection_to_a_server_that_became_read_only_is_closed(fleet: PostgresFleet) -> None:
    """A node used to keep it, and never connected to the server that had replaced it."""
    url = f"{fleet.place.url}&target_session_attrs=read-write"
    store = PostgresStore(PostgresLocation(url=url, state_dir=fleet.folder))
    store.open()

    with read_only(fleet):
        fleet.wait_until(lambda: "session is read-only" in _refusal(store), "it never looks for another server")

    fleet.wait_until(lambda: not _refusal(store), "it never comes back")
    assert store.write_now(lambda tx: tx.fleet_name()) == "several"
    store.close()


def _refusal(store: PostgresStore) -> str:
    """Return the error of a write: the server's own, or that of the failed search for another server."""
    try:
        store.write_now(lambda tx: tx.fleet_claim_name("several"))
    except StoreUnavailable as error:
        return error.message
    return ""


def _start(fleet: PostgresFleet, url: str = "") -> None:
    fleet.start_all(1, 2, url=url)
    fleet.wait_for_all_starts(HERD)


def _go_on_and_stop(fleet: PostgresFleet) -> None:
    fleet.wait_for_starts(HERD)
    fleet.stop_all()
    fleet.check_against_oracle()


def _execute(fleet: PostgresFleet, *orders: str) -> None:
    with psycopg.connect(fleet.place.url, autocommit=True) as connection:
        for each in orders:
            connection.execute(each.encode())


def _herdbeat(fleet: PostgresFleet, *arguments: str) -> str:
    """Return what a command prints on the machine of the first node, without wrapping.

    On a terminal lines wrap: with a longer name of its database, the doctor printed "too" on one line and "many
    connections" on the next.
    """
    program = "import sys; from herdbeat.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=fleet.folder / "node-1",
        env=os.environ | {"COLUMNS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
