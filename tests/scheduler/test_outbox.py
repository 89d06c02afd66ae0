import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord, DeliveryState, NewDelivery
from herdbeat.notify.base import DeliveryFailed
from herdbeat.scheduler.outbox import RETRY_DELAYS, OutboxSender
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing import FakeClock

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class FakeReceiver:
    """Takes messages, unless it is down. What it was asked to take is in `asked`, what it took in `taken`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.taken: list[str] = []
        self.failure: DeliveryFailed | None = None
        self.hanging: set[str] = set()
        self.at_once = 0
        self.most_at_once = 0
        self.changed = asyncio.Condition()

    async def __call__(self, delivery: DeliveryRecord, now: datetime) -> None:
        assert now >= NOW
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._note(self.asked, delivery.message_id)
            if delivery.channel in self.hanging:
                await asyncio.Event().wait()
            if self.failure is not None:
                raise self.failure
            await self._note(self.taken, delivery.message_id)
        finally:
            self.at_once -= 1

    async def _note(self, messages: list[str], message_id: str) -> None:
        async with self.changed:
            messages.append(message_id)
            self.changed.notify_all()

    async def wait_for(self, count: int, *, asked: bool = False) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.asked if asked else self.taken) >= count)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "herdbeat.db")
    opened.open()
    yield opened
    opened.close()


def add(store: SqliteStore, *names: str, channel: str = "ops", is_once: bool = False) -> None:
    deliveries = [
        NewDelivery(
            message_id=name,
            channel=channel,
            kind=DeliveryKind.HOOK,
            name=name,
            spec={"type": "webhook"},
            payload={},
            run_id=1,
            is_once=is_once,
        )
        for name in names
    ]
    store.write_now(lambda tx: tx.outbox_add(deliveries, NOW))


@asynccontextmanager
async def sending(store: SqliteStore, receiver: FakeReceiver, clock: FakeClock) -> AsyncIterator[OutboxSender]:
    sender = OutboxSender(store, receiver, clock, "here")
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        task.cancel()
        await asyncio.wait([task])


def read(tmp_path: Path) -> dict[str, DeliveryRecord]:
    reader = SqliteReader(tmp_path / "herdbeat.db")
    try:
        return {each.message_id: each for each in reader.deliveries()}
    finally:
        reader.close()


async def wait_for_state(tmp_path: Path, name: str, *, attempts: int) -> DeliveryRecord:
    async with asyncio.timeout(20):
        while (found := read(tmp_path)[name]).attempts < attempts or found.fence:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the ledger announces nothing
    return found


async def test_messages_of_a_channel_arrive_in_their_order(store: SqliteStore) -> None:
    receiver = FakeReceiver()
    add(store, "a", "b", "c")

    async with sending(store, receiver, FakeClock(NOW)):
        await receiver.wait_for(3)

    assert receiver.taken == ["a", "b", "c"]
    assert receiver.most_at_once == 1


async def test_a_receiver_that_hangs_delays_no_other_channel(store: SqliteStore) -> None:
    receiver = FakeReceiver()
    receiver.hanging = {"slow"}
    add(store, "a", "b", channel="slow")
    add(store, "c", "d")

    async with sending(store, receiver, FakeClock(NOW)):
        await receiver.wait_for(2)

    assert receiver.taken == ["c", "d"]
    assert "b" not in receiver.asked


async def test_at_most_twenty_channels_are_sent_to_at_once(store: SqliteStore) -> None:
    receiver = FakeReceiver()
    receiver.hanging = {f"c{number}" for number in range(30)}
    for number in range(30):
        add(store, f"m{number}", channel=f"c{number}")

    async with sending(store, receiver, FakeClock(NOW)):
        await receiver.wait_for(20, asked=True)

    assert receiver.most_at_once == 20


async def test_a_receiver_that_was_down_gets_everything_when_it_comes_back(store: SqliteStore, tmp_path: Path) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    receiver.failure = DeliveryFailed("it answered 500")
    add(store, "a", "b", "c")

    async with sending(store, receiver, clock):
        for attempt in range(1, 4):  # down for half an hour
            failed = await wait_for_state(tmp_path, "a", attempts=attempt)
            assert failed.error == "it answered 500"
            receiver.failure = receiver.failure if attempt < 3 else None
            clock.advance(failed.next_at - clock.now())
        await receiver.wait_for(3)

    assert sorted(receiver.taken) == ["a", "b", "c"]
    assert receiver.asked.count("a") == 4
    assert receiver.asked.count("c") <= 3  # those behind it do not knock each on their own


async def test_a_message_is_given_up_after_the_last_delay_of_the_standard(store: SqliteStore, tmp_path: Path) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    receiver.failure = DeliveryFailed("it answered 500")
    add(store, "a")

    async with sending(store, receiver, clock):
        for attempt in range(1, len(RETRY_DELAYS) + 1):
            failed = await wait_for_state(tmp_path, "a", attempts=attempt)
            delay = failed.next_at - clock.now()
            assert RETRY_DELAYS[attempt - 1] <= delay <= RETRY_DELAYS[attempt - 1] * 1.1
            clock.advance(delay)
        last = await wait_for_state(tmp_path, "a", attempts=len(RETRY_DELAYS) + 1)

    assert (last.state, last.error) == (DeliveryState.FAILED, "it answered 500")


async def test_a_receiver_that_asks_to_wait_is_left_alone_for_so_long(store: SqliteStore, tmp_path: Path) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    receiver.failure = DeliveryFailed("it answered 429", retry_after=timedelta(hours=1))
    add(store, "a")

    async with sending(store, receiver, clock):
        failed = await wait_for_state(tmp_path, "a", attempts=1)

    assert failed.next_at == NOW + timedelta(hours=1)


async def test_what_was_being_sent_when_the_node_died_is_sent_again_under_the_same_id(store: SqliteStore) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    add(store, "a")
    dead = {"fence": 7, "host": "here", "limit": 9, "is_alone": True}
    store.write_now(lambda tx: tx.outbox_take(NOW, NOW + timedelta(hours=1), **dead))  # type: ignore[arg-type]

    async with sending(store, receiver, clock):
        await receiver.wait_for(1)

    assert receiver.taken == ["a"]


async def test_a_program_that_ran_when_the_node_died_is_unknown_and_never_started_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    add(store, "a", is_once=True)
    dead = {"fence": 7, "host": "here", "limit": 9, "is_alone": True}
    store.write_now(lambda tx: tx.outbox_take(NOW, NOW + timedelta(hours=1), **dead))  # type: ignore[arg-type]
    add(store, "b", channel="other")

    async with sending(store, receiver, clock):
        await receiver.wait_for(1)

    assert receiver.asked == ["b"]
    assert read(tmp_path)["a"].state is DeliveryState.UNKNOWN


async def test_a_program_that_fails_is_not_started_again(store: SqliteStore, tmp_path: Path) -> None:
    receiver, clock = FakeReceiver(), FakeClock(NOW)
    receiver.failure = DeliveryFailed("it exited with 1", is_final=True)
    add(store, "a", is_once=True)

    async with sending(store, receiver, clock):
        failed = await wait_for_state(tmp_path, "a", attempts=1)
        clock.advance(timedelta(days=1))

    assert failed.state is DeliveryState.FAILED
    assert receiver.asked == ["a"]
