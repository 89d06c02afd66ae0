"""A run is ended by the node that executes it, from wherever it is cancelled: real processes on PostgreSQL."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command_bus import YOU, make_handle
from tests.support.postgres_fleet import PostgresFleet

from herdbeat.service.commands.base import CancelSchedules
from herdbeat.store.location import PostgresLocation

LEASE = timedelta(seconds=60)
"""No node dies here, and none may seem to on a busy machine: its runs would be interrupted."""
SLEEPERS = """\
  - name: sleeper
    command: [sh, -c, 'echo $$ > FOLDER/sleeper; exec sleep 600']
    every: 1h
  - name: replaced
    instances: { max_concurrent: 4 }
    command: [sleep, "600"]
    schedules:
      a: { type: cron, cron: "* * * * * *", overlap: cancel }
      b: { type: cron, cron: "* * * * * *", overlap: cancel }
      c: { type: cron, cron: "* * * * * *", overlap: cancel }
      d: { type: cron, cron: "* * * * * *", overlap: cancel }
"""
OF_SLEEPER = (
    "FROM run JOIN beat ON beat.id = beat_id JOIN target ON target.id = target_id WHERE target.name = 'sleeper'"
)
REPLACED = """\
SELECT 1 FROM (SELECT FROM run WHERE status = 'cancelled' GROUP BY schedule_id HAVING count(*) >= 3) AS schedule
HAVING count(*) = 4"""
"""Each of the four has been replaced three times. Which node has a run, and which claims the next, is random."""


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresLocation) -> Iterator[PostgresFleet]:
    fleet = PostgresFleet.create(tmp_path, database, SLEEPERS.replace("FOLDER", str(tmp_path)), lease=LEASE)
    yield fleet
    fleet.end()


def is_going(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_cancel_from_a_machine_without_a_node_ends_the_program(fleet: PostgresFleet, tmp_path: Path) -> None:
    fleet.start_all(1, 2)
    fleet.wait_until((tmp_path / "sleeper").exists, "the sleeper never starts")
    pid = int((tmp_path / "sleeper").read_text(encoding="utf-8"))
    ((schedule,),) = fleet.ask(f"SELECT run.schedule_id {OF_SLEEPER} AND run.status = 'running'")

    asked_at = time.monotonic()
    handle = make_handle(fleet.place, datetime.now(UTC))
    handle.dispatcher.run(YOU, CancelSchedules(schedules=(schedule,), reason="enough"))
    fleet.wait_for_row(f"SELECT 1 {OF_SLEEPER} AND run.status = 'cancelled'")
    took = time.monotonic() - asked_at

    assert not is_going(pid)
    assert fleet.ask(f"SELECT run.error {OF_SLEEPER}") == [("cancelled by human:you: enough",)]
    assert fleet.ask("SELECT run_id FROM stop_request WHERE why LIKE 'cancelled%'") == []
    assert took < 300  # it was cancelled: otherwise it would run for ten minutes


def test_overlap_cancel_replaces_a_run_whichever_node_has_it(fleet: PostgresFleet) -> None:
    fleet.start_all(1, 2)

    fleet.wait_for_row(
        REPLACED
    )  # otherwise the schedule stops as soon as the node that claims is not the one that runs

    fleet.stop_all()
    fleet.check_against_oracle()
