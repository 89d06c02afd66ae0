"""Slack, from its socket to the thread: a real node in this process, a real agent program, and a Slack beside them."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_slack import FakeSlack, build_event, run_slack

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.store.location import open_reader
from herdbeat.store.reader import Filter

FLEET = """\
version: 1
timezone: UTC
agents:
  - name: helper
    runtime: fake
    instances: { max_concurrent: 5 }
    chat:
      slack:
        bot_token_env: BOT
        app_token_env: APP
        users: [U1]
        channels: [{ id: C1, mode: auto }]
commands:
  - { name: backup, command: [touch, backed-up], cron: "0 0 1 1 *" }
"""
WAIT_S = 20


@pytest.fixture
def slack() -> Any:
    with run_slack() as server:
        yield server


@asynccontextmanager
async def running(folder: Path, slack: FakeSlack, fleet: str = FLEET) -> AsyncIterator[RunningFleet]:
    (folder / "herdbeat.yaml").write_text(fleet, encoding="utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BOT": "xoxb-secret",
        "APP": "xapp-secret",
        "HERDBEAT_SLACK_API": slack.api,
        "FAKE_AGENT_LOG": str(folder / "agent.log"),
        "FAKE_AGENT_HOME": str(folder / "sessions"),
    }
    loaded = load_config(str(folder / "herdbeat.yaml"), environ, folder)
    assert loaded.fleet is not None
    async with running_fleet(loaded.fleet, environ=environ, folder=folder) as node:
        await until(lambda: slack.is_connected)
        yield node


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process or thread does."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 -- of another process or thread
            await asyncio.sleep(0.02)


def prompts(folder: Path) -> list[str]:
    """Return what the agent was asked, by its own record."""
    log = folder / "agent.log"
    return [json.loads(line)["prompt"] for line in log.read_text().splitlines()] if log.exists() else []


async def test_a_message_is_answered_in_its_thread(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        envelope = slack.send(build_event("<@U0BOT> how are you fake:answer=fine_<!channel>_<@U9>"))
        await until(lambda: bool(slack.answers()))

    (answer,) = [each for each in slack.posts() if not each["text"].startswith("Working")]
    assert (answer["channel"], answer["thread_ts"]) == ("C1", "1700000000.000100")
    assert answer["text"] == "fine &lt;!channel&gt; &lt;@U9&gt;"  # it mentions nobody
    assert slack.acks == [envelope]
    assert len(prompts(tmp_path)) == 1
    assert "how are you" in prompts(tmp_path)[0]


async def test_a_post_that_is_delivered_four_times_in_two_shapes_runs_once(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        slack.send(build_event("<@U0BOT> hello fake:answer=hi"))
        slack.send(build_event("<@U0BOT> hello fake:answer=hi"))
        slack.send(build_event("<@U0BOT> hello fake:answer=hi", type="message", channel_type="channel"))
        await until(lambda: bool(slack.answers()))
        slack.send(build_event("<@U0BOT> hello fake:answer=hi"))
        await until(lambda: len(slack.acks) == 4)

    assert len(prompts(tmp_path)) == 1
    assert slack.answers() == ["hi"]


async def test_bots_strangers_and_other_channels_are_not_heard(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        slack.send(build_event("hello", at="1.1", bot_id="B1"))
        slack.send(build_event("hello", at="1.2", user="U0BOT"))
        slack.send(build_event("hello", at="1.3", user="U9"))
        slack.send(build_event("hello", at="1.4", channel="C9"))
        slack.send(build_event("hello", at="1.5", subtype="message_changed"))
        await until(lambda: len(slack.acks) == 5)

    assert prompts(tmp_path) == []
    assert slack.calls == []


async def test_a_reply_in_the_thread_resumes_its_conversation_and_another_thread_does_not(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with running(tmp_path, slack) as node:
        for number, thread in enumerate(["10.1", "20.1", "10.1"]):
            slack.send(build_event(f"turn {number} fake:answer=ok", at=f"{10 * number + 1}.5", thread_ts=thread))
            await until(lambda count=number + 1: len(slack.answers()) == count)  # type: ignore[misc]
        reader = open_reader(node.store.location)
        sessions = [each.session for each in reader.runs(Filter(limit=10))][::-1]
        reader.close()

    assert sessions[0] == sessions[2] != sessions[1]
    arguments = [json.loads(line)["argv"] for line in (tmp_path / "agent.log").read_text().splitlines()]
    assert f"--resume={sessions[0]}" in arguments[2]


async def test_words_are_commands_of_named_users_and_happen_once(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        slack.send(build_event("run backup", at="1.1"))
        slack.send(build_event("run backup", at="1.1"))
        await until((tmp_path / "backed-up").exists)
        slack.send(build_event("pause backup for 2h", at="1.2"))
        slack.send(build_event("status", at="1.3"))
        await until(lambda: len(slack.answers()) == 3)

    replies = slack.answers()
    assert replies[0] == "backup is due now."
    assert replies[1].startswith("1 paused for 2h.")
    assert "helper/chat: ok, waits for an event" in replies[2]
    assert prompts(tmp_path) == []


async def test_a_pause_is_planned_listed_and_cancelled_by_words(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        for number, words in enumerate(
            (
                "pause backup from tomorrow 22:00 until 02:00",
                "pause backup from 25:00 until 26:00",
                "pauses",
                "pauses cancel 1",
                "pauses cancel 99",
                "pauses",
                "pause backup for 99999999d",
            )
        ):
            slack.send(build_event(words, at=f"1.{number}"))
            await until(lambda count=number + 1: len(slack.answers()) == count)  # type: ignore[misc]

    replies = slack.answers()
    assert re.fullmatch(
        r"backup is paused from \S+ 22:00 until \S+ 02:00 \(\S+\). Undo: pauses cancel 1", replies[0]
    ), replies
    assert "not a valid time" in replies[1]
    assert replies[2].startswith("1: backup, ")
    assert replies[3] == "Cancelled the planned pause of backup."
    assert "99" in replies[4]
    assert replies[5] == "No pause is planned."
    assert "99999999d" in replies[6]
    assert prompts(tmp_path) == []


async def test_without_users_words_are_only_conversation(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack, FLEET.replace("users: [U1]", "users: []")):
        slack.send(build_event("run backup", at="1.1"))
        await until(lambda: bool(slack.answers()))

    assert len(prompts(tmp_path)) == 1
    assert not (tmp_path / "backed-up").exists()


async def test_stop_ends_the_run_of_the_agent(tmp_path: Path, slack: FakeSlack) -> None:
    async with running(tmp_path, slack):
        slack.send(build_event("wait fake:hang", at="1.1"))
        await until(lambda: len(prompts(tmp_path)) == 1)
        slack.send(build_event("stop", at="1.2"))
        await until(lambda: len(slack.answers()) == 2)

    assert any(each.startswith("Stopping 1 active") for each in slack.answers())
    assert any("was stopped" in each for each in slack.answers())


async def test_a_long_answer_is_a_file(tmp_path: Path, slack: FakeSlack) -> None:
    words = "_".join(["word"] * 5_000)
    async with running(tmp_path, slack):
        slack.send(build_event(f"go fake:answer={words}", at="1.1"))
        await until(lambda: any(method == "files.completeUploadExternal" for method, _ in slack.calls))

    assert slack.files == [words.replace("_", " ")]
