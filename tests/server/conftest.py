"""The application over a ledger that no node runs, on Thursday 26 March 2026, 13:04 UTC."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.agent_reports import count_usage, reach_limit, succeed
from tests.support.asgi_client import AsgiClient
from tests.support.fleet_history import create_fleet_history

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.server_spec import build_server_spec, open_server_handle
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.server.app import create_app
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor, CreateToken
from herdbeat.service.commands.tokens import mint_token
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import create_store, store_location
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
FLEET = """\
version: 1
fleet: { name: pets }
timezone: Europe/Berlin
{server}
agents:
  - name: triage
    runtime: command
    command: ["true"]
    schedules:
      issues: { interval: 5m, prompt: "Look at the issues.", tags: [vendor-x] }
      standup: { cron: "0 9 * * 1-5", prompt: "Say what is next." }
endpoints:
  - { name: queue-depth, url: "https://api.example.com/queue", every: 5m, tags: [vendor-x] }
commands:
  - { name: backup, command: [pg_dump, app], cron: "0 2 * * *" }
"""
OWN_ORIGIN = "http://127.0.0.1:3232"


class ServedFleet:
    """A folder with a fleet, its ledger, and the application that serves it."""

    def __init__(self, folder: Path, server: str = "", agents: str = "") -> None:
        self.folder = folder
        self.clock = FakeClock(NOW)
        fleet = self.fleet = self._write(server, agents)
        spec = build_server_spec(fleet, str(folder / "herdbeat.yaml"), {}, folder, has_files=True)
        self.spec = replace(spec, socket_fd=0, port=3232, secret="s" * 32, login_code="one-time")
        with closing(create_store(store_location(fleet))) as store:
            store.open()
            store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
            node = store.write_now(lambda tx: register_node(tx, NOW, NodeInfo(host="here", pid=1, version="test")))
            claim = store.write_now(
                lambda tx: claim_single(tx, NOW, node.node_id, 1, origin="program", event_id="first")
            ).claims[0]
            failed = FinishedRun(claim.run_id, NOW, Outcome(status=RunStatus.FAILED, error="it broke"))
            store.write_now(lambda tx: complete_runs(tx, NOW, [failed]))
            store.write_now(lambda tx: tx.leave_node(node.node_id, NOW))
        self.gateway = FleetGateway(self.spec, open_server_handle(self.spec, self.clock, {}), {})
        self.app = create_app(self.gateway)

    def _write(self, server: str = "", agents: str = "") -> Fleet:
        file = self.folder / "herdbeat.yaml"
        text = FLEET.replace("{server}", server).replace(
            "endpoints:", f"{agents}\nendpoints:" if agents else "endpoints:"
        )
        file.write_text(text, encoding="utf-8")
        fleet = load_config(str(file), {}, self.folder).fleet
        assert fleet is not None
        return fleet

    def apply(self, agents: str) -> None:
        """Apply the files with more agents, as a node would that watches them."""
        fleet = self._write(agents=agents)
        with closing(create_store(store_location(fleet))) as store:
            store.open()
            store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))

    def client(self, **headers: str) -> AsgiClient:
        """A program on this machine, which sends the origin that a page of ours would have."""
        return AsgiClient(app=self.app, headers={"origin": OWN_ORIGIN, **headers})

    def token(self, scope: str, name: str = "ci") -> str:
        minted = mint_token()
        command = CreateToken(name=name, grants=scope, digest=minted.digest)
        self.gateway.deliver(Actor(name="human:you"), command)
        return minted.text

    def bearer(self, scope: str, name: str = "ci", **options: str) -> AsgiClient:
        """A program on another machine, with a token."""
        headers = {"authorization": f"Bearer {self.token(scope, name)}"}
        return AsgiClient(app=self.app, peer=options.get("peer", "192.0.2.7"), headers=headers)

    def cli(self) -> CommandLine:
        return CommandLine(folder=self.folder, clock=self.clock, environ={"TZ": "Europe/Berlin", "USER": "you"})


class ServedHistory:
    """A ledger that a herd of agents has filled, served; no node runs."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        folder, file = cli.folder, str(cli.folder / "herdbeat.yaml")
        fleet = load_config(file, {}, folder).fleet
        assert fleet is not None
        spec = replace(
            build_server_spec(fleet, file, {}, folder, has_files=True), socket_fd=0, port=3232, secret="s" * 32
        )
        self.gateway = FleetGateway(spec, open_server_handle(spec, cli.clock, {}), {})
        self.client = AsgiClient(app=create_app(self.gateway), headers={"origin": OWN_ORIGIN})


HISTORY = """\
version: 1
fleet: { name: my-fleet }
callables:
  - { name: unborn, call: "fleet:unborn", every: 1h }
"""
ADAPT = ({"name": "surge", "when": "response.queue_depth > 100", "every": "30s", "for": "15m"},)


def add_agents(herd: SimulatedHerd) -> None:
    """One that is at its limit, one that needs a person, one with steps; and an endpoint with a rule."""
    agent = AgentSpec(runtime="claude", working_directory="/srv/app", account="team")
    told = {
        "limited": reach_limit(herd.now + timedelta(days=2), session_id=""),
        "asks": succeed(needs_you=("Bash: git push",), account="mine", session_id="s-7", runtime="claude"),
        "tokens": succeed(counted=count_usage(1_000, 50), session_id="", model="local", answer="All green."),
    }
    for name, outcome in told.items():
        herd.schedule(name, every="1d", runner=ScriptedRunner(outcomes=[outcome]), agent=agent)
    busy = Outcome(status=RunStatus.SUCCEEDED, response={"queue_depth": 150})
    herd.schedule("queue", every="5m", runner=ScriptedRunner(outcomes=[busy] * 200), adapt=ADAPT)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[ServedHistory]:
    cli = CommandLine(folder=tmp_path, clock=FakeClock(NOW), environ={"TZ": "UTC"})
    await create_fleet_history(cli, HISTORY, add_agents, timedelta(minutes=30))
    served = ServedHistory(cli)
    yield served
    served.gateway.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], ServedFleet]]:
    """Serve a fleet whose file has this `server:` line."""
    opened: list[ServedFleet] = []

    def start(server: str) -> ServedFleet:
        opened.append(ServedFleet(tmp_path, server))
        return opened[-1]

    yield start
    for each in opened:
        each.gateway.close()


@pytest.fixture
def served(serve: Callable[[str], ServedFleet]) -> ServedFleet:
    return serve("")
