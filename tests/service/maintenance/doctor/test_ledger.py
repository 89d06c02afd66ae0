"""What the doctor says of a ledger."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.beat import Gap, MissedReason
from herdbeat.service.maintenance.doctor import FindingLevel
from herdbeat.service.maintenance.doctor.ledger import check_ledger, check_logs_folder, check_node, check_state_dir
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import open_herd

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(path: Path, now: datetime = NOW) -> dict[str, tuple[FindingLevel, str]]:
    return {each.subject: (each.level, each.text) for each in check_ledger(path, FakeClock(now))}


def a_ledger(folder: Path) -> Path:
    store = SqliteStore(folder / "state" / "ledger.db")
    store.open()
    store.close()
    return store.path


def test_a_sound_ledger_is_reported_with_its_schema_and_size(tmp_path: Path) -> None:
    level, text = told(a_ledger(tmp_path))["store"]

    assert level is FindingLevel.OK
    assert "WAL, 0." in text
    assert ", schema " in text


def test_a_ledger_that_is_not_there_yet_is_no_problem(tmp_path: Path) -> None:
    found = told(tmp_path / "deep" / "down" / "ledger.db")

    assert [level for level, _ in found.values()] == [FindingLevel.OK]


def test_a_file_that_is_no_ledger_is_a_problem_with_its_mend(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"not a database at all" * 100)

    level, text = told(path)["store"]

    assert level is FindingLevel.PROBLEM
    assert "not a database" in text


def test_a_ledger_of_a_newer_version_is_a_problem(tmp_path: Path) -> None:
    path = a_ledger(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")

    level, text = told(path)["store"]

    assert (level, "newer version of herdbeat" in text) == (FindingLevel.PROBLEM, True)


def test_a_folder_that_others_may_write_into_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / ".herdbeat"
    folder.mkdir()
    folder.chmod(0o777)

    (found,) = check_state_dir(folder / "ledger.db")

    assert found.level is FindingLevel.PROBLEM
    assert f"chmod go-w {folder}" in found.fix


async def test_a_night_asleep_is_reported_with_the_beats_it_missed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW - 10 * HOUR) as herd:
        herd.schedule("hourly", cron="0 * * * *")
        await herd.tick()
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("hourly", cron="0 * * * *")
        await herd.tick()
        herd.store.write_now(lambda tx: tx.add_gap(Gap(from_at=NOW - HOUR, until=NOW, reason=MissedReason.SLEPT)))
        path = herd.store.path

    level, text = told(path)["sleep"]

    assert level is FindingLevel.WARNING
    assert "this machine was asleep once in 24 h" in text
    assert "beats missed" in text


async def test_a_schedule_in_quarantine_is_a_problem(tmp_path: Path) -> None:
    async with open_herd(tmp_path, NOW) as herd:
        herd.schedule("odd", every="1h")
        await herd.tick()
        path = herd.store.path
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schedule SET quarantine = 'it makes no sense'")
        connection.commit()

    level, text = told(path)["schedule"]

    assert (level, "it makes no sense" in text) == (FindingLevel.PROBLEM, True)


def test_the_report_says_whether_a_node_runs_the_fleet(tmp_path: Path) -> None:
    path = a_ledger(tmp_path)
    idle = next(check_node(path))
    with StateLock(path.parent):
        running = next(check_node(path))

    assert (idle.level, idle.fix) == (FindingLevel.WARNING, "herdbeat up")
    assert (running.level, "running (pid " in running.text) == (FindingLevel.OK, True)


def test_a_state_directory_that_is_a_file_is_a_finding_and_does_not_end_the_doctor(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")

    (found,) = check_state_dir(tmp_path / "state" / "ledger.db")

    assert found.level is FindingLevel.PROBLEM
    assert found.text.endswith("cannot be used as the state directory: Not a directory.")
    assert "Use a folder" in found.fix


def test_a_state_directory_of_another_user_is_a_finding_and_does_not_end_the_doctor(tmp_path: Path) -> None:
    path = a_ledger(tmp_path)
    path.parent.chmod(0o000)

    with an_ordinary_user():
        (found,) = check_state_dir(path)

    path.parent.chmod(0o700)
    assert found.level is FindingLevel.PROBLEM
    assert found.text.endswith("cannot be used as the state directory: Permission denied.")


def test_a_planted_link_that_takes_the_logs_away_is_a_finding(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    (ledger.parent / "logs").symlink_to(tmp_path)

    (found,) = check_logs_folder(ledger)

    assert "is a symbolic link" in found.text
    assert "the output of runs is not kept" in found.text
    assert found.fix.endswith(f"rm {ledger.parent / 'logs'}")


def test_a_folder_that_can_be_the_state_directory_is_not_spoken_of(tmp_path: Path) -> None:
    assert not list(check_state_dir(tmp_path / "not" / "yet" / "ledger.db"))
    assert not list(check_state_dir(a_ledger(tmp_path)))


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """To root no door is closed."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(was)
