"""A node on a ledger that others share: it loses its lease, gives everything up, and joins again as a new one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.single_schedule_node import HeldRun, list_run_statuses, list_runs, open_single_schedule_ledger

from herdbeat.domain.run import RunStatus
from herdbeat.errors import ClaimLost, HerdbeatError, SchedulerShutdownError, StoreUnavailable
from herdbeat.events import Event, GapDetected, NodeReady
from herdbeat.platform import ProcessOrigin
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.scheduler.loop import NodeParts, NodeSettings
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.scheduler.membership import NodeInfo
from herdbeat.scheduler.node import Node
from herdbeat.scheduler.timers import DatabaseTimer
from herdbeat.store.base import Neighbour, StopRequest, Transaction
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

PATIENT = timedelta(days=1)
HEARTBEAT = timedelta(seconds=10)
T = TypeVar("T")


class Refusing:
    """A store that raises what a test sets."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.error: HerdbeatError | None = None

    async def write(self, work: Callable[[Transaction], T]) -> T:
        if self.error is not None:
            raise self.error
        return await self._store.write(work)


class Neighbours:
    """What the others have to say. Who gives up its lease is let in again, unless the store is away."""

    def __init__(self, store: Refusing, clock: FakeClock) -> None:
        self._store = store
        self._clock = clock
        self._closed = threading.Event()
        self.given_up = 0
        self.looks = 0
        self.stops: list[StopRequest] = []
        self.forgotten: list[list[int]] = []
        self.heard: Callable[[], None] | None = None
        self.listens = threading.Event()

    def now(self) -> datetime:
        return self._clock.now()

    def listen(self, heard: Callable[[], None]) -> None:
        self.heard = heard
        self.listens.set()
        self._closed.wait()

    def list_stop_requests(self, node_id: int) -> list[StopRequest]:
        self.looks += 1
        return list(self.stops)

    def list_neighbours(self, node_id: int, origin: ProcessOrigin) -> list[Neighbour]:
        return []

    def publish_output(self, texts: Mapping[int, str]) -> None: ...

    def ack_stop_requests(self, node_id: int, run_ids: Sequence[int]) -> None:
        self.forgotten.append(list(run_ids))
        self.stops = [each for each in self.stops if each.run_id not in run_ids]

    def end_abandoned_sessions(self) -> None: ...

    def abandon_node(self) -> None:
        self.given_up += 1
        if isinstance(self._store.error, ClaimLost):
            self._store.error = None

    def close(self) -> None:
        self._closed.set()


class AmongOthers(HeldRun):
    """A node that serves one schedule, whose first run is active until it is cancelled."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__()
        self.clock = FakeClock(MONDAY)
        self.store = Refusing(store)
        self.shared = Neighbours(self.store, self.clock)
        self.events: list[Event] = []
        timer = DatabaseTimer(self.clock, self.shared.now)
        parts = NodeParts(self.store, timer, self.execute_run, self.events.append, shared=self.shared)
        self.node = Node(parts, NodeSettings(node_id=0), NodeInfo(host="here", pid=1, version="0"))

    @property
    def numbers(self) -> list[int]:
        """By which it was known, one after the other."""
        return [each.node_id for each in self.events if isinstance(each, NodeReady)]


@asynccontextmanager
async def among_others(folder: Path) -> AsyncIterator[AmongOthers]:
    async with open_single_schedule_ledger(folder, MONDAY - timedelta(hours=1)) as store:
        yield AmongOthers(store)


def errors(folder: Path) -> list[str]:
    return [run.error or "" for run in reversed(list_runs(folder))]


async def happens(is_so: Callable[[], bool]) -> None:
    """Until it is so, while the clock stands."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - neither the ledger nor the log has an event to wait for
            await asyncio.sleep(0)


async def test_a_node_whose_lease_was_lost_joins_again_and_its_runs_are_interrupted(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()

        at_work.store.error = ClaimLost("its lease is somebody else's")
        at_work.clock.advance(HEARTBEAT)
        await happens(lambda: len(at_work.numbers) > 1)
        at_work.let_go.set()
        at_work.node.stop(PATIENT)
        await task

        assert at_work.shared.given_up == 1
        assert at_work.numbers[1] > at_work.numbers[0]
        assert list_run_statuses(tmp_path)[0] is RunStatus.INTERRUPTED


async def test_a_node_that_cannot_renew_stops_its_runs_before_the_lease_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()

        at_work.store.error = StoreUnavailable("the server is away")
        at_work.clock.advance(HEARTBEAT)
        await happens(lambda: "heartbeat not written" in caplog.text)
        given_up_too_soon = at_work.shared.given_up
        at_work.clock.advance(HEARTBEAT)  # two thirds of the lease
        await happens(lambda: "join failed" in caplog.text)
        at_work.node.stop(PATIENT)
        await task

        assert (given_up_too_soon, at_work.shared.given_up) == (0, 1)
        assert "lease lost" in caplog.text
        assert len(at_work.numbers) == 1  # it never came back
        assert list_run_statuses(tmp_path) == [RunStatus.RUNNING]  # the next node to join closes it


async def test_a_node_joins_again_when_the_store_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.store.error = StoreUnavailable("the server is away")
        at_work.clock.advance(2 * HEARTBEAT)
        await happens(lambda: "join failed" in caplog.text)

        at_work.store.error = None
        at_work.clock.advance(timedelta(seconds=1))
        await happens(lambda: len(at_work.numbers) > 1)
        at_work.let_go.set()
        at_work.node.stop(PATIENT)
        await task

        assert list_run_statuses(tmp_path)[0] is RunStatus.INTERRUPTED


async def test_a_database_error_at_the_first_registration_does_not_end_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with among_others(tmp_path) as at_work:
        at_work.let_go.set()
        at_work.store.error = StoreUnavailable("the server is restarting")
        task = asyncio.ensure_future(at_work.node.serve())
        await happens(lambda: "join failed" in caplog.text or task.done())

        at_work.store.error = None
        at_work.clock.advance(timedelta(seconds=1))
        await happens(lambda: at_work.begun.is_set() or task.done())
        at_work.node.stop(PATIENT)
        await task

        assert len(at_work.numbers) == 1
        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED]


