"""The `db` commands: their output, their refusals, and their exit status."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fault_fleet import FaultFleet
from tests.support.postgres_server import PostgresServer, new_database

from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import open_herd

FLEET = """\
version: 1
fleet: { name: barn }
retention: { age: 1d, beats: 10000 }
commands:
  - { name: milk, command: ["true"], cron: "0 * * * *" }
"""


@pytest.fixture
def ledger(cli: CommandLine) -> Path:
    """Two days of hourly beats, the last one a moment ago."""
    (cli.folder / "herdbeat.yaml").write_text(FLEET)
    state = cli.folder / ".herdbeat"
    state.mkdir()
    asyncio.run(_history(state, cli.clock.now()))
    return state / "herdbeat.db"


async def _history(state: Path, now: datetime) -> None:
    async with open_herd(state, now - timedelta(days=2)) as herd:
        herd.schedule("milk", cron="0 * * * *")
        await herd.advance(timedelta(days=2))


def damage(ledger: Path, statement: str) -> None:
    connection = sqlite3.connect(ledger, isolation_level=None)
    connection.execute(statement)
    connection.close()


@pytest.mark.usefixtures("ledger")
def test_a_backup_without_a_name_is_named_after_the_time(cli: CommandLine) -> None:
    answer = cli.run("db", "backup")

    file = cli.folder / ".herdbeat" / "backups" / "herdbeat-20260326T130400Z.db"
    assert answer.status == 0
    assert answer.out.startswith(f"✓ {file}   ")
    assert file.exists()


@pytest.mark.usefixtures("ledger")
def test_a_backup_does_not_write_over_a_file_unless_forced(cli: CommandLine) -> None:
    (cli.folder / "mine").write_text("precious")

    refused = cli.run("db", "backup", "mine")
    forced = cli.run("db", "backup", "mine", "--force", "--json")

    assert refused.status == 1
    assert "--force" in refused.err
    assert forced.json() == {"file": str(cli.folder / "mine"), "bytes": (cli.folder / "mine").stat().st_size}


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("where", [".", "nowhere/file.db"])
def test_a_backup_into_a_missing_folder_is_an_error(cli: CommandLine, where: str) -> None:
    answer = cli.run("db", "backup", where)

    assert answer.status == 3
    assert "Give a file name in an existing folder." in answer.err


@pytest.mark.parametrize("command", [("db", "backup"), ("db", "prune"), ("db", "check")])
def test_without_a_ledger_there_is_nothing_to_maintain(cli: CommandLine, command: tuple[str, str]) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET)

    answer = cli.run(*command)

    assert answer.status == 3
    assert "herdbeat up" in answer.err


def test_a_restore_keeps_the_previous_ledger_and_names_its_path(cli: CommandLine, ledger: Path) -> None:
    cli.run("db", "backup", "safe.db")
    damage(ledger, "DELETE FROM beat")

    printed, again = cli.run("db", "restore", "safe.db"), cli.run("db", "restore", "safe.db", "--json")

    kept = f"{ledger}.20260326T130400Z"
    assert printed.status == 0
    assert f"kept as {kept}" in printed.out
    assert again.json() == {"ledger": str(ledger), "interrupted": 0, "missed": 0, "kept": f"{kept}-1"}
    assert cli.run("db", "check").status == 0


def test_a_restore_is_refused_while_the_fleet_runs(cli: CommandLine, ledger: Path) -> None:
    cli.run("db", "backup", "safe.db")

    with StateLock(ledger.parent):
        answer = cli.run("db", "restore", "safe.db")

    assert answer.status == 1
    assert "herdbeat down" in answer.err


@pytest.mark.usefixtures("ledger")
def test_a_restore_of_an_unusable_file_reports_the_problem(cli: CommandLine) -> None:
    (cli.folder / "garbage").write_bytes(b"no ledger" * 500)

    missing, garbage = cli.run("db", "restore", "nowhere"), cli.run("db", "restore", "garbage", "--json")

    assert missing.status == 3
    assert garbage.status == 7
    assert "not a database" in garbage.out + garbage.err


@pytest.mark.usefixtures("ledger")
def test_a_prune_previews_and_then_reports_what_it_removes(cli: CommandLine) -> None:
    before, pruned, after = (
        cli.run("db", "prune", "--dry-run"),
        cli.run("db", "prune", "--json"),
        cli.run("db", "prune", "--dry-run"),
    )

    assert before.out == "24 beats and 24 runs would be deleted; 1d and 10,000 beats per schedule are kept.\n"
    assert pruned.json() == {"dry_run": False, "beats": 24, "runs": 24, "logs": 0, "plans": 0, "hints": 0, "changes": 1}
    assert after.out.startswith("0 beats and 0 runs would be deleted")


@pytest.mark.usefixtures("ledger")
def test_a_check_of_an_intact_ledger_succeeds(cli: CommandLine) -> None:
    answer = cli.run("db", "check")

    assert answer.status == 0
    assert "no problems" in answer.out


def test_a_check_that_finds_a_problem_exits_with_six(cli: CommandLine, ledger: Path) -> None:
    damage(ledger, "UPDATE target SET running = 4")
    damage(ledger, "UPDATE schedule SET quarantine = 'no shadow at noon'")

    printed, listed = cli.run("db", "check"), cli.run("db", "check", "--json")

    assert printed.status == listed.status == 6
    assert "2 problems" in printed.out
    assert "no shadow at noon" in printed.out
    assert listed.json()["findings"] == [{"subject": "milk", "what": "recorded 4 active runs instead of 0"}]
    assert listed.json()["well"] is False


def test_every_command_reports_a_damaged_ledger_and_none_crashes(cli: CommandLine, ledger: Path) -> None:
    ledger.write_bytes(b"ruined" * 1_000)
    for journal in ("-wal", "-shm"):
        ledger.with_name(ledger.name + journal).unlink(missing_ok=True)

    answers = {name: cli.run("db", name) for name in ("check", "backup", "prune")}

    assert answers["check"].status == 6
    assert "herdbeat db restore" in answers["check"].err
    assert answers["backup"].status == answers["prune"].status == 7
    assert all("internal error" not in answer.err for answer in answers.values())


def test_a_running_fleet_is_backed_up_and_prunes_itself(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path)
    environ = {**os.environ, "NO_COLOR": "1"}
    up = subprocess.Popen(
        [sys.executable, "-m", "herdbeat", "up", "-q"], cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL
    )
    try:
        fleet.wait_for_starts(2)

        answers = [
            subprocess.run(
                [sys.executable, "-m", "herdbeat", "db", *words],
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            for words in (["backup", "safe.db"], ["prune", "--json"], ["check"], ["restore", "safe.db"])
        ]
        fleet.wait_for_starts(2)
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(20)

    assert [answer.returncode for answer in answers] == [0, 0, 0, 1], [answer.stderr for answer in answers]
    assert '"beats": 0' in answers[1].stdout
    store = SqliteStore(tmp_path / "safe.db")
    store.open()
    store.close()
    fleet.check_against_oracle()


def test_nodes_lists_live_nodes_and_on_request_those_that_left(cli: CommandLine, ledger: Path) -> None:
    assert cli.run("nodes").err == "No node is running. Start one with: herdbeat up\n"

    gone = cli.run("nodes", "--all")

    assert "left" in gone.out


def test_db_copy_requires_a_destination(cli: CommandLine, ledger: Path) -> None:
    refused = cli.run("db", "copy")

    assert refused.status == 2
    assert "HERDBEAT_STORE" in refused.err


def test_a_ledger_is_copied_into_a_database(cli: CommandLine, ledger: Path, postgres: PostgresServer) -> None:
    with new_database(postgres) as url:
        copied = cli.run("db", "copy", url)

    assert copied.status == 0
    assert "1 schedule" in copied.out
    assert "herdbeat up --apply" in copied.err
