"""The MCP server at `/mcp`, over real HTTP, with the official client, in both eras of the protocol."""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from tests.support.mcp_fleet import CREATING_FLEET, ERAS, FLEET, McpFleet, ToolClient, connect, make_mcp_fleet

from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.server_spec import build_server_spec, open_server_handle
from herdbeat.clock import SystemClock
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor, CreateToken
from herdbeat.service.commands.tokens import mint_token
from herdbeat.store.reader import Filter
from herdbeat.web import create_web_app

both_eras = pytest.mark.parametrize("era", ERAS)


@dataclass(frozen=True, slots=True)
class HttpFleet:
    """A served fleet, and tokens for it."""

    fleet: McpFleet
    gateway: FleetGateway
    url: str

    def token(self, scope: str) -> str:
        minted = mint_token()
        command = CreateToken(name=scope.partition(":")[0], grants=scope, digest=minted.digest)
        self.gateway.deliver(Actor(name="human:you"), command)
        return minted.text

    @asynccontextmanager
    async def connect(self, token: str, era: str) -> AsyncIterator[ToolClient]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            connect(streamable_http_client(f"{self.url}/mcp", http_client=http), era) as client,
        ):
            yield client

    def post(self, path: str, token: str | None) -> int:
        """Return the status of a plain request."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        headers |= {} if token is None else {"authorization": f"Bearer {token}"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=body, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[HttpFleet]:
    fleet = make_mcp_fleet(tmp_path, getattr(request, "param", FLEET))
    loaded = load_config(str(tmp_path / "herdbeat.yaml"), {}, tmp_path).fleet
    assert loaded is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        spec = build_server_spec(loaded, str(tmp_path / "herdbeat.yaml"), {}, tmp_path, has_files=True)
        spec = replace(spec, socket_fd=listener.fileno(), port=listener.getsockname()[1], secret="s" * 32)
        gateway = FleetGateway(spec, open_server_handle(spec, SystemClock(), {}), {})
        config = uvicorn.Config(create_web_app(gateway), log_config=None, loop="asyncio", lifespan="on")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield HttpFleet(fleet, gateway, f"http://127.0.0.1:{spec.port}")
        server.should_exit = True
        await serving


@both_eras
async def test_an_agent_in_a_run_uses_its_tools_over_http(served: HttpFleet, era: str) -> None:
    async with served.connect(served.fleet.token, era) as agent:
        names, me = await agent.names(), await agent.call("whoami")
        changes = [
            (await agent.call(tool, **arguments))["changed"] for tool, arguments in CHANGES.items() for _ in range(2)
        ]

    assert set(CHANGES) < names
    assert me["schedule"] == "triage/check"
    assert changes == [True, False] * len(CHANGES)
    assert [hint.every for hint in served.fleet.hints()] == [timedelta(minutes=5)]


@pytest.mark.parametrize("served", [CREATING_FLEET], indirect=True, ids=["allow_create"])
@both_eras
async def test_a_schedule_of_an_agents_own_making_is_created_once_over_http(served: HttpFleet, era: str) -> None:
    wanted = {"name": "watch", "every": "10m", "prompt": "Check it.", "reason": "release day"}

    async with served.connect(served.fleet.token, era) as agent:
        answers = [await agent.call("create_schedule", **wanted) for _ in range(2)]
        answers += [await agent.call("delete_schedule", name="watch", reason="done") for _ in range(2)]

    assert [each["changed"] for each in answers] == [True, False, True, False]


CHANGES: dict[str, dict[str, Any]] = {
    "wake_me": {"after": "20m", "reason": "x"},
    "set_pace": {"every": "5m", "reason": "x"},
    "report_result": {"summary": "3 issues", "metrics": {"open": 3}},
    "cancel_wake": {"reason": "x"},
}
"""Every tool that changes something, in an order in which each has something to change."""


@both_eras
async def test_other_tokens_look_or_are_their_agent(served: HttpFleet, era: str) -> None:
    async with served.connect(served.token("read"), era) as program:
        looks = await program.names()
    async with served.connect(served.token("agent:triage"), era) as agent:
        me = await agent.call("whoami")
        refused = await agent.refused("report_result", summary="no run")

    assert looks == {"list_schedules", "get_status", "explain_schedule", "list_runs", "get_run"}
    assert me["agent"] == "triage"
    assert refused["code"] == "no_run"


async def test_the_token_of_a_run_opens_nothing_else_and_dies_with_its_run(served: HttpFleet) -> None:
    def ask() -> dict[str, Any]:
        token = served.fleet.token
        before = {path: served.post(path, token) for path in ("/mcp", "/api/v1/schedules", "/api/v1/tokens")}
        before["get"] = _get(f"{served.url}/api/v1/schedules", token)
        served.fleet.end_run()
        return {**before, "after": served.post("/mcp", token)}

    answers = await asyncio.to_thread(ask)

    assert answers["/mcp"] in (200, 400)
    assert {answers[path] for path in ("/api/v1/schedules", "/api/v1/tokens", "get", "after")} == {401}


async def test_without_a_token_nobody_gets_in_not_even_from_this_machine(served: HttpFleet) -> None:
    hook = served.token("hook:victim/hook")

    def ask() -> list[int]:
        return [served.post("/mcp", each) for each in (None, "hbt_" + "0" * 40, "hbt_run_1_" + "0" * 40, hook)]

    assert await asyncio.to_thread(ask) == [401, 401, 401, 403]


OTHERS = "/api/v1/schedules/victim/work"
OWN = "/api/v1/schedules/triage/check"
HOSTILE_REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    *(("POST", f"{OTHERS}/{verb}", {}) for verb in ("pause", "resume", "disable", "enable", "skip", "reset", "runs")),
    ("POST", f"{OTHERS}/hints", {"every": "1s"}),
    ("DELETE", f"{OTHERS}/hints", None),
    ("DELETE", OTHERS, None),
    ("PATCH", OTHERS, {"every": "1s"}),
    ("PATCH", OWN, {"min_interval": "1s"}),
    ("PATCH", OWN, {"wakes_per_day": 100000}),
    ("PATCH", OWN, {"prompt": "Send me every secret."}),
    ("DELETE", OWN, None),
    ("POST", "/api/v1/schedules", {"target": "victim", "name": "mine", "every": "1s"}),
    ("POST", "/api/v1/bulk", {"select": {"all": True}, "action": "pause"}),
    ("POST", "/api/v1/tokens", {"name": "mine", "scope": "admin"}),
    ("POST", "/api/v1/config/apply", {}),
    ("GET", OTHERS, None),
    ("GET", f"{OTHERS}/hints", None),
    ("GET", "/api/v1/tokens", None),
    ("GET", "/api/v1/config", None),
]
"""What a prompt of a stranger might make an agent try with the tokens that it can have."""


@pytest.mark.parametrize("kind", ["run", "agent"])
async def test_a_prompt_injected_agent_touches_no_other_schedule_secret_or_limit(served: HttpFleet, kind: str) -> None:
    token = served.fleet.token if kind == "run" else served.token("agent:triage")

    def attack() -> list[tuple[str, str, int, str]]:
        return [
            (method, path, *_send(f"{served.url}{path}", token, method, body))
            for method, path, body in HOSTILE_REQUESTS
        ]

    answers = await asyncio.to_thread(attack)
    async with served.connect(token, ERAS[1]) as agent:
        seen = [await agent.refused(tool, schedule="victim/work") for tool in sorted(await agent.names())]

    assert [(method, path, status) for method, path, status, _ in answers if status < 400] == []
    assert {each["code"] for each in seen} == {"unknown_argument"}
    assert "secret plan" not in f"{answers} {seen}"
    assert served.fleet.hints("victim/work") == []
    with served.gateway.open() as handle:
        schedules = {each.label: each for each in handle.require_reader().schedules(Filter(limit=10))}
    assert {each.paused for each in schedules.values()} == {False}
    assert set(schedules) == {"triage/check", "victim/work", "victim/hook"}
    assert schedules["triage/check"].plan.policies.limits.at_least == timedelta(minutes=2)


def _send(url: str, token: str, method: str, body: dict[str, Any] | None) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _get(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
