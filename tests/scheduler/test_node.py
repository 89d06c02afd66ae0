"""A node from its start to its stop: softly first, then firmly, and nothing is left open in the ledger."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.single_schedule_node import HeldRun, list_run_statuses, open_single_schedule_ledger

from herdbeat.domain.run import RunStatus
from herdbeat.errors import SchedulerShutdownError, StoreUnavailable
from herdbeat.events import Event, RunFinished
from herdbeat.scheduler.loop import NodeParts, NodeSettings
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.store.base import Transaction
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

PATIENT = timedelta(days=1)
T = TypeVar("T")


class Fickle:
    """A store that a test can make unavailable. It sets an event when a write has found it so."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.is_away = False
        self.was_asked = asyncio.Event()
        self.before_write: Callable[[], None] = lambda: None

    async def write(self, work: Callable[[Transaction], T]) -> T:
        self.before_write()
        if self.is_away:
            self.was_asked.set()
            raise StoreUnavailable("the database is locked")
        return await self._store.write(work)


class Serving(HeldRun):
    """A node that serves one schedule, whose run is active until it is released."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__()
        self.store = Fickle(store)
        self.events: list[Event] = []
        self.clock = FakeClock(MONDAY)
        parts = NodeParts(self.store, self.clock, self.execute_run, self.events.append)
        self.node = Node(parts, NodeSettings(node_id=0), NodeInfo(host="here", pid=1, version="0"))


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Serving]:
    async with open_single_schedule_ledger(folder) as store:
        yield Serving(store)


def seen_at(folder: Path) -> datetime:
    with closing(SqliteReader(folder / "herdbeat.db")) as reader:
        node = reader.last_node()
    assert node is not None
    return node.seen_at


async def test_a_soft_stop_lets_runs_finish(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()

        at_work.node.stop(PATIENT)
        at_work.let_go.set()
        await task

        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED]


async def test_a_run_interrupted_after_a_soft_stop_is_written_before_the_node_leaves(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()

        at_work.node.stop(PATIENT)
        at_work.node.hard_stop()
        with pytest.raises(SchedulerShutdownError) as raised:
            await task

        assert raised.value.running_job_count == 1
        assert list_run_statuses(tmp_path) == [RunStatus.INTERRUPTED]
        assert [each.status for each in at_work.events if isinstance(each, RunFinished)] == [RunStatus.INTERRUPTED]


async def test_the_error_of_a_stop_that_timed_out_counts_the_active_runs(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()

        at_work.node.stop(timedelta(0))

        with pytest.raises(SchedulerShutdownError, match="timed out after 0s: 1 run still active"):
            await task


async def test_a_hard_stop_during_a_cycle_leaves_no_claim_open(tmp_path: Path) -> None:
    """Once, the cancelled cycle forgot its claims, and the cancelled write ended the writer: the stop never ended."""
    async with serving(tmp_path) as at_work:

        def stop_during_cycle() -> None:
            if at_work.node.loop is not None:
                at_work.node.hard_stop()

        at_work.store.before_write = stop_during_cycle

        with suppress(SchedulerShutdownError):
            await at_work.node.serve()

        assert list_run_statuses(tmp_path) == [RunStatus.INTERRUPTED]


async def test_a_node_that_is_stopped_before_it_serves_claims_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        at_work.node.hard_stop()

        await at_work.node.serve()

        assert list_run_statuses(tmp_path) == []


async def test_cancelling_the_wait_for_a_write_does_not_end_the_writer(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        write = asyncio.ensure_future(at_work.store.write(lambda tx: tx.next_wake()))
        await asyncio.sleep(0)
        write.cancel()

        first = await asyncio.gather(write, return_exceptions=True)
        second = await at_work.store.write(lambda tx: tx.next_wake())

        assert isinstance(first[0], asyncio.CancelledError)
        assert second == MONDAY


async def test_a_stop_without_a_store_ends_at_its_timeout_and_counts_unwritten_results(
    tmp_path: Path,
) -> None:
    """Once it waited for the store without limit: only a kill ended it."""
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.is_away = True
        at_work.let_go.set()
        await at_work.store.was_asked.wait()

        at_work.node.stop(timedelta(0))
        with pytest.raises(SchedulerShutdownError) as raised:
            await task

        assert raised.value.message == (
            "The stop timed out after 0s: 1 result could not be written; "
            "that run will be recorded as interrupted at the next start."
        )
        assert (raised.value.running_job_count, raised.value.unwritten_result_count) == (0, 1)
        assert list_run_statuses(tmp_path) == [RunStatus.RUNNING]


async def test_a_stop_that_could_not_write_its_results_asks_the_store_for_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each further question waited for the lock of the ledger: a stop with a timeout of 2 s took 10 s."""
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.is_away = True
        at_work.let_go.set()
        await at_work.store.was_asked.wait()

        at_work.node.stop(timedelta(0))
        with pytest.raises(SchedulerShutdownError):
            await task

        assert "the ledger is unavailable; the next start uses" in caplog.text


async def test_runs_interrupted_without_a_store_count_as_interrupted_and_unwritten(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.is_away = True

        at_work.node.hard_stop()
        with pytest.raises(
            SchedulerShutdownError, match="immediately: 1 run interrupted; 1 result could not be written"
        ):
            await task


async def test_a_store_that_comes_back_before_the_timeout_gets_every_result(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.is_away = True
        at_work.let_go.set()
        await at_work.store.was_asked.wait()

        at_work.node.stop(PATIENT)
        at_work.store.is_away = False
        at_work.clock.advance(timedelta(seconds=1))
        await task

        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED]


async def test_a_heartbeat_that_cannot_be_written_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.is_away = True
        with caplog.at_level("WARNING", logger="herdbeat.scheduler.node"):
            while not caplog.records:
                at_work.clock.advance(timedelta(seconds=10))
                await asyncio.sleep(0)

        at_work.store.is_away = False
        at_work.clock.advance(timedelta(seconds=10))
        at_work.node.stop(PATIENT)
        at_work.let_go.set()
        await task

        assert "heartbeat not written" in caplog.text
        assert seen_at(tmp_path) == at_work.clock.now()


async def test_a_node_that_is_woken_claims_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as at_work:
        at_work.let_go.set()
        at_work.node.wake()  # nobody is there yet, and nothing happens
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.begun.clear()
        number = next(iter(await at_work.store.write(lambda tx: tx.schedules([1]))))
        await at_work.store.write(
            lambda tx: enqueue_manual(tx, at_work.clock.now(), number, origin="human:you", event_id="1")
        )

        at_work.node.wake()
        await at_work.begun.wait()
        at_work.node.stop(PATIENT)
        await task

        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED] * 2
