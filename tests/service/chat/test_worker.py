"""The gateway of Discord: one node has the connection of a bot, and another takes it when that node is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.chat.discord import GatewayMessage
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.errors import StoreUnavailable
from herdbeat.service.chat.worker import ATTEMPT_DELAY, LEASE, ChatWorker
from herdbeat.service.commands.base import ReceiveChat
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing.clock import FakeClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
AGENT = Target(
    name="helper",
    spec=AgentSpec(
        runtime="fake",
        working_directory=".",
        chat={"discord": {"bot_token_env": "TOKEN", "guilds": [{"id": "1", "channels": [{"id": "5"}]}]}},
    ),
)
MESSAGE = GatewayMessage(
    id="60",
    channel="5",
    parent="",
    author="7",
    text="<@1> hello",
    bot_user="1",
    is_by_bot=False,
    is_direct=False,
    mentions_bot=True,
)


class FakeGateway:
    """Counts the connections that are open, and delivers a message over each when it opens."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.most = 0
        self.opened = asyncio.Event()

    async def receive(self, token: str, handle: Callable[[GatewayMessage], Awaitable[None]]) -> None:
        assert token == "secret"
        self.open.append("one")
        self.most = max(self.most, len(self.open))
        try:
            await handle(MESSAGE)
            self.opened.set()
            await asyncio.Event().wait()
        finally:
            self.open.pop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "ledger.db")) as opened:
        opened.open()
        yield opened


async def test_two_nodes_have_one_connection_and_the_second_takes_over(store: SqliteStore) -> None:
    clock, gateway, sent = FakeClock(NOON), FakeGateway(), list[ReceiveChat]()

    async def send(command: ReceiveChat) -> None:
        sent.append(command)

    def start(name: str) -> asyncio.Task[None]:
        worker = ChatWorker(
            store,
            clock,
            lambda: [AGENT],
            asyncio.Event(),
            {"TOKEN": "secret"},
            send,
            name,
            receive_gateway=gateway.receive,
        )
        return asyncio.create_task(worker.run())

    first = start("node-1")
    await gateway.opened.wait()
    gateway.opened.clear()
    second = start("node-2")
    await clock_turn(clock, 10)
    assert (len(gateway.open), gateway.most) == (1, 1)

    first.cancel()  # as by kill -9: its lease stays
    await asyncio.wait([first])
    assert gateway.open == []
    clock.advance(LEASE)
    await asyncio.wait_for(gateway.opened.wait(), 10)

    assert gateway.most == 1
    assert [(each.target, each.text, each.may_command) for each in sent] == [("helper", "hello", False)] * 2
    assert sent[0].event_id == sent[1].event_id  # the same message: its request id makes it one run
    second.cancel()
    await asyncio.wait([second])


async def test_a_message_that_the_ledger_cannot_take_is_written_a_moment_later(store: SqliteStore) -> None:
    clock, gateway, attempts = FakeClock(NOON), FakeGateway(), list[ReceiveChat]()

    async def send(command: ReceiveChat) -> None:
        attempts.append(command)
        if len(attempts) < 3:
            raise StoreUnavailable("The ledger is locked.")

    worker = ChatWorker(
        store,
        clock,
        lambda: [AGENT],
        asyncio.Event(),
        {"TOKEN": "secret"},
        send,
        "node-1",
        receive_gateway=gateway.receive,
    )
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(10):
        while not gateway.opened.is_set():  # the message is durable
            clock.advance(ATTEMPT_DELAY)
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])

    assert [each.event_id for each in attempts] == [attempts[0].event_id] * 3


async def clock_turn(clock: FakeClock, turns: int) -> None:
    """Let tasks go on without moving the time."""
    del clock
    for _ in range(turns):
        await asyncio.sleep(0.01)
