"""PostgreSQL with a synchronous hot standby: the primary is killed, the standby takes over, the fleet goes on."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.support.fault_fleet import wait_until
from tests.support.postgres_fleet import PostgresFleet
from tests.support.postgres_server import NOBODY_UID, PostgresServer, new_database, private_server

from herdbeat.store.location import PostgresLocation

SYNCHRONOUS = {"synchronous_standby_names": "*"}


@contextmanager
def standby_of(primary: PostgresServer) -> Iterator[PostgresServer]:
    """Copy a server that is stopped, as a standby that streams from it, and start it."""
    assert primary.home is not None
    home = primary.home.with_name(f"{primary.home.name}-standby")
    shutil.copytree(primary.home, home, symlinks=True, ignore=shutil.ignore_patterns("log", ".s.*"))
    source = f"host={primary.home} user=postgres application_name=standby"
    (home / "data" / "standby.signal").touch()
    with (home / "data" / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.write(f"primary_conninfo = '{source}'\n")
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY_UID, NOBODY_UID, follow_symlinks=False)
    standby = replace(primary, url=f"postgresql:///postgres?host={quote(str(home), safe='')}&user=postgres", home=home)
    try:
        yield standby
    finally:
        with suppress(RuntimeError):  # it was never started
            standby.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


def is_streaming(primary: PostgresServer) -> bool:
    with psycopg.connect(primary.url, autocommit=True) as admin:
        return admin.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone() is not None


def kill(server: PostgresServer) -> None:
    """Kill the server without warning; its sessions end when they notice."""
    assert server.home is not None
    pid = int((server.home / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice_when_a_synchronous_standby_takes_over(
    tmp_path: Path,
) -> None:
    with private_server() as first, new_database(first) as url:
        first.stop()
        with standby_of(first) as standby:
            primary = replace(first, settings={**first.settings, **SYNCHRONOUS})
            standby.start()
            primary.start()
            wait_until(lambda: is_streaming(primary), lambda: "the standby does not stream")
            hosts = ",".join(quote(str(each.home), safe="") for each in (primary, standby))
            name = url.partition("?")[0].rpartition("/")[2]
            both = f"postgresql:///{name}?host={hosts}&user=postgres&target_session_attrs=read-write"
            location = PostgresLocation(url=both, state_dir=tmp_path)
            fleet = PostgresFleet.create(tmp_path, location, lease=timedelta(seconds=60))
            try:
                fleet.start_all(1, 2)
                fleet.wait_for_starts(8)

                kill(primary)
                standby.promote()
                fleet.wait_for_starts(8)

                fleet.stop_all()
                fleet.check_against_oracle()
                assert fleet.ask("SHOW data_directory") == [(f"{standby.home}/data",)]
                assert fleet.ask("SELECT count(*) FROM run WHERE status = 'succeeded'")[0][0] > 8
            finally:
                fleet.end()
                primary.start()  # as it was found