def start_and_die(tx: Transaction) -> int:
    """Another node joins, claims a beat, and dies."""
    neighbour = tx.join_node("there", 2, "0", MONDAY)
    enqueue_manual(tx, MONDAY, 1, origin="human:you", event_id="1")
    return len(claim_due(tx, MONDAY, ClaimContext(neighbour, 1, CatchupPacer(1))).claims)


async def test_runs_of_a_dead_node_are_rescued_with_the_next_heartbeat(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        at_work.let_go.set()
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        await happens(lambda: list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED])
        left = await at_work.store.write(start_and_die)

        at_work.clock.advance(HEARTBEAT)
        await happens(lambda: RunStatus.RUNNING not in list_run_statuses(tmp_path))
        at_work.node.stop(PATIENT)
        await task

        assert left == 1
        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED, RunStatus.INTERRUPTED]


async def test_a_notification_by_another_node_wakes_the_node(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        at_work.let_go.set()
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.begun.clear()
        await asyncio.to_thread(at_work.shared.listens.wait, 10)
        assert at_work.shared.heard is not None
        await at_work.store.write(lambda tx: enqueue_manual(tx, MONDAY, 1, origin="human:you", event_id="1"))

        at_work.shared.heard()  # the clock stands: nothing else would wake it

        async with asyncio.timeout(10):
            await at_work.begun.wait()
        at_work.node.stop(PATIENT)
        await task
        assert list_run_statuses(tmp_path) == [RunStatus.SUCCEEDED] * 2


async def test_a_stop_request_by_another_node_cancels_the_run_with_its_reason(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        await asyncio.to_thread(at_work.shared.listens.wait, 10)
        assert at_work.shared.heard is not None

        at_work.shared.stops.append(StopRequest(1, "cancelled by human:you", force=False))
        at_work.shared.heard()
        await happens(lambda: list_run_statuses(tmp_path) == [RunStatus.CANCELLED])
        await happens(lambda: at_work.shared.stops == [])
        at_work.node.stop(PATIENT)
        await task

        assert errors(tmp_path) == ["cancelled by human:you"]


async def test_a_stop_request_whose_notification_was_lost_is_found_by_polling(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        await happens(lambda: at_work.shared.looks > 0)

        at_work.shared.stops.append(StopRequest(1, "cancelled by human:you", force=False))
        at_work.clock.advance(timedelta(seconds=1))
        await happens(lambda: list_run_statuses(tmp_path) == [RunStatus.CANCELLED])
        await happens(lambda: at_work.shared.forgotten == [[1]])
        at_work.node.stop(PATIENT)
        await task


async def test_a_stop_request_for_a_run_that_is_not_active_yet_is_kept(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.shared.stops.append(StopRequest(2, "cancelled by human:you", force=False))

        at_work.clock.advance(timedelta(seconds=1))
        await happens(lambda: bool(at_work.shared.forgotten))
        at_work.let_go.set()
        at_work.node.stop(PATIENT)
        await task

        assert at_work.shared.forgotten[0] == []
        assert [each.run_id for each in at_work.shared.stops] == [2]


async def test_a_node_that_drains_still_follows_stop_requests(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.node.stop(PATIENT)

        at_work.shared.stops.append(StopRequest(1, "cancelled by human:you", force=True))
        at_work.clock.advance(timedelta(seconds=1))
        async with asyncio.timeout(10):
            await task

        assert list_run_statuses(tmp_path) == [RunStatus.CANCELLED]


async def test_the_time_without_any_node_is_published_as_a_gap_at_the_start(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        at_work.let_go.set()
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.node.stop(PATIENT)
        await task

        told = [each.gap for each in at_work.events if isinstance(each, GapDetected)]

        assert [(gap.until - gap.from_at, gap.reason) for gap in told] == [(timedelta(hours=1), "scheduler_down")]


async def test_a_stop_that_lost_its_lease_was_said_to_have_timed_out(tmp_path: Path) -> None:
    async with among_others(tmp_path) as at_work:
        task = asyncio.ensure_future(at_work.node.serve())
        await at_work.begun.wait()
        at_work.node.stop(PATIENT)

        at_work.store.error = ClaimLost("its lease is somebody else's")
        at_work.clock.advance(HEARTBEAT)

        with pytest.raises(
            SchedulerShutdownError, match="lost its lease during the stop: 1 run still active"
        ) as raised:
            await task
        assert not raised.value.timed_out
