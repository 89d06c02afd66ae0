"""Agents on an engine: answer, cost, marks, limits, deadline and isolation are those of a run on the node."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_ray import fake_ray
from tests.support.remote_fleet import DEADLINE_S, FakeRayFleet, wait_for

pytestmark = pytest.mark.timeout(6 * DEADLINE_S)

AGENTS = {
    "answers": ("fake:answer=three_issues fake:cost=0.25 fake:deny=Bash", ""),
    "quiet": ("fake:quiet", ""),
    "limited": ("fake:limit=30m fake:tools=0", ""),
    "slow": ("fake:hang", ", timeout: 3s"),
    "confined": ("fake:answer=from_inside", ", isolation: bwrap"),
}


class AgentRayFleet(FakeRayFleet):
    """Five agents whose runs happen on an engine of the test."""

    @contextmanager
    def up(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Start it with a token: one of its agents is isolated, so the server trusts nobody on this machine without."""
        self.write()
        self.admin_token = json.loads(self.call("token", "create", "tests", "--scope", "admin", "--json"))["token"]
        with super().up() as process:
            yield process

    def executor_lines(self) -> str:
        return f"""\
  ray:
    url: "{self.ray.url}"
    token_file: exec-token
    command: [{sys.executable}, -m, herdbeat]
agents:
{"".join(self._agent_line(name, *each) for name, each in AGENTS.items())}"""

    def command_lines(self) -> str:
        return "  []\n"

    def _agent_line(self, name: str, prompt: str, more: str) -> str:
        keys = f"runtime: fake, executor: ray, resources: {{ start_timeout: 80s }}, account: {name}"
        return f'  - {{ name: {name}, {keys}, schedules: {{ work: {{ type: manual, prompt: "{prompt}"{more} }} }} }}\n'

    def finish(self, name: str) -> dict[str, Any]:
        """Run an agent, and return its run once it has ended."""
        self.ask(f"/schedules/{name}/work/runs", {})

        def newest() -> dict[str, Any]:  # lists of runs leave out the skipped ones
            items = self.ask(f"/beats?schedule={name}/work")["items"]
            return dict(items[0]) if items else {}

        wait_for(lambda: newest().get("outcome", "pending") not in ("pending", "running"))
        return self.ask(f"/runs/{newest()['runs'][0]}")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[AgentRayFleet]:
    with fake_ray() as ray:
        yield AgentRayFleet(tmp_path, ray)


def test_an_agent_on_an_engine_answers_costs_and_asks_as_one_on_the_node(fleet: AgentRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        run, quiet = fleet.finish("answers"), fleet.finish("quiet")
        marked = fleet.ask("/attention")["items"]
    assert (run["status"], run["answer"]) == ("succeeded", "three issues")
    assert run["usage"]["usd"] == 0.25
    assert run["usage"]["spend_source"] == "reported"
    assert "Bash" in run["needs_you"][0]
    assert run["executor"]["kind"] == "ray"
    assert run["steps"]
    assert [each["schedule"] for each in marked] == ["answers/work"]
    assert (quiet["status"], quiet["quiet"]) == ("succeeded", True)


def test_a_usage_limit_on_an_engine_holds_the_account_on_the_node(fleet: AgentRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        fleet.ask("/schedules/limited/work/runs", {"queue": True})
        wait_for(lambda: bool(fleet.ask("/accounts")["items"]))
        (held,) = fleet.ask("/accounts")["items"]
    assert held["account"] == "limited"


def test_a_run_on_an_engine_ends_at_its_timeout_and_its_program_with_it(fleet: AgentRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        run = fleet.finish("slow")
        jobs = list(fleet.ray.jobs.values())
        wait_for(lambda: all(each.poll() is not None for job in jobs for each in job.processes))
    assert run["status"] == "timed_out"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_isolation_holds_on_the_machine_of_the_engine_or_the_run_does_not_happen(fleet: AgentRayFleet) -> None:
    with fleet.up():
        fleet.create_token()
        run = fleet.finish("confined")
    if run["status"] == "succeeded":
        assert run["answer"] == "from inside"
    elif run["status"] == "failed":  # the checkout that Python's packages refer to is not shown in a sandbox
        assert "No module named 'herdbeat'" in run["error"]
    else:  # no user namespaces here
        assert run["status"] == "skipped"
        assert "sandbox" in run["error"]
