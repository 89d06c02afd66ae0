"""A fleet with an agent whose run is active, and official clients of its MCP server."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.handle import FleetHandle, open_state_dir
from herdbeat.clock import SystemClock
from herdbeat.domain.records import HintRecord
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.mcp.protocol import build_server
from herdbeat.mcp.stdio import LedgerHost, StdioIdentity
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.service.run_tokens import RUN_TOKEN_VARIABLE, make_run_token
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import create_store, store_location
from herdbeat.store.sqlite.store import SqliteStore
from mcp import Client, StdioServerParameters

ERAS = ("legacy", "2026-07-28")
FLEET = """\
version: 1
timezone: UTC
agents:
  - name: triage
    runtime: fake
    schedules:
      check: { every: 6h, min_interval: 2m, prompt: "Look at the issues." }
  - name: victim
    runtime: fake
    env: [VICTIM_KEY]
    schedules:
      work: { every: 1h, prompt: "The secret plan of the victim." }
      hook: { type: webhook, prompt: "Do it." }
"""
CREATING_FLEET = FLEET.replace("runtime: fake", "runtime: fake\n    allow_create: true", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpFleet:
    """A ledger without a node, in which a run of `triage/check` is active."""

    folder: Path
    run_id: int
    token: str

    @property
    def state_dir(self) -> Path:
        return self.folder / ".herdbeat"

    @property
    def handle(self) -> FleetHandle:
        return open_state_dir(self.state_dir, SystemClock()).use_ledger_clock()

    def server(self, **variables: str) -> StdioServerParameters:
        """The server as an agent's CLI starts it."""
        arguments = ["-P", "-m", "herdbeat.mcp", "--state", str(self.state_dir)]
        environment = {RUN_TOKEN_VARIABLE: self.token, **variables}
        return StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=self.folder)

    def in_process(self) -> "Server[dict[str, Any]]":
        """The same server without a process of its own: importing the protocol costs each one a second."""
        host, identity = LedgerHost(self.handle), StdioIdentity(token=self.token)
        return build_server(host, lambda _: identity.find_user(host))

    def command(self, *words: str) -> StdioServerParameters:
        """`herdbeat mcp` as a person's program starts it."""
        arguments = ["-m", "herdbeat", "mcp", *words]
        return StdioServerParameters(command=sys.executable, args=arguments, cwd=self.folder)

    def hints(self, schedule: str = "triage/check") -> list[HintRecord]:
        """The hints in force, as the ledger has them."""
        with closing(self.handle.open_reader()) as reader:
            return [each for each in reader.hints(None) if each.ended_at is None and each.schedule == schedule]

    def end_run(self) -> None:
        finished = FinishedRun(self.run_id, SystemClock().now(), Outcome(status=RunStatus.SUCCEEDED))
        with closing(SqliteStore(self.state_dir / "herdbeat.db")) as store:
            store.open()
            store.write_now(lambda tx: complete_runs(tx, SystemClock().now(), [finished]))


def make_mcp_fleet(folder: Path, text: str = FLEET) -> McpFleet:
    (folder / "herdbeat.yaml").write_text(text, encoding="utf-8")
    fleet = load_config(str(folder / "herdbeat.yaml"), {}, folder).fleet
    assert fleet is not None
    now: datetime = SystemClock().now() - timedelta(minutes=1)
    with closing(create_store(store_location(fleet))) as store:
        store.open()
        store.write_now(lambda tx: apply_fleet(tx, fleet, now))
        node = store.write_now(lambda tx: register_node(tx, now, NodeInfo(host="here", pid=1, version="test")))
        single = store.write_now(lambda tx: claim_single(tx, now, node.node_id, 1, origin="program", event_id="1"))
        key = store.write_now(lambda tx: tx.run_key_claim("k" * 64))
    run_id = single.claims[0].run_id
    return McpFleet(folder=folder, run_id=run_id, token=make_run_token(key, run_id))


@asynccontextmanager
async def connect(server: Any, era: str) -> AsyncIterator["ToolClient"]:
    async with Client(server, mode=era, read_timeout_seconds=30) as client:
        yield ToolClient(client)


@dataclass(frozen=True, slots=True)
class ToolClient:
    """The official client, with answers as plain data."""

    client: Client

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """Return the answer of a call that succeeds."""
        is_error, data = await self.ask(tool, arguments)
        assert not is_error, data
        return data

    async def refused(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """Return the problem of a call that is refused."""
        is_error, data = await self.ask(tool, arguments)
        assert is_error, data
        return data

    async def ask(self, tool: str, arguments: Mapping[str, object]) -> tuple[bool, dict[str, Any]]:
        result = await self.client.call_tool(tool, dict(arguments))
        data = result.structured_content
        assert isinstance(data, dict)
        return bool(result.is_error), data
