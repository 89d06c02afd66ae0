"""Runs on a real Ray: a head, a worker, and everything that can die while they work.

Starts and ends are counted at the programs themselves: each adds a line to a file.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.remote_fleet import SECRET_PROMPT, RemoteFleet, is_program_running, wait_for
from tests.system.parts import read_states
from tests.system.ray_cluster import RayCluster, ray_cluster

from herdbeat.domain.ids import parse_short_id

RUNS = 200
CPUS = 2
"""Of each of the two nodes. A run takes half of one, so eight run at a time."""
CONCURRENT = 14
"""More than there is room for, so that the cluster is full until the last are started."""
DEADLINE_S = 600

PROGRAM = """\
import os, sys, time

def write(what):
    with open({folder!r} + "/events", "a") as file:
        file.write(what + " " + os.environ["HERDBEAT_RUN"] + " " + sys.argv[1] + "\\n")

write("start")
while "held" in sys.argv[1] and not os.path.exists({folder!r} + "/release-" + sys.argv[1]):
    time.sleep(0.1)
write("end")
"""
HELD = {
    "held-exec": "{}",
    "held-cancel": "{}",
    "held-node": "{}",
    "held-worker": "{ place: worker }",
    "held-head": "{ place: worker }",
}
"""Runs that end only when the test says so, each for one of the faults; with the node that they want."""

pytestmark = [pytest.mark.needs("ray"), pytest.mark.timeout(1400)]


class RayFleet(RemoteFleet):
    """Two hundred commands that run on Ray when they are told to."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.lease = "45s"
        self.names = [*HELD, *(f"short-{number:03}" for number in range(RUNS - len(HELD)))]
        self.waiting = list(self.names)
        (folder / "program.py").write_text(PROGRAM.format(folder=str(folder)))

    def executor_lines(self) -> str:
        return f"""\
  ray:
    url: "{self.cluster.url}"
    token_file: {self.token_file}
    command: [{sys.executable}, -m, herdbeat]
    lease: {self.lease}
"""

    def command_lines(self) -> str:
        return "".join(
            f"""\
  - name: {name}
    command: [{sys.executable}, program.py, {name}]
    executor: ray
    resources: {{ cpus: 0.5, start_timeout: 15m, node_selector: {HELD.get(name, "{}")} }}
    every: 1d
    first_run: after_interval
    prompt: {SECRET_PROMPT}
"""
            for name in self.names
        )

    def advance(self, is_reached: Callable[[], bool]) -> None:
        """Start the next commands whenever others have ended, until it is reached."""

        def start_next() -> bool:
            for _ in range(min(CONCURRENT - self.count_running(), len(self.waiting))):
                self.ask(f"/schedules/{self.waiting.pop(0)}/default/runs", {})
            return is_reached()

        wait_for(start_next, DEADLINE_S)

    def count_running(self) -> int:
        return len(self.ask("/runs?status=running&limit=100")["items"])

    def finish(self, count: int) -> None:
        """Start commands until so many have finished."""
        self.advance(lambda: RUNS - len(self.waiting) - self.count_running() >= count)

    def events(self, what: str) -> dict[str, list[str]]:
        """Return the runs that have started or ended, by the name of their command."""
        found: dict[str, list[str]] = {}
        file = self.folder / "events"
        for line in file.read_text().splitlines() if file.exists() else ():
            word, run, name = line.split()
            if word == what:
                found.setdefault(name, []).append(run)
        return found

    def run_of(self, name: str) -> str:
        return self.events("start")[name][0]

    def release_held(self, name: str) -> None:
        (self.folder / f"release-{name}").touch()

    def list_all(self, path: str) -> list[dict[str, Any]]:
        """Return every item of a list, page by page."""
        items: list[dict[str, Any]] = []
        page = self.ask(f"{path}?limit=100")
        items += page["items"]
        while page.get("next_cursor"):
            page = self.ask(f"{path}?limit=100&cursor={page['next_cursor']}")
            items += page["items"]
        return items


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[RayFleet]:
    with ray_cluster(read_states()["ray"].program, CPUS) as cluster:
        yield RayFleet(tmp_path, cluster)


