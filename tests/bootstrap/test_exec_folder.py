"""The folder of `herdbeat exec`: what killed processes have left is removed, and nothing else."""

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.bootstrap.exec_folder import LEFTOVER_AGE, PREFIX, open_exec_folder

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LATER = NOW + 2 * LEFTOVER_AGE


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def leave(temporary: Path, name: str, age: timedelta = timedelta(0)) -> Path:
    """Make what a process has left that was killed so long before NOW."""
    folder = temporary / name
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "0001.jsonl").write_text("what an agent has said")
    changed_at = (NOW - age).timestamp()
    os.utime(folder, (changed_at, changed_at))
    return folder


def test_logs_of_killed_processes_stayed_on_the_machine_for_ever(temporary: Path) -> None:
    old = leave(temporary, f"{PREFIX}old", age=2 * LEFTOVER_AGE)
    young = leave(temporary, f"{PREFIX}young")
    foreign = leave(temporary, "other", age=2 * LEFTOVER_AGE)
    (temporary / f"{PREFIX}link").symlink_to(foreign)

    with open_exec_folder(NOW) as folder:
        assert folder.stat().st_mode & 0o077 == 0

    assert not old.exists()
    assert not folder.exists()
    assert (young.exists(), (foreign / "logs").exists()) == (True, True)


def test_the_folder_of_a_run_that_takes_long_is_kept(temporary: Path) -> None:
    with open_exec_folder(NOW) as folder:
        os.utime(folder, (NOW.timestamp(), NOW.timestamp()))

        with open_exec_folder(LATER) as second:
            assert second.parent == temporary

        assert folder.exists()
