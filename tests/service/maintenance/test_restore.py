"""A backup in the place of the ledger: nothing of it starts again, nothing old fires, nothing is lost."""

import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.policies import OnInterrupt, Overlap
from herdbeat.errors import Conflict, StoreUnavailable, UsageError
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.service.maintenance.ledger import inspect_ledger, restore_backup
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.backup import backup_ledger
from herdbeat.store.state_lock import StateLock
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.timestamps import to_micros

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def write_fleet(herd: SimulatedHerd, runner: ScriptedRunner | None = None) -> None:
    herd.schedule("busy/held", every="1h", runner=runner, on_interrupt=OnInterrupt.RETRY)
    herd.schedule("busy/waits", cron="*/10 * * * *")
    herd.schedule("hourly", cron="0 * * * *")
    herd.schedule("queue", cron="*/10 * * * *", overlap=Overlap.QUEUE_ALL, runner=runner)
    herd.schedule("soon", at="2026-03-02T11:30:00Z")
    herd.schedule("later", at="2026-03-20T11:30:00Z")


async def backup_of_a_busy_fleet(folder: Path) -> Path:
    """Made at 10:45, with one run going, beats waiting for room and for a run, one by hand, and a delay to come."""
    async with open_herd(folder, TEN) as herd:
        write_fleet(herd, ScriptedRunner(holds=True))
        await herd.advance(45 * MINUTE)
        number = herd.snapshot("busy/waits").id
        herd.store.write_now(
            lambda tx: enqueue_manual(tx, herd.now, number, origin="cli:ada", event_id="one", queue=True)
        )
        backup_ledger(herd.store.path, folder / "safe.db")
    return folder / "safe.db"


async def test_nothing_that_was_open_or_due_in_the_backup_starts(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    now = TEN + DAY

    restored = restore_backup(tmp_path / "herdbeat.db", file, now)

    async with open_herd(tmp_path, now) as herd:
        runner = ScriptedRunner()
        write_fleet(herd, runner)
        await herd.tick()
        assert runner.runs == []
        assert restored.interrupted == 2
        assert restored.missed > 2
        assert ("missed", "restored", 24) in herd.outcomes("hourly")
        assert herd.outcomes("busy/held") == [("ran", "", 1)]
        assert herd.outcomes("soon") == [("missed", "restored", 1)]
        assert herd.outcomes("later") == []
        assert herd.next_run("busy/held") == now + HOUR
        assert herd.next_run("hourly") == now + HOUR
        assert herd.next_run("later") == datetime(2026, 3, 20, 11, 30, tzinfo=UTC)


async def test_a_restored_ledger_is_well_and_accounts_for_every_instant(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    now = TEN + DAY + 7 * MINUTE

    restore_backup(tmp_path / "herdbeat.db", file, now)

    assert inspect_ledger(tmp_path / "herdbeat.db", now).is_healthy
    async with open_herd(tmp_path, now) as herd:
        write_fleet(herd)
        await herd.advance(3 * HOUR)
        reader = SqliteReader(herd.store.path)
        for label, expression in {"hourly": "0 * * * *", "queue": "*/10 * * * *", "busy/waits": "*/10 * * * *"}.items():
            by_hand = "UPDATE beat SET due_at = -1, last_due_at = -1 WHERE source = 'manual'"
            with sqlite3.connect(herd.store.path) as connection:
                connection.execute(by_hand)  # the oracle counts the clock's instants alone
            connection.close()
            check_cron(reader, CronExpectation(label, expression, TEN, herd.now))
            check_reasons(reader, label)
        check_runs(reader)
        reader.close()


async def test_a_restore_keeps_the_previous_ledger_beside_the_new_one(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    async with open_herd(tmp_path, TEN + HOUR) as herd:
        write_fleet(herd)
        herd.schedule("newcomer", every="5m")
        await herd.tick()

    first = restore_backup(tmp_path / "herdbeat.db", file, TEN + DAY)
    second = restore_backup(tmp_path / "herdbeat.db", file, TEN + DAY)

    assert first.kept == tmp_path / "herdbeat.db.20260303T100000Z"
    assert second.kept == tmp_path / "herdbeat.db.20260303T100000Z-1"
    names = sqlite3.connect(first.kept).execute("SELECT name FROM target").fetchall()
    assert ("newcomer",) in names
    assert not [name for name in os.listdir(tmp_path) if "restoring" in name]  # noqa: PTH208 - quick, and in a test


LAST_IDS = "SELECT (SELECT max(id) FROM beat), (SELECT max(id) FROM run), (SELECT max(id) FROM change)"


async def test_a_restored_ledger_gives_no_id_that_the_lost_one_has_given(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    async with open_herd(tmp_path, TEN + HOUR) as herd:
        write_fleet(herd)
        await herd.advance(HOUR)
    lost = sqlite3.connect(tmp_path / "herdbeat.db").execute(LAST_IDS).fetchone()

    restore_backup(tmp_path / "herdbeat.db", file, TEN + DAY)
    first_beat = "SELECT min(id) FROM beat WHERE created_at >= ?"
    created_at = to_micros(TEN + DAY)
    (beat_id,) = sqlite3.connect(tmp_path / "herdbeat.db").execute(first_beat, [created_at]).fetchone()
    async with open_herd(tmp_path, TEN + DAY) as herd:
        write_fleet(herd)
        herd.schedule("newcomer", every="5m")
        await herd.tick()
    restored = sqlite3.connect(tmp_path / "herdbeat.db").execute(LAST_IDS).fetchone()

    assert beat_id > lost[0]
    assert [new > old for old, new in zip(lost, restored, strict=True)] == [True, True, True]


async def test_a_backup_can_be_restored_where_there_is_no_ledger(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)

    restored = restore_backup(tmp_path / "elsewhere" / "herdbeat.db", file, TEN + DAY)

    assert restored.kept is None
    assert inspect_ledger(tmp_path / "elsewhere" / "herdbeat.db", TEN + DAY).is_healthy


async def test_while_a_fleet_runs_nothing_is_restored(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    before = (tmp_path / "herdbeat.db").read_bytes()

    with StateLock(tmp_path), pytest.raises(Conflict, match="already running"):
        restore_backup(tmp_path / "herdbeat.db", file, TEN + DAY)

    assert (tmp_path / "herdbeat.db").read_bytes() == before


async def test_an_unusable_backup_file_changes_nothing(tmp_path: Path) -> None:
    await backup_of_a_busy_fleet(tmp_path)
    before = (tmp_path / "herdbeat.db").read_bytes()
    (tmp_path / "garbage").write_bytes(b"no ledger" * 1_000)

    with pytest.raises(StoreUnavailable, match="cannot be restored"):
        restore_backup(tmp_path / "herdbeat.db", tmp_path / "garbage", TEN + DAY)
    with pytest.raises(UsageError, match="the ledger itself"):
        restore_backup(tmp_path / "herdbeat.db", tmp_path / "herdbeat.db", TEN + DAY)

    assert (tmp_path / "herdbeat.db").read_bytes() == before


async def test_a_damaged_ledger_can_be_replaced_and_is_kept_too(tmp_path: Path) -> None:
    file = await backup_of_a_busy_fleet(tmp_path)
    (tmp_path / "herdbeat.db").write_bytes(b"ruined" * 10_000)

    restored = restore_backup(tmp_path / "herdbeat.db", file, TEN + DAY)

    assert restored.kept is not None
    assert restored.kept.read_bytes().startswith(b"ruined")
    assert inspect_ledger(tmp_path / "herdbeat.db", TEN + DAY).is_healthy
