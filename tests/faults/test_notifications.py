"""A fleet that fails, is killed and comes back. The oracle reads the log of the receiver."""

import json
from pathlib import Path
from typing import Any

from tests.faults.test_outbox_kills import kill, start, stop
from tests.support.fault_fleet import wait_until
from tests.support.webhook_receiver import receive_webhooks

FLEET = """\
version: 1
fleet: {{ name: told }}
timezone: UTC
notify:
  ops:
    type: webhook
    url: "{url}"
    conditions: [failing, stopped, recovered]
    failing_after: 2
    group_within: 1s
commands:
{commands}"""
COMMAND = """\
  - {{ name: job-{number}, command: [sh, -c, 'exit 3'], every: 1s, backoff: {{ factor: 1 }} }}
"""


def test_schedules_that_fail_are_one_message_also_if_the_node_is_killed_and_the_receiver_was_down(
    tmp_path: Path,
) -> None:
    with receive_webhooks() as receiver:
        receiver.status = 500
        commands = "".join(COMMAND.format(number=number) for number in range(5))
        (tmp_path / "herdbeat.yaml").write_text(FLEET.format(url=receiver.url, commands=commands), encoding="utf-8")
        first = start(tmp_path)
        wait_until(lambda: len(receiver.log) > 0, (tmp_path / "log").read_text)
        kill(first)
        receiver.status = 200

        second = start(tmp_path)
        wait_until(lambda: len(receiver.bodies()) >= 2, lambda: str(receiver.log))
        stop(second)

        told = [(body["condition"], body["count"]) for body in receiver.bodies()]
        assert told.count(("failing", 5)) == 1
        assert told[-1] == ("stopped", 1)  # the orderly stop
        assert [condition for condition, _ in told].count("stopped") == 2  # and the crash, told by the next start
        assert "exit 3" not in json.dumps(receiver.bodies()[0])  # the program of the fleet file


EVERYTHING = """\
version: 1
fleet: {{ name: told }}
timezone: UTC
notify:
  ops:
    type: webhook
    url: "{url}"
    conditions: [late, failing, needs_you, rate_limited, budget]
    group_within: 1s
agents:
  - {{ name: asks, runtime: fake, every: 1h, prompt: "fake:deny=Bash" }}
  - {{ name: limited, runtime: fake, every: 1h, prompt: "fake:limit=1h" }}
commands:
  - {{ name: spends, command: ["true"], every: 1s, budget: {{ runs_per_day: 1 }} }}
  - {{ name: breaks, command: ["false"], every: 1h }}
  - name: slow
    command: [sleep, "60"]
    schedules: {{ first: {{ every: 1h }}, second: {{ every: 1h, late_after: 1s }} }}
"""


def test_every_condition_of_a_schedule_is_told_once(tmp_path: Path) -> None:
    with receive_webhooks() as receiver:
        (tmp_path / "herdbeat.yaml").write_text(EVERYTHING.format(url=receiver.url), encoding="utf-8")

        second = start(tmp_path)
        wanted = {"late", "failing", "needs_you", "rate_limited", "budget"}
        wait_until(lambda: wanted <= {body["condition"] for body in receiver.bodies()}, lambda: str(receiver.bodies()))
        stop(second)

        told = [(body["condition"], body["subject"]) for body in receiver.bodies() if body["condition"] in wanted]
        assert len(told) == len(set(told))  # never one per beat
        subjects = dict(told)
        assert subjects["needs_you"] == "asks"
        assert subjects["failing"] == "breaks"
        assert subjects["budget"] == "spends"
        assert subjects["late"] == "slow/second"
        assert all(body["url"] is None and body["since"] and body["text"] for body in receiver.bodies())


DAILY = """\
version: 1
fleet: {{ name: told }}
timezone: UTC
notify:
  ops: {{ type: webhook, url: "{url}", conditions: [missed, recovered], group_within: 1s }}
commands:
  - {{ name: often, command: ["true"], cron: "* * * * * *" }}
  - {{ name: rarely, command: ["true"], cron: "0 0 1 1 *" }}
  - {{ name: nightly, command: ["true"], cron: "0 3 * * *" }}
"""


def test_what_was_missed_over_a_weekend_is_told_also_if_the_next_beat_has_run_by_then(tmp_path: Path) -> None:
    with receive_webhooks() as receiver:
        (tmp_path / "herdbeat.yaml").write_text(DAILY.format(url=receiver.url), encoding="utf-8")
        kill(start(tmp_path))
        (tmp_path / "clock").write_text(str(60 * 60 * 60), encoding="utf-8")  # two and a half days later

        second = start(tmp_path)
        wait_until(lambda: len(receiver.bodies()) >= 1, lambda: str(receiver.log) + (tmp_path / "log").read_text())
        stop(second)
        third = start(tmp_path)  # it has nothing to add
        stop(third)

        told = [body for body in receiver.bodies() if body["condition"] == "missed"]
        assert sorted(name for body in told for name in body["schedules"]) == ["nightly", "often"]
        assert "recovered" not in {body["condition"] for body in receiver.bodies() if "nightly" in body["schedules"]}


DIGEST = """\
version: 1
fleet: {{ name: told }}
timezone: Europe/Berlin
server: {{ public_url: "https://herd.example.com" }}
notify:
  ops: {{ type: webhook, url: "{url}", conditions: [stopped], digest: "*/10 * * * * *" }}
  prod: {{ type: webhook, url: "{url}", conditions: [stopped], digest: "*/10 * * * * *", only: {{ tags: [prod] }} }}
commands:
  - {{ name: good, command: ["true"], every: 1s, tags: [prod] }}
  - {{ name: bad, command: ["false"], every: 1s, backoff: {{ factor: 1 }} }}
"""


def test_a_digest_counts_each_run_once_and_only_what_its_channel_is_about(tmp_path: Path) -> None:
    with receive_webhooks() as receiver:
        (tmp_path / "herdbeat.yaml").write_text(DIGEST.format(url=receiver.url), encoding="utf-8")

        def digests() -> dict[str, list[dict[str, Any]]]:
            found = [body for body in receiver.bodies() if body["condition"] == "digest"]
            return {each["since"]: [other for other in found if other["since"] == each["since"]] for each in found}

        node = start(tmp_path)
        wait_until(lambda: len(digests()) >= 2, lambda: str(receiver.log))
        stop(node)

        by_time = list(digests().values())
        whole, prod = sorted(by_time[-1], key=lambda body: len(body["failed"]), reverse=True)
        assert set(whole["failed"]) == {"bad"}
        assert whole["failed"]["bad"] <= 10  # those of ten seconds, not of all time
        assert prod["failed"] == {}
        assert prod["upcoming"] == ["good"]
        assert whole["url"] == "https://herd.example.com"
        assert whole["text"].startswith("Since ")
        assert "Next: " in whole["text"]
        assert len(receiver.count_taken()) == len(receiver.bodies())
