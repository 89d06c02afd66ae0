"""Runs on an engine while nodes, processes and the engine itself fail at random: every beat is accounted for.

Starts are counted at the target. The engine is the test's own, which also starts jobs twice and has no room at times.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_ray import FakeRay, fake_ray
from tests.support.remote_fleet import RemoteFleet, is_program_running, wait_for

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

SCHEDULES = ("a", "b", "c", "d")
PERIOD = timedelta(seconds=2)
STORM_S = float(os.environ.get("HERDBEAT_REMOTE_STORM_S") or 60)
SETTLE_S = 120
PROGRAM = """\
import os, time
with open({started!r}, "a") as file:
    file.write(os.environ["HERDBEAT_RUN"] + " " + os.environ["HERDBEAT_BEAT"] + "\\n")
time.sleep(0.3)
"""


class StormFleet(RemoteFleet):
    """Commands that are due every two seconds, each of which runs on the engine."""

    def __init__(self, folder: Path, ray: FakeRay) -> None:
        super().__init__(folder)
        self.ray = ray
        (folder / "program.py").write_text(PROGRAM.format(started=str(self.started)))

    def executor_lines(self) -> str:
        return f"""\
  ray: {{ url: "{self.ray.url}", token_file: exec-token, command: [{sys.executable}, -m, herdbeat], lease: 10s }}
"""

    def command_lines(self) -> str:
        keys = f'command: [{sys.executable}, program.py], executor: ray, cron: "*/2 * * * * *", catchup: skip'
        return "".join(f"  - {{ name: {name}, {keys}, resources: {{ start_timeout: 10s }} }}\n" for name in SCHEDULES)

    def rows(self, what: str, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.ask(f"/{what}?schedule={name}&limit=200{cursor}")
            rows += page["items"]
            if not page["next_cursor"]:
                return rows
            cursor = f"&cursor={page['next_cursor']}"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[StormFleet]:
    with fake_ray() as ray:
        yield StormFleet(tmp_path, ray)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_beat_is_lost_and_none_starts_twice_while_everything_around_an_engine_fails(
    fleet: StormFleet, seed: int
) -> None:
    chance, until = random.Random(seed), time.monotonic() + STORM_S
    has_token = False
    while time.monotonic() < until:
        with fleet.up() as node:
            if not has_token:
                fleet.create_token()
                has_token = True
            storm(fleet, chance, time.monotonic() + chance.uniform(2, 12))
            if chance.random() < 0.5:
                os.kill(node.pid, signal.SIGKILL)
            else:
                node.send_signal(signal.SIGTERM)
            node.wait(60)
    fleet.ray.copies, fleet.ray.cuts, fleet.ray.is_away = 1, 0, False
    fleet.ray.start_all()
    with fleet.up():
        for name in SCHEDULES:
            fleet.ask(f"/schedules/{name}/default/pause", {"reason": "the storm is over"})
        wait_for(lambda: not any(is_open(each) for name in SCHEDULES for each in fleet.rows("beats", name)), SETTLE_S)
        for name in SCHEDULES:
            check_schedule(fleet, name)
        check_starts(fleet)
    wait_for(lambda: not is_program_running(fleet))


def storm(fleet: StormFleet, chance: random.Random, until: float) -> None:
    """Let the engine fail in one way after the other."""
    while time.monotonic() < until:
        fleet.ray.copies = chance.choice([1, 1, 2])
        fleet.ray.cuts, fleet.ray.is_away = chance.choice([0, 0, 1]), chance.random() < 0.1
        if chance.random() < 0.2:
            fleet.ray.full = True
        elif fleet.ray.full:
            fleet.ray.start_all()
        running = [each.name for each in list(fleet.ray.jobs.values()) if each.status == "RUNNING"]
        if running and chance.random() < 0.3:
            # One that only stands still is given up with its lease, and ends with the storm.
            fleet.ray.kill(chance.choice(running), chance.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]))
        time.sleep(chance.uniform(0.1, 0.6))


def is_open(beat: dict[str, Any]) -> bool:
    return beat["outcome"] in ("pending", "running")


def check_schedule(fleet: StormFleet, name: str) -> None:
    """Every instant from the first to the last is in exactly one row."""
    beats = sorted(fleet.rows("beats", name), key=lambda each: str(each["due_at"]))
    first, last = parse(beats[0]["due_at"]), max(parse(each["last_due_at"]) for each in beats)
    assert sum(each["count"] for each in beats) == (last - first) / PERIOD + 1
    assert all(each["reason"] for each in beats if each["outcome"] in ("skipped", "missed"))
    for run in fleet.rows("runs", name):
        assert run["status"] == "succeeded" or run["error"], run


def check_starts(fleet: StormFleet) -> None:
    lines = [line.split() for line in fleet.started.read_text().splitlines()]
    runs, beats = Counter(run for run, _ in lines), Counter(beat for _, beat in lines)
    known = {str(each["id"]) for name in SCHEDULES for each in fleet.rows("runs", name)}
    succeeded = {
        str(each["id"]) for name in SCHEDULES for each in fleet.rows("runs", name) if each["status"] == "succeeded"
    }
    assert [run for run, count in runs.items() if count > 1] == []
    assert [beat for beat, count in beats.items() if count > 1] == []
    assert runs.keys() <= known
    assert succeeded <= runs.keys()
    assert succeeded, "something ran"


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)
