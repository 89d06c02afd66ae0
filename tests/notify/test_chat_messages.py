"""Answers in threads: what Slack and Discord are asked, by the log of a server beside the test."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from herdbeat.domain.chat import ChatPlatform
from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord, DeliveryState, NewDelivery
from herdbeat.notify.base import DeliveryFailed
from herdbeat.notify.deliverer import ChannelDeliverer
from herdbeat.scheduler.chat_answers import build_replies, split_text

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOSTILE = "ok @everyone @here <@7> <@!7> <@&9> <#5> <!channel> \x00 \u202e"


@contextmanager
def run_discord() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A Discord that takes everything: its address, and the log of method, path and body."""
    log: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Authorization"] == "Bot secret"
            log.append(("POST", self.path, body))
            is_known_thread = self.path.endswith("/threads") and len(log) > 2
            self.send_response(400 if is_known_thread else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"id": "900"}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v10", log
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def record(delivery: NewDelivery) -> DeliveryRecord:
    return DeliveryRecord(
        message_id=delivery.message_id,
        channel=delivery.channel,
        kind=DeliveryKind.CHAT,
        name=delivery.name,
        spec=delivery.spec,
        payload=delivery.payload,
        id=1,
        state=DeliveryState.PENDING,
        attempts=1,
        next_at=NOW,
        fence=1,
        created_at=NOW,
    )


def address(**changes: Any) -> dict[str, Any]:
    given = {"platform": ChatPlatform.DISCORD, "target": "a", "channel": "5", "thread": "60", "message": "60"}
    return {**given, "bot_token_env": "TOKEN", "has_thread": True, **changes}


async def send(api: str, text: str, tmp_path: Path, **changes: Any) -> tuple[NewDelivery, ...]:
    deliverer = ChannelDeliverer(dict, {"TOKEN": "secret"}, tmp_path, discord_api=api)
    replies = build_replies(address(**changes), text, "run-1")
    try:
        for each in replies:
            await deliverer(record(each), NOW)
    finally:
        await deliverer.close()
    return replies


async def test_an_answer_begins_the_thread_of_its_message_and_mentions_nobody(tmp_path: Path) -> None:
    with run_discord() as (api, log):
        await send(api, HOSTILE, tmp_path)

    assert [path for _, path, _ in log] == ["/api/v10/channels/5/messages/60/threads", "/api/v10/channels/60/messages"]
    content = json.loads(log[1][2])
    assert content["allowed_mentions"] == {"parse": []}
    assert content["enforce_nonce"] is True
    assert not any(sign in content["content"] for sign in ("@everyone", "@here", "<@", "<#"))


async def test_a_thread_that_is_there_already_is_no_error(tmp_path: Path) -> None:
    with run_discord() as (api, log):
        await send(api, "one", tmp_path)
        await send(api, "two", tmp_path)

    assert len([path for _, path, _ in log if path.endswith("/60/messages")]) == 2


async def test_where_no_thread_can_be_the_answer_refers_to_the_message(tmp_path: Path) -> None:
    with run_discord() as (api, log):
        await send(api, "hello", tmp_path, has_thread=False)

    ((_, path, body),) = log
    assert path == "/api/v10/channels/5/messages"
    assert json.loads(body)["message_reference"]["message_id"] == "60"


async def test_a_long_answer_is_split_and_a_very_long_one_is_a_file(tmp_path: Path) -> None:
    with run_discord() as (api, log):
        parts = await send(api, "word " * 700, tmp_path, thread="5")
        await send(api, "line\n" * 3_000, tmp_path, thread="5")

    assert len({each.message_id for each in parts}) == 2
    assert all(len(json.loads(body)["content"]) <= 2_000 for _, _, body in log[:2])
    assert b'filename="answer.md"' in log[2][2]
    assert b"line\nline" in log[2][2]


async def test_a_token_that_is_not_set_is_named_and_the_message_stays(tmp_path: Path) -> None:
    deliverer = ChannelDeliverer(dict, {}, tmp_path)
    (reply,) = build_replies(address(), "hello", "run-1")

    with pytest.raises(DeliveryFailed, match="TOKEN is not set") as refused:
        await deliverer(record(reply), NOW)

    assert not refused.value.is_final
    await deliverer.close()


@pytest.mark.parametrize("text", ["", "a", "word " * 100, "x" * 95, "line\n\nline\n" * 20])
def test_no_part_of_a_text_is_too_long_and_no_word_is_lost(text: str) -> None:
    parts = split_text(text, 30)

    assert all(len(part) <= 30 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_the_same_answer_has_the_same_ids() -> None:
    assert build_replies(address(), "hello", "run-1") == build_replies(address(), "hello", "run-1")
    assert (
        build_replies(address(), "hello", "run-2")[0].message_id
        != build_replies(address(), "hello", "run-1")[0].message_id
    )
