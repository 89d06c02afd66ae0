"""The output and the working directory of runs, with real nodes on PostgreSQL, each in a folder of its own."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.postgres_fleet import PostgresFleet

from herdbeat.service.queries.logs import LogEntryKind, LogFeed, LogSelection
from herdbeat.store.location import PostgresLocation, open_reader

COMMANDS = """\
  - name: talker
    command: [sh, -c, 'echo one; until test -e FOLDER/go; do sleep 0.1; done; echo two']
    every: 1h
  - name: where
    instances: { max_concurrent: 4 }
    command: [pwd]
    working_directory: .
    schedules:
      a: { type: cron, cron: "* * * * * *" }
      b: { type: cron, cron: "* * * * * *" }
      c: { type: cron, cron: "* * * * * *" }
      d: { type: cron, cron: "* * * * * *" }
"""
LEASE = timedelta(seconds=60)
"""No node dies here, and none may seem to on a busy machine: its runs would be interrupted."""
WHERE = """\
SELECT text FROM run_log JOIN run ON run.id = run_id JOIN schedule ON schedule.id = run.schedule_id
  JOIN target ON target.id = schedule.target_id WHERE target.name = 'where'"""


@pytest.fixture
def fleet(tmp_path: Path, database: PostgresLocation) -> Iterator[PostgresFleet]:
    commands = COMMANDS.replace("FOLDER", str(tmp_path))
    fleet = PostgresFleet.create(tmp_path, database, commands, lease=LEASE)
    yield fleet
    fleet.end()


def test_a_log_can_be_followed_from_a_machine_without_a_node_while_the_run_is_going(
    fleet: PostgresFleet, tmp_path: Path
) -> None:
    received: list[str] = []
    fleet.start_all(1, 2)

    with closing(open_reader(fleet.place)) as reader:
        feed = LogFeed(reader, tmp_path / "nothing lies here", LogSelection(names=("talker",)))

        def has_received(*words: str) -> bool:
            received.extend(each.text for each in feed.poll(datetime.now(UTC)) if each.kind is LogEntryKind.OUT)
            return received == list(words)

        fleet.wait_until(lambda: has_received("one"), "what it says does not come")
        (tmp_path / "go").touch()
        fleet.wait_until(lambda: has_received("one", "two"), "its last words do not come")

    fleet.stop_all()
    fleet.check_against_oracle()


def test_a_relative_folder_is_that_of_the_node_that_runs_it(fleet: PostgresFleet, tmp_path: Path) -> None:
    homes = [f'"{tmp_path / name}\\n"' for name in ("node-1", "node-2")]
    fleet.start_all(1, 2)

    def are_both_seen() -> bool:
        outputs = [text for (text,) in fleet.ask(WHERE)]
        return all(any(home in each for each in outputs) for home in homes)

    fleet.wait_until(are_both_seen, "commands run in one folder only")