def test_two_hundred_runs_over_two_nodes_of_which_everything_dies_once(fleet: RayFleet) -> None:
    with fleet.up() as node:
        fleet.create_token()
        fleet.advance(lambda: fleet.events("start").keys() >= HELD.keys())
        kill_exec(fleet.run_of("held-exec"))
        fleet.ask(f"/runs/{fleet.run_of('held-cancel')}/cancel", {})
        fleet.finish(RUNS // 8)
        os.kill(node.pid, signal.SIGKILL)
        node.wait()
        wait_for(lambda: not fleet.is_ready())
    with fleet.up():
        fleet.release_held("held-node")
        fleet.finish(RUNS // 3)
        nodes = {each["driver_node_id"] for each in fleet.cluster.jobs() if each["driver_node_id"]}
        records = json.dumps(fleet.cluster.jobs())
        fleet.cluster.kill("head")
        fleet.release_held("held-head")
        wait_for(lambda: fleet.ask(f"/runs/{fleet.run_of('held-head')}")["status"] != "running")
        fleet.cluster.kill("worker")
        fleet.cluster.start_head(CPUS)
        fleet.cluster.start_worker(CPUS)
        fleet.finish(RUNS * 2 // 3)
        fleet.cluster.kill("worker")
        fleet.cluster.start_worker(CPUS)
        fleet.finish(RUNS)
        beats, runs = fleet.list_all("/beats"), fleet.list_all("/runs")

    assert len(nodes) == 2
    check_accounts(fleet, beats, runs)
    by_name = {each["schedule"]: each["status"] for each in runs}
    assert by_name["held-exec"] == by_name["held-worker"] == "interrupted"
    assert by_name["held-cancel"] == "cancelled"
    assert by_name["held-node"] == "succeeded", "it outlives the node that has submitted it"
    assert by_name["held-head"] == "succeeded", "it outlives the head of the cluster that has started it"
    assert Counter(by_name.values())["succeeded"] > RUNS / 2
    wait_for(lambda: not is_program_running(fleet))
    token = fleet.token_file.read_text()
    assert SECRET_PROMPT not in records
    assert token not in records
    assert fleet.cluster.find_text(SECRET_PROMPT, token) == []


def check_accounts(fleet: RayFleet, beats: list[dict[str, Any]], runs: list[dict[str, Any]]) -> None:
    """Compare the ledger with what the programs themselves have written."""
    starts, ends = fleet.events("start"), fleet.events("end")
    assert [name for name, found in starts.items() if len(found) > 1] == [], "nothing starts twice"
    assert sorted(each["schedule"] for each in beats) == sorted(fleet.names), "one beat per command"
    assert sorted(each["schedule"] for each in runs) == sorted(fleet.names), "one run per beat"
    for run in runs:
        name, status = run["schedule"], run["status"]
        if name in starts:
            assert starts[name] == [run["id"]]
        assert (status == "succeeded") <= (name in starts and name in ends), run
        assert status in ("succeeded", "interrupted", "cancelled"), run
        assert status == "succeeded" or run["error"], f"no reason: {run}"
    assert all(each["outcome"] == "ran" and each["result"] for each in beats)


def kill_exec(run_id: str) -> None:
    """Kill the process that Ray has started for a run."""
    wanted = [b"exec", str(parse_short_id(run_id)).encode()]
    for each in Path("/proc").glob("[0-9]*"):
        try:
            argv = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(argv[at : at + 2] == wanted for at in range(len(argv))) and b"herdbeat" in argv:
            os.kill(int(each.name), signal.SIGKILL)
            return
    raise AssertionError(f"no process of run {run_id}")
