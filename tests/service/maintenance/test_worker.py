"""The upkeep of a running fleet: it scans, prunes, says what it did, and never takes the fleet down."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from herdbeat.domain.fleet import Retention
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.events import Event, InconsistencyRepaired
from herdbeat.scheduler.timers import ClockReading
from herdbeat.service.maintenance.worker import PRUNE_INTERVAL, SCAN_INTERVAL, MaintenanceWorker, repair_inconsistencies
from herdbeat.store.audit import AUDIT_PAGE_ROWS, SqliteAudit
from herdbeat.store.base import Transaction
from herdbeat.testing.herd import SimulatedHerd, open_herd

T = TypeVar("T")
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
DAY = timedelta(days=1)


class Rounds:
    """A timer that jumps to the moment it is asked to wait for, so many times; then the test is over."""

    def __init__(self, now: datetime, rounds: int) -> None:
        self._now = now
        self._left = rounds

    def now(self) -> datetime:
        return self._now

    def read_clocks(self) -> ClockReading:
        return ClockReading(self._now, 0, 0)

    async def sleep_until(self, moment: datetime, woken: asyncio.Event) -> None:
        self._left -= 1
        if self._left == 0:
            raise asyncio.CancelledError
        self._now = moment


def forget_times(herd: SimulatedHerd) -> None:
    connection = sqlite3.connect(herd.store.path, isolation_level=None)
    connection.execute("UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL")
    connection.close()


async def serve(upkeep: MaintenanceWorker) -> None:
    with pytest.raises(asyncio.CancelledError):
        await upkeep.run()


async def test_an_inconsistency_found_at_the_start_is_repaired_and_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        forget_times(herd)
        told: list[Event] = []
        audit = SqliteAudit(herd.store.path)

        with caplog.at_level(logging.WARNING, logger="herdbeat.service"):
            await serve(MaintenanceWorker(herd.store, audit, Rounds(TEN, 3), Retention(), listener=told.append))

        assert told == [InconsistencyRepaired(TEN, "report/default", "its next run was missing")]
        assert [line.getMessage().split(" what=")[0] for line in caplog.records] == [
            "ledger repaired subject=report/default"
        ]
        assert herd.next_run("report") == TEN + timedelta(hours=1)


async def test_history_is_pruned_every_hour(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.advance(timedelta(hours=2))
        audit = SqliteAudit(herd.store.path)
        rounds = PRUNE_INTERVAL // SCAN_INTERVAL + 2

        await serve(MaintenanceWorker(herd.store, audit, Rounds(TEN, 1), Retention(age=DAY)))
        young = len(herd.beats("report"))
        await serve(
            MaintenanceWorker(herd.store, audit, Rounds(TEN + DAY - timedelta(minutes=5), rounds), Retention(age=DAY))
        )
        old = len(herd.beats("report"))

        assert young == 12
        assert old == 7  # pruned at 09:55 and at 10:55 of the next day


async def test_workspaces_are_pruned_every_hour(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        audit, rounds, pruned = SqliteAudit(herd.store.path), PRUNE_INTERVAL // SCAN_INTERVAL + 2, list[datetime]()

        def prune(now: datetime) -> int:
            pruned.append(now)
            return 1

        await serve(MaintenanceWorker(herd.store, audit, Rounds(TEN, rounds), Retention(), prune_workspaces=prune))

        assert pruned == [TEN, TEN + PRUNE_INTERVAL]


async def test_more_suspects_than_a_page_are_all_repaired(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        for number in range(AUDIT_PAGE_ROWS + 10):
            herd.schedule(f"t{number}", cron="0 * * * *")
        await herd.tick()
        forget_times(herd)

        found, go_on_after = await repair_inconsistencies(herd.store, SqliteAudit(herd.store.path), TEN)

        assert len(found) == AUDIT_PAGE_ROWS + 10
        assert go_on_after == 0
        assert await repair_inconsistencies(herd.store, SqliteAudit(herd.store.path), TEN) == ([], 0)


async def test_a_pass_is_bounded_and_the_next_one_continues_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdbeat.service.maintenance.worker.MAX_PAGES_PER_SCAN", 1)
    async with open_herd(tmp_path, TEN) as herd:
        for number in range(AUDIT_PAGE_ROWS + 10):
            herd.schedule(f"t{number}", cron="0 * * * *")
        await herd.tick()
        forget_times(herd)
        audit = SqliteAudit(herd.store.path)

        first, middle = await repair_inconsistencies(herd.store, audit, TEN)
        second, end = await repair_inconsistencies(herd.store, audit, TEN, middle)

        assert (len(first), len(second)) == (AUDIT_PAGE_ROWS, 10)
        assert middle > 0
        assert end == 0


class Away:
    """A store that is not there, or has a bug."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def write(self, work: Callable[[Transaction], T]) -> T:
        raise self._error


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is full"), ZeroDivisionError("a bug")])
async def test_whatever_goes_wrong_is_tried_again_the_next_time(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        forget_times(herd)

        await serve(MaintenanceWorker(Away(error), SqliteAudit(herd.store.path), Rounds(TEN, 3), Retention()))

        assert len([line for line in caplog.records if "what=scan" in line.getMessage()]) == 3


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is full"), ClaimLost("its lease is over")])
async def test_a_store_that_refuses_a_node_is_no_traceback_in_its_log(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        audit = SqliteAudit(herd.store.path)

        await serve(MaintenanceWorker(Away(error), audit, Rounds(TEN, 2), Retention()))

        assert ["maintenance postponed" in line.getMessage() for line in caplog.records] == [True]
        assert caplog.records[0].exc_info is None
