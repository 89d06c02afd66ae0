"""What tests of a whole node share: a ledger with one schedule, a run that blocks, and its result."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.herd import MONDAY, open_herd


class HeldRun:
    """A runner whose run blocks until it is released."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def execute_run(self, claim: Claim) -> FinishedRun:
        self.begun.set()
        await self.let_go.wait()
        return FinishedRun(claim.run_id, None, Outcome(status=RunStatus.SUCCEEDED))


@asynccontextmanager
async def open_single_schedule_ledger(folder: Path, since: datetime = MONDAY) -> AsyncIterator[SqliteStore]:
    async with open_herd(folder, since) as herd:
        herd.schedule("triage", every="5m")
        herd.snapshot("triage")  # writes the fleet to the ledger
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    try:
        yield store
    finally:
        store.close()


def list_runs(folder: Path) -> list[RunRecord]:
    """Return the runs, oldest first."""
    with closing(SqliteReader(folder / "herdbeat.db")) as reader:
        return reader.runs(Filter())[::-1]


def list_run_statuses(folder: Path) -> list[RunStatus]:
    return [run.status for run in list_runs(folder)]
