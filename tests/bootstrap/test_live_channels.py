"""Channels, the dead-man monitor and chat follow the files of a running fleet, also the first of their kind."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.service.chat.test_live_slack import until
from tests.support.fake_slack import FakeSlack, build_event, run_slack
from tests.support.webhook_receiver import WebhookReceiver, receive_webhooks

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.service.commands.base import Actor, ChangeEpisodes

PLAIN = """\
version: 1
timezone: UTC
check_interval: 1s
commands:
  - { name: bad, command: ["false"], every: 1h }
  - { name: later, command: ["false"], cron: "0 0 1 1 *" }
agents:
  - { name: helper, runtime: fake, cron: "0 0 1 1 *", prompt: hello }
"""
PERSON = Actor(name="me")


@dataclass
class LiveFleet:
    """A fleet that runs in this process, and whose file is changed."""

    folder: Path
    environ: dict[str, str]
    node: RunningFleet

    async def change(self, text: str) -> None:
        path = self.folder / "herdbeat.yaml"
        path.write_text(text, encoding="utf-8")
        fleet = load_config(str(path), self.environ, self.folder).fleet
        assert fleet is not None
        await self.node.apply(PERSON, fleet)


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with receive_webhooks() as opened:
        yield opened


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with run_slack() as opened:
        yield opened


@asynccontextmanager
async def running(folder: Path, text: str = PLAIN, **variables: str) -> AsyncIterator[LiveFleet]:
    (folder / "herdbeat.yaml").write_text(text, encoding="utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "FAKE_AGENT_HOME": str(folder / "sessions"),
        **variables,
    }
    fleet = load_config(str(folder / "herdbeat.yaml"), environ, folder).fleet
    assert fleet is not None
    async with running_fleet(fleet, environ=environ, folder=folder) as node:
        yield LiveFleet(folder, environ, node)


async def test_the_first_channel_of_a_running_fleet_reports_without_a_restart(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    channel = f'notify: {{ ops: {{ type: webhook, url: "{receiver.url}", group_within: 1s }} }}\n'

    async with running(tmp_path) as fleet:
        await fleet.change(PLAIN + channel)
        await until(lambda: bool(receiver.log))

    assert [(body["condition"], body["schedule"]) for body in receiver.bodies()] == [("failing", "bad")]


async def test_a_first_channel_does_not_report_how_an_earlier_node_ended(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    rules = "conditions: [failing, stopped], group_within: 1s"
    channel = f'notify: {{ ops: {{ type: webhook, url: "{receiver.url}", {rules} }} }}\n'
    async with running(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db")) as ledger, ledger:
        ledger.execute("UPDATE node SET stopped_at = NULL")  # as after kill -9

    async with running(tmp_path) as fleet:
        await fleet.change(PLAIN.replace("name: bad", "name: worse") + channel)
        await until(lambda: bool(receiver.log))
        told = [body["condition"] for body in receiver.bodies()]

    assert told == ["failing"]


async def test_a_schedule_that_is_snoozed_after_its_message_is_told_again_if_it_still_fails(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    channel = f'notify: {{ ops: {{ type: webhook, url: "{receiver.url}", group_within: 1s }} }}\n'

    async with running(tmp_path, PLAIN + channel) as fleet:
        await until(lambda: len(receiver.log) == 1)
        soon = fleet.node.clock.now() + timedelta(seconds=1)
        await fleet.node.dispatcher.run(PERSON, ChangeEpisodes(subjects=("bad",), until=soon))
        await until(lambda: len(receiver.log) == 2)

    assert [body["condition"] for body in receiver.bodies()] == ["failing", "failing"]  # by two ids


async def test_a_stop_in_quiet_hours_is_not_told_before_they_end(tmp_path: Path, receiver: WebhookReceiver) -> None:
    now = datetime.now(UTC)
    quiet = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    rules = f'conditions: [stopped], group_within: 1s, quiet_hours: "{quiet}"'
    ledger_file = tmp_path / ".herdbeat" / "herdbeat.db"

    async with running(
        tmp_path, f'{PLAIN}notify: {{ ops: {{ type: webhook, url: "{receiver.url}", {rules} }} }}\n'
    ) as it:
        await until(lambda: it.node.node.loop is not None)
        it.node.node.stop(timedelta(seconds=5))
        await it.node.wait_stopped()
    with closing(sqlite3.connect(ledger_file)) as ledger:
        episodes = ledger.execute("SELECT condition, told_at FROM episode").fetchall()

    assert episodes == [("stopped", None)]
    assert receiver.log == []


async def test_the_dead_man_ping_begins_when_it_is_written_into_the_file(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running(tmp_path) as fleet:
        await fleet.change(f'{PLAIN}dead_man: {{ url: "{receiver.url}", every: 1s }}\n')
        await until(lambda: receiver.pings >= 2)


async def test_a_loop_whose_ledger_takes_no_claim_completes_no_cycle(tmp_path: Path) -> None:
    """So the dead-man ping stops: nothing would start."""
    async with running(tmp_path) as fleet:
        await until(lambda: fleet.node.node.loop is not None and fleet.node.node.loop.completed_cycles > 0)
        loop = fleet.node.node.loop
        assert loop is not None
        with closing(sqlite3.connect(tmp_path / ".herdbeat" / "herdbeat.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # another program holds the ledger
            completed, attempted = loop.completed_cycles, loop.cycles
            await until(lambda: loop.cycles >= attempted + 2)  # the first of them has failed
            assert loop.completed_cycles == completed
            other.execute("ROLLBACK")
        await until(lambda: loop.completed_cycles > completed)


async def test_a_chat_block_that_is_added_to_a_running_fleet_is_connected_without_a_restart(
    tmp_path: Path, slack: FakeSlack
) -> None:
    keys = "bot_token_env: BOT, app_token_env: APP, users: [U1], channels: [{ id: C1, mode: auto }]"
    chat = PLAIN.replace("prompt: hello", f"prompt: hello, chat: {{ slack: {{ {keys} }} }}")

    async with running(tmp_path, BOT="xoxb-secret", APP="xapp-secret", HERDBEAT_SLACK_API=slack.api) as fleet:
        await fleet.change(chat)
        await until(lambda: slack.is_connected)
        slack.send(build_event("hello fake:answer=fine"))
        await until(lambda: slack.answers() == ["fine"])
        await fleet.change(chat.replace("users: [U1]", "users: [U2]"))
        slack.send(build_event("hello again fake:answer=heard", at="1700000001.000100"))
        slack.send(build_event("hello from two fake:answer=two", at="1700000002.000100", user="U2"))
        await until(lambda: "two" in slack.answers())
        await fleet.change(PLAIN)
        await until(lambda: not slack.is_connected)

    assert slack.answers() == ["fine", "two"]
