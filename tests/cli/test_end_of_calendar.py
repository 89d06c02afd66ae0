"""A time at the end of the calendar in one row of the ledger: no screen of the fleet fails by it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

LAST_MICROS = 253_402_300_799_000_000  # 9999-12-31T23:59:59Z
FLEET = """\
version: 1
timezone: Asia/Tokyo
commands:
  - { name: good, command: ["true"], every: 1h }
  - { name: last, command: ["true"], at: "2099-12-31T23:59:59Z" }
  - { name: later, command: ["true"], every: 1h, starts_at: "2099-12-31T23:59:59Z" }
"""
SCREENS = ["list", "next", "status", "show last", "explain last", "explain later", "changes", "list --json"]


def herdbeat(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "herdbeat", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger as an earlier version has written it."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    assert herdbeat(folder, "apply").returncode == 0
    with closing(sqlite3.connect(folder / ".herdbeat" / "herdbeat.db")) as connection, connection:
        times = {"last": LAST_MICROS}
        connection.execute(
            "UPDATE schedule SET next_run_at = :last, next_due_at = :last, wake_at = :last WHERE next_run_at > 3e15",
            times,
        )
        for table, column in (("plan", "text"), ("schedule", "next_trace"), ("change", "after")):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, '2099-12-31', '9999-12-31')")
    return folder


@pytest.mark.parametrize("screen", SCREENS)
def test_one_row_at_the_end_of_the_calendar_breaks_no_screen(folder: Path, screen: str) -> None:
    """Once, `list`, `next`, `show` and `explain` of the whole fleet failed with an OverflowError."""
    result = herdbeat(folder, *screen.split())

    assert result.returncode == 0, result.stderr
    assert "error" not in result.stderr
