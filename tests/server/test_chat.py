"""Slack's Events API and Discord's interactions: signed requests, each message once, checked in the ledger."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.server.conftest import FLEET, NOW, ServedFleet
from tests.support.asgi_client import AsgiClient, AsgiResponse
from tests.support.fake_slack import build_event

from herdbeat.domain.records import BeatRecord
from herdbeat.server.app import create_app
from herdbeat.server.gateway import FleetGateway
from herdbeat.store.reader import Filter

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC_KEY = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
CHAT = f"""\
    chat:
      slack: {{ signing_secret_env: SIGNING, bot_token_env: BOT, users: [U1], channels: [{{ id: C1 }}] }}
      discord: {{ bot_token_env: DISCORD, public_key: "{PUBLIC_KEY}", users: ["7"], channels: [{{ id: "5" }}] }}
"""
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


class ChatServer:
    """The application of a fleet whose agent has a chat."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fleet = FLEET.replace("    schedules:\n      issues", f"{CHAT}    schedules:\n      issues")
        monkeypatch.setattr("tests.server.conftest.FLEET", fleet)
        served = ServedFleet(folder)
        self.gateway = FleetGateway(served.spec, served.gateway.handle, {"SIGNING": SECRET})
        self.client = AsgiClient(app=create_app(self.gateway), peer="192.0.2.7")

    def slack(self, body: object, *, at: float = NOW.timestamp(), secret: str = SECRET, **headers: str) -> AsgiResponse:
        content = json.dumps(body).encode()
        signed = hmac.new(secret.encode(), b"v0:%d:" % at + content, hashlib.sha256).hexdigest()
        named = {"x-slack-request-timestamp": f"{at:.0f}", "x-slack-signature": f"v0={signed}", **headers}
        return self.client.send("POST", "/chat/slack/triage", content, named)

    def discord(self, body: object, *, key: Ed25519PrivateKey = KEY) -> AsgiResponse:
        content = json.dumps(body).encode()
        signature = key.sign(b"1700000000" + content).hex()
        headers = {"x-signature-timestamp": "1700000000", "x-signature-ed25519": signature}
        return self.client.send("POST", "/chat/discord/triage", content, headers)

    def beats(self) -> list[BeatRecord]:
        with self.gateway.open() as handle:
            return handle.require_reader().beats(Filter(target="triage", name="chat", limit=10))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    opened = ChatServer(tmp_path, monkeypatch)
    yield opened
    opened.gateway.close()


def test_slack_verifies_the_address_by_a_challenge(server: ChatServer) -> None:
    answer = server.slack({"type": "url_verification", "challenge": "3eZbrw1aB", "token": "x"})

    assert (answer.status, answer.text) == (200, "3eZbrw1aB")


def test_a_post_is_one_beat_however_often_and_in_however_many_shapes_it_comes(server: ChatServer) -> None:
    first = server.slack(build_event("<@U0BOT> hello"))
    again = server.slack(build_event("<@U0BOT> hello"), x_slack_retry_num="1", x_slack_retry_reason="http_timeout")
    shape = server.slack(build_event("<@U0BOT> hello", type="message", channel_type="channel"))

    assert [each.status for each in (first, again, shape)] == [200, 200, 200]
    (beat,) = server.beats()
    assert (beat.outcome, beat.source, beat.origin) == ("pending", "chat", "human:U1@slack")


def test_a_retry_may_be_the_first_that_arrives(server: ChatServer) -> None:
    server.slack(build_event("<@U0BOT> hello"), x_slack_retry_num="1", x_slack_retry_reason="connection_failed")

    assert len(server.beats()) == 1


@pytest.mark.parametrize(
    "forged", [{"at": NOW.timestamp() - 301}, {"secret": "another"}, {"x_slack_signature": "v0=0"}]
)
def test_a_call_that_is_old_or_not_signed_is_refused(server: ChatServer, forged: dict[str, Any]) -> None:
    assert server.slack(build_event("<@U0BOT> hello"), **forged).status == 401
    assert server.beats() == []


def test_an_altered_body_is_refused(server: ChatServer) -> None:
    content = json.dumps(build_event("<@U0BOT> hello")).encode()
    signed = hmac.new(SECRET.encode(), b"v0:%d:" % NOW.timestamp() + content, hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": f"{NOW.timestamp():.0f}", "x-slack-signature": f"v0={signed}"}

    answer = server.client.send("POST", "/chat/slack/triage", content.replace(b"hello", b"rm -rf"), headers)

    assert answer.status == 401
    assert server.beats() == []


@pytest.mark.parametrize("target", ["nobody", "backup"])
def test_an_agent_without_a_chat_refuses_everything(server: ChatServer, target: str) -> None:
    assert server.client.send("POST", f"/chat/slack/{target}", b"{}", {}).status == 401
    assert server.client.send("POST", f"/chat/discord/{target}", b"{}", {}).status == 401


def test_discord_pings_and_probes_with_bad_signatures(server: ChatServer) -> None:
    good = server.discord({"type": 1})
    bad = server.discord({"type": 1}, key=Ed25519PrivateKey.generate())

    assert (good.status, good.json(), bad.status) == (200, {"type": 1}, 401)


def interaction(name: str = "ask", value: str = "hello", number: str = "100", user: str = "7") -> dict[str, Any]:
    data = {"name": name, "options": [{"name": "x", "value": value}]}
    return {"type": 2, "id": number, "channel_id": "5", "member": {"user": {"id": user}}, "data": data, "token": "t"}


def test_a_command_of_discord_is_one_beat_and_is_answered_at_once(server: ChatServer) -> None:
    answers = [server.discord(interaction()).json() for _ in range(2)]

    assert [each["type"] for each in answers] == [4, 4]
    assert answers[0]["data"]["content"].startswith("Working on it")
    assert len(server.beats()) == 1


def test_a_verb_of_discord_is_done_once(server: ChatServer) -> None:
    first = server.discord(interaction("pause", "backup")).json()
    again = server.discord(interaction("pause", "backup")).json()
    stranger = server.discord(interaction("pause", "queue-depth", number="101", user="8")).json()

    assert first["data"]["content"] == again["data"]["content"] == "1 paused until resumed. Undo: resume backup"
    assert "You cannot talk to this agent here" in stranger["data"]["content"]
    with server.gateway.open() as handle:
        paused = [each.target for each in handle.require_reader().schedules(Filter(limit=10)) if each.paused]
        changes = handle.require_reader().changes(Filter(limit=3))
    assert paused == ["backup"]
    assert [each.who for each in changes if each.what == "pause"] == ["human:7@discord"]
    assert server.beats() == []
