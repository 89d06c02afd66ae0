"""Two nodes, one outbox, kill -9: the oracle reads the log of the receiver, by id."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.faults.test_outbox_kills import kill, start, stop
from tests.support.fault_fleet import wait_until
from tests.support.webhook_receiver import WebhookReceiver, receive_webhooks

from herdbeat.domain.outbox import DeliveryRecord, DeliveryState
from herdbeat.domain.run import RunStatus
from herdbeat.failpoints import Failpoint
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter

FLEET = """\
version: 1
fleet: {{ name: told }}
timezone: UTC
store: "{store}"
lease: 5s
notify:
  ops:
    type: webhook
    url: "{url}"
    conditions: [failing, node_lost, recovered]
    group_within: 1s
commands:
  - name: ticker
    command: ["true"]
    cron: "* * * * * *"
    instances: {{ max_concurrent: 5 }}
    after_run:
      - {{ type: webhook, url: "{url}" }}
      - {{ type: webhook, url: "{url}", name: again }}
  - {{ name: bad, command: ["false"], every: 1s, backoff: {{ factor: 1 }} }}
"""


@dataclass(slots=True)
class TwoNodes:
    folder: Path
    database: PostgresLocation
    receiver: WebhookReceiver
    alive: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, crash_at: str = "") -> None:
        home = self.folder / name
        if is_first := not home.exists():
            home.mkdir()
            text = FLEET.format(store=self.database.url, url=self.receiver.url)
            (home / "herdbeat.yaml").write_text(text, encoding="utf-8")
        applies = is_first and not self.alive
        self.alive[name] = start(home, crash_at, applies=applies)

    def log(self) -> str:
        return "".join((self.folder / name / "log").read_text() for name in self.alive) + str(self.receiver.log[-5:])

    def deliveries(self) -> list[DeliveryRecord]:
        with closing(open_reader(self.database)) as reader:
            return reader.deliveries(limit=10_000)

    def ended_runs(self) -> set[int]:
        with closing(open_reader(self.database)) as reader:
            found = reader.runs(Filter(target="ticker", status=RunStatus.SUCCEEDED, limit=10_000))
            return {run.id for run in found}


@pytest.fixture
def nodes(tmp_path: Path, database: PostgresLocation) -> Iterator[TwoNodes]:
    with receive_webhooks() as receiver:
        nodes = TwoNodes(tmp_path, database, receiver)
        yield nodes
        for process in nodes.alive.values():
            if process.poll() is None:
                kill(process)


@pytest.mark.parametrize(
    "point", [pytest.param(Failpoint.BEFORE_DELIVERY, marks=pytest.mark.soak), Failpoint.AFTER_DELIVERY]
)
def test_a_killed_node_leaves_its_messages_to_the_other_and_is_told_as_lost(nodes: TwoNodes, point: Failpoint) -> None:
    nodes.start("one")
    nodes.start("two", f"{point}:3:KILL")
    nodes.alive["two"].wait(60)
    assert nodes.alive["two"].stdout is not None
    nodes.alive["two"].stdout.close()

    def told() -> list[str]:
        return [str(body.get("condition")) for body in nodes.receiver.bodies() if "condition" in body]

    def sent_ids() -> set[str]:
        return {each.message_id for each in nodes.deliveries() if each.state is DeliveryState.SENT}

    left = {each.message_id for each in nodes.deliveries()}  # among them what the dead node was sending
    wait_until(lambda: left <= sent_ids(), nodes.log)  # long before the twelve minutes of its lease
    assert left <= set(nodes.receiver.count_taken())
    wait_until(lambda: {"node_lost", "failing"} <= set(told()), nodes.log)
    stop(nodes.alive["one"])

    deliveries, sent = nodes.deliveries(), sent_ids()
    taken = nodes.receiver.count_taken()
    assert sent <= set(taken) <= {each.message_id for each in deliveries}  # nothing lost, nothing invented
    assert {each.run_id for each in deliveries if each.run_id is not None} == nodes.ended_runs()
    repeated = [each.channel for each in deliveries if taken[each.message_id] > 1]
    assert len(repeated) == len(set(repeated))  # at most what was being sent when the node died: one of each channel
    assert told().count("failing") == 1
    assert told().count("node_lost") == 1
