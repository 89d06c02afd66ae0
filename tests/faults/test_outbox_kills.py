"""kill -9 between a run and what its hooks tell. The oracle reads the log of the receiver and a file of the program."""

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.fault_fleet import wait_until
from tests.support.warm_start import WarmProcess
from tests.support.webhook_receiver import WebhookReceiver, receive_webhooks

from herdbeat.domain.outbox import DeliveryRecord, DeliveryState
from herdbeat.domain.run import RunStatus
from herdbeat.failpoints import Failpoint
from herdbeat.store.reader import Filter, SqliteReader

FLEET = """\
version: 1
fleet: {{ name: hooks }}
timezone: UTC
commands:
  - name: ticker
    command: [sh, -c, 'exit 0']
    cron: "* * * * * *"
    after_run:
      - {{ type: webhook, url: "{url}" }}
      - {{ type: command, command: [sh, -c, 'echo $HERDBEAT_MESSAGE >> started'] }}
"""


def start(folder: Path, crash_at: str = "", *, applies: bool = False) -> subprocess.Popen[bytes]:
    environ = {**os.environ, **({"HERDBEAT_CRASH_AT": crash_at} if crash_at else {})}
    arguments = [str(folder), *(["--apply"] if applies else [])]
    with (folder / "log").open("ab") as log:
        process = WarmProcess("tests.faults.node_process", *arguments, stderr=log, env=environ)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


def read_ledger(folder: Path) -> tuple[set[int], list[DeliveryRecord]]:
    """Return the runs that have succeeded, and all deliveries."""
    with closing(SqliteReader(folder / ".herdbeat" / "herdbeat.db")) as reader:
        runs = {run.id for run in reader.runs(Filter(status=RunStatus.SUCCEEDED, limit=10_000))}
        return runs, reader.deliveries(limit=10_000)


def check(folder: Path, receiver: WebhookReceiver) -> None:
    runs, deliveries = read_ledger(folder)
    messages = [each for each in deliveries if not each.is_once]
    programs = [each for each in deliveries if each.is_once]
    starts = (folder / "started").read_text(encoding="utf-8").split()

    assert {each.run_id for each in messages} == runs  # every run that is recorded as ended has told it
    assert {each.message_id for each in messages} == set(receiver.count_taken())
    assert len(starts) == len(set(starts)), "a program was started twice"
    ended = {each.message_id for each in programs if each.state is DeliveryState.SENT}
    maybe = {each.message_id for each in programs if each.state is DeliveryState.UNKNOWN}
    assert ended <= set(starts) <= ended | maybe


@pytest.mark.parametrize(
    "point", [Failpoint.BEFORE_FINISH, Failpoint.AFTER_FINISH, Failpoint.BEFORE_DELIVERY, Failpoint.AFTER_DELIVERY]
)
def test_a_node_that_is_killed_loses_no_message_and_starts_no_program_twice(tmp_path: Path, point: Failpoint) -> None:
    with receive_webhooks() as receiver:
        (tmp_path / "herdbeat.yaml").write_text(FLEET.format(url=receiver.url), encoding="utf-8")
        killed = start(tmp_path, f"{point}:2:KILL")
        killed.wait(60)
        assert killed.stdout is not None
        killed.stdout.close()

        restarted, seen = start(tmp_path), len(receiver.count_taken())
        wait_until(lambda: len(receiver.count_taken()) > seen + 1, lambda: str(receiver.log))
        stop(restarted)

        check(tmp_path, receiver)
