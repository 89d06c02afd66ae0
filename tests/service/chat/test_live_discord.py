"""Discord, from its gateway to the thread: the real client, a real node and agent, and a Discord beside them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.chat.test_live_slack import prompts, until
from tests.support.fake_discord import BOT_ID, CHANNEL_ID, TOKEN, USER_ID, FakeDiscord, run_discord

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.service.chat import worker

FLEET = f"""\
version: 1
timezone: UTC
agents:
  - name: helper
    runtime: fake
    instances: {{ max_concurrent: 5 }}
    chat:
      discord:
        bot_token_env: BOT
        users: ["{USER_ID}"]
        guilds: [{{ id: "100", channels: [{{ id: "{CHANNEL_ID}", mode: mention }}] }}]
commands:
  - {{ name: backup, command: [touch, backed-up], cron: "0 0 1 1 *" }}
"""
IDENTIFY, HEARTBEAT = 2, 1
pytestmark = pytest.mark.filterwarnings("ignore:'audioop' is deprecated")  # by the client of Discord
MESSAGE_CONTENT = 1 << 15


@pytest.fixture
def discord() -> Any:
    with run_discord() as server:
        yield server


@asynccontextmanager
async def running(folder: Path, discord: FakeDiscord, fleet: str = FLEET) -> AsyncIterator[RunningFleet]:
    (folder / "herdbeat.yaml").write_text(fleet, encoding="utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BOT": TOKEN,
        "HERDBEAT_DISCORD_API": discord.api,
        "HERDBEAT_DISCORD_GATEWAY": discord.gateway,
        "FAKE_AGENT_LOG": str(folder / "agent.log"),
        "FAKE_AGENT_HOME": str(folder / "sessions"),
    }
    loaded = load_config(str(folder / "herdbeat.yaml"), environ, folder)
    assert loaded.fleet is not None
    async with running_fleet(loaded.fleet, environ=environ, folder=folder) as node:
        await until(lambda: discord.is_connected)
        yield node


async def test_a_mention_is_answered_in_a_thread_and_heartbeats_keep_the_connection(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    async with running(tmp_path, discord):
        discord.send(f"<@{BOT_ID}> how are you fake:answer=fine_@everyone_<@1>_[a](https://b)", "400")
        await until(lambda: bool(discord.posts()))
        await until(lambda: discord.count(HEARTBEAT) >= 2)

    ((channel, answer),) = discord.posts()
    identify = next(data for operation, data in discord.frames if operation == IDENTIFY)
    assert channel == "400"  # the thread that its message began
    assert ("POST", f"/channels/{CHANNEL_ID}/messages/400/threads") in [call[:2] for call in discord.calls]
    assert answer["allowed_mentions"] == {"parse": []}
    assert answer["content"].replace("\u200b", "") == "fine @everyone <@1> [a](https://b)"
    assert not any(each in answer["content"] for each in ("@everyone", "<@1>", "](http"))
    assert identify["intents"] & MESSAGE_CONTENT
    assert "how are you" in prompts(tmp_path)[0]


async def test_a_message_that_comes_while_the_connection_is_gone_arrives_by_a_resumed_session_once(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    async with running(tmp_path, discord):
        discord.send(f"<@{BOT_ID}> first", "400")
        await until(lambda: len(discord.posts()) == 1)
        discord.drop()
        await until(lambda: not discord.is_connected)
        discord.send(f"<@{BOT_ID}> second", "401")
        discord.send(f"<@{BOT_ID}> first", "400")  # a repetition
        await until(lambda: len(discord.posts()) == 2)
        discord.ask_to_reconnect()
        await until(lambda: discord.resumes == 2)
        discord.send(f"<@{BOT_ID}> third", "402")
        await until(lambda: len(discord.posts()) == 3)

    assert discord.sessions == 1
    assert len(prompts(tmp_path)) == 3


async def test_a_session_that_discord_has_forgotten_begins_anew(tmp_path: Path, discord: FakeDiscord) -> None:
    async with running(tmp_path, discord):
        discord.refuses_resumes = True
        discord.drop()
        await until(lambda: discord.sessions == 2)
        discord.send(f"<@{BOT_ID}> hello", "400")
        await until(lambda: bool(discord.posts()))

    assert len(prompts(tmp_path)) == 1


async def test_bots_strangers_other_channels_and_what_mentions_nobody_are_not_heard(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    bot = {"id": "5", "username": "b", "discriminator": "0", "avatar": None, "bot": True}
    async with running(tmp_path, discord):
        discord.send(f"<@{BOT_ID}> I am a bot", "400", author=bot)
        discord.send(f"<@{BOT_ID}> by a webhook", "401", webhook_id="77")
        discord.send(f"<@{BOT_ID}> a stranger", "402", author={**bot, "id": "6", "bot": False})
        discord.send(f"<@{BOT_ID}> elsewhere", "403", channel_id="999")
        discord.send("no mention", "404")
        discord.send(f"<@{BOT_ID}> in a thread", "405", channel_id="201")
        discord.send("directly", "406", channel_id="700", guild_id=None)
        await until(lambda: len(discord.posts()) == 2)

    assert sorted(channel for channel, _ in discord.posts()) == ["201", "700"]
    assert len(prompts(tmp_path)) == 2


async def test_words_are_commands_on_discord_too(tmp_path: Path, discord: FakeDiscord) -> None:
    async with running(tmp_path, discord):
        discord.send(f"<@{BOT_ID}> run backup", "400")
        discord.send(f"<@{BOT_ID}> run backup", "400")
        await until((tmp_path / "backed-up").exists)
        await until(lambda: bool(discord.posts()))

    assert [body["content"] for _, body in discord.posts()] == ["backup is due now."]


async def test_the_page_of_a_proxy_instead_of_discord_is_tried_again_until_discord_answers(
    tmp_path: Path, discord: FakeDiscord, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "RENEWAL", worker.RENEWAL / 200)
    discord.is_behind_proxy = True

    async def end_proxy() -> None:
        await until(lambda: caplog.text.count("discord not connected") >= 2)
        discord.is_behind_proxy = False

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(end_proxy())
        async with running(tmp_path, discord):
            discord.send(f"<@{BOT_ID}> hello", "400")
            await until(lambda: bool(discord.posts()))

    assert "Traceback" not in caplog.text


async def test_a_token_that_discord_refuses_is_tried_again_later_and_stops_nothing(
    tmp_path: Path, discord: FakeDiscord, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "RENEWAL", worker.RENEWAL / 200)
    environ = {"BOT": "wrong", "HERDBEAT_DISCORD_API": discord.api, "HERDBEAT_DISCORD_GATEWAY": discord.gateway}
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    loaded = load_config(str(tmp_path / "herdbeat.yaml"), environ, tmp_path)
    assert loaded.fleet is not None

    async with running_fleet(loaded.fleet, environ={**environ, "PATH": os.environ["PATH"]}, folder=tmp_path):
        await until(lambda: caplog.text.count("Discord refused the token of the bot.") >= 2)

    assert discord.sessions == 0
    assert "wrong" not in caplog.text
