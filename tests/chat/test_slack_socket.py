"""Socket Mode against a Slack that drops connections, ends them, refuses new ones, or falls silent."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.fake_slack import FakeSlack, build_event, run_slack

from herdbeat.chat import slack_socket
from herdbeat.chat.slack_socket import receive_slack


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with run_slack() as server:
        yield server


@asynccontextmanager
async def receiving(
    slack: FakeSlack, *, is_durable: bool = True, ping_interval_s: float = 1
) -> AsyncIterator[list[str]]:
    """Receive in the background, and yield the texts that came."""
    texts: list[str] = []

    async def handle(payload: Mapping[str, Any]) -> bool:
        texts.append(payload["event"]["text"])
        return is_durable

    task = asyncio.create_task(receive_slack("xapp-secret", handle, api=slack.api, ping_interval_s=ping_interval_s))
    try:
        yield texts
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- of another thread
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("refusals", [0, 2])
@pytest.mark.parametrize("fault", ["drop", "disconnect"])
async def test_a_connection_that_ends_is_replaced(
    slack: FakeSlack, fault: str, refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "RETRY_DELAYS_S", (0.05,))
    async with receiving(slack) as texts:
        await until(lambda: slack.is_connected)
        slack.refusals = refusals

        getattr(slack, fault)()
        await until(lambda: slack.connections >= 2 and slack.is_connected)
        slack.send(build_event("hello"))
        await until(lambda: bool(slack.acks))

    assert texts == ["hello"]


async def test_a_slack_that_answers_nothing_is_left(slack: FakeSlack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_socket, "RETRY_DELAYS_S", (0.05,))
    slack.is_mute = True
    async with receiving(slack, ping_interval_s=0.5) as texts:
        await until(lambda: slack.connections == 1)
        slack.is_mute = False

        await until(lambda: slack.connections >= 2)
        slack.send(build_event("hello"))
        await until(lambda: bool(slack.acks))

    assert texts == ["hello"]


async def test_what_is_not_durable_is_not_acknowledged(slack: FakeSlack) -> None:
    async with receiving(slack, is_durable=False) as texts:
        await until(lambda: slack.is_connected)
        slack.send(build_event("hello"))
        await until(lambda: bool(texts))

    assert slack.acks == []
