"""The server as a process: it comes back after kill -9 and after a hang, ends with its parent, and delays no beat."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.bootstrap import server_process
from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import end_task
from herdbeat.bootstrap.server_process import (
    ServerSupervisor,
    bind_server_socket,
    complete_server_spec,
    describe_holder,
)
from herdbeat.bootstrap.server_spec import build_server_spec
from herdbeat.domain.fleet import ServerSettings
from herdbeat.errors import Conflict
from herdbeat.platform import HAS_PROC
from herdbeat.server.process import NICENESS

FLEET = """\
version: 1
timezone: UTC
callables:
  - { name: tick, call: "time:time", every: 1s }
"""
TIMEOUT_S = 60.0


@asynccontextmanager
async def supervised(folder: Path) -> AsyncIterator[tuple[ServerSupervisor, int, asyncio.Queue[None]]]:
    (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    fleet = load_config(str(folder / "herdbeat.yaml"), {}, folder).fleet
    assert fleet is not None
    ready: asyncio.Queue[None] = asyncio.Queue()
    with bind_server_socket(ServerSettings(port=0), 0) as listener:
        spec = complete_server_spec(build_server_spec(fleet, None, {}, folder, has_files=False), listener)
        supervisor = ServerSupervisor(spec, lambda: ready.put_nowait(None))
        task = asyncio.create_task(supervisor.run())
        try:
            await asyncio.wait_for(ready.get(), TIMEOUT_S)
            yield supervisor, spec.port, ready
        finally:
            await end_task(task)


def get_status(port: int, path: str = "/problems/usage") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", path, headers={"Connection": "close"})
        return connection.getresponse().status


def read_session_niceness(pid: int) -> str | None:
    """Return it as Linux shows it; None where sessions are not weighed against each other."""
    file = Path(f"/proc/{pid}/autogroup")
    return (file.read_text().strip().partition(" ")[2] or None) if file.exists() else None


def is_alive(pid: int | None) -> bool:
    """Ask the kernel."""
    return Path(f"/proc/{pid}").exists()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "PING_INTERVAL_S", 0.3)
    monkeypatch.setattr(server_process, "FIRST_BACKOFF_S", 0.05)


def test_a_server_whose_parent_is_killed_while_it_starts_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    fleet = load_config(str(tmp_path / "herdbeat.yaml"), {}, tmp_path).fleet
    assert fleet is not None
    with bind_server_socket(ServerSettings(port=0), 0) as listener:
        spec = complete_server_spec(build_server_spec(fleet, None, {}, tmp_path, has_files=False), listener)
        server = subprocess.Popen(
            [sys.executable, "-m", "herdbeat.web"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[spec.socket_fd],
        )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.close()
        server.stdin.write(spec.to_line().encode() + b"\n")
        server.stdin.flush()
        assert get_status(spec.port) == 200
        _, errors = server.communicate(timeout=TIMEOUT_S)

    assert errors == b""
    assert server.returncode == 0


async def test_a_killed_server_comes_back_and_no_connection_is_refused(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (supervisor, port, ready):
        assert await asyncio.to_thread(get_status, port) == 200
        assert supervisor.pid is not None

        os.kill(supervisor.pid, signal.SIGKILL)
        # At once, while there is no server: the socket is ours, so the request waits for the next one.
        status = await asyncio.to_thread(get_status, port)
        await asyncio.wait_for(ready.get(), TIMEOUT_S)

    assert status == 200
    assert supervisor.restarts == 1


async def test_the_server_yields_a_busy_core_to_the_node(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (supervisor, _, _):
        assert supervisor.pid is not None

        niceness = os.getpriority(os.PRIO_PROCESS, supervisor.pid)
        policy = os.sched_getscheduler(supervisor.pid) if hasattr(os, "SCHED_BATCH") else None
        session = read_session_niceness(supervisor.pid)

    assert policy in (None, getattr(os, "SCHED_BATCH", None))
    assert niceness == min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)
    # Its session is its own: where Linux weighs sessions, the niceness of a process counts only inside of one.
    assert session in (None, f"nice {NICENESS}")


async def test_a_server_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (supervisor, port, ready):
        hung = supervisor.pid
        assert hung is not None

        os.kill(hung, signal.SIGSTOP)
        await asyncio.wait_for(ready.get(), TIMEOUT_S)

        assert await asyncio.to_thread(get_status, port) == 200
        assert supervisor.pid != hung
        assert not is_alive(hung)


async def test_a_server_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as (supervisor, _, _):
        pid = supervisor.pid

    assert pid is not None
    assert not is_alive(pid)


def test_a_taken_port_is_named_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(Conflict, match=rf"Port {port} is in use by .*\(pid {os.getpid()}\)") as refused:
            bind_server_socket(ServerSettings(port=port))
        offered = int(refused.value.hint.partition("--port ")[2].partition(",")[0])
        with bind_server_socket(ServerSettings(port=offered)) as free:
            assert free.getsockname()[1] == offered
        assert f"pid {os.getpid()}" in describe_holder(port)


NODE_WITH_SERVER = """
import signal, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
serve = [sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(0.5)", "herdbeat.web"]
subprocess.Popen(serve, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
print(listener.getsockname()[1], flush=True)
signal.pause()
"""


@pytest.mark.skipif(not HAS_PROC, reason="who holds a port cannot be found out")
def test_the_server_of_a_killed_node_kept_the_next_start_from_its_port() -> None:
    with subprocess.Popen([sys.executable, "-c", NODE_WITH_SERVER], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        port = int(node.stdout.readline())
        node.kill()
        node.wait()

        with bind_server_socket(ServerSettings(port=port)) as listener:
            assert listener.getsockname()[1] == port


@pytest.mark.skipif(not HAS_PROC, reason="who holds a port cannot be found out")
def test_a_server_that_was_ending_kept_the_next_start_from_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server_process, "read_command_line", lambda pid: [b""])
        monkeypatch.setattr(time, "sleep", lambda seconds: taken.close())

        with bind_server_socket(ServerSettings(port=port)) as listener:
            assert listener.getsockname()[1] == port


@pytest.mark.skipif(not HAS_PROC, reason="who holds a port cannot be found out")
def test_a_server_that_ended_while_it_was_looked_for_kept_the_next_start_from_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def end_first(inode: int) -> None:
            taken.close()

        monkeypatch.setattr(server_process, "_find_holder", end_first)

        with bind_server_socket(ServerSettings(port=port)) as listener:
            assert listener.getsockname()[1] == port


def test_only_the_default_port_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server_process, "DEFAULT_SERVER_PORT", port)

        with bind_server_socket(ServerSettings(port=port)) as moved:
            assert port < moved.getsockname()[1] < port + server_process.MAX_PORTS_TRIED
        for settings, asked in ((ServerSettings(port=port), port), (_published(port), None)):
            with pytest.raises(Conflict):
                bind_server_socket(settings, asked)
        with pytest.raises(Conflict):
            bind_server_socket(ServerSettings(port=port), has_callers=True)


def _published(port: int) -> ServerSettings:
    return ServerSettings(port=port, public_url="https://example.com")


@pytest.fixture
def fleet(tmp_path: Path) -> RunningFleet:
    running = RunningFleet(tmp_path)
    running.write(FLEET)
    return running


@contextmanager
def server_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("HERDBEAT_NO_SERVER")
    yield


def test_up_starts_a_server_that_survives_its_own_death(fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is dead, beats come as before; then it is back at the same address."""
    with server_allowed(monkeypatch), fleet.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"])
        port = int(url.rpartition(":")[2])
        before = read_json(port, "/api/v1/beats")["items"]
        (server,) = child_servers(feed.process.pid)

        os.kill(server, signal.SIGKILL)
        for _ in range(2):
            feed.until("run_finished", status="succeeded")
        assert feed.until("server_ready")["url"] == url
        after = read_json(port, "/api/v1/beats")["items"]
        health = read_json(port, "/healthz")

    assert len(after) > len(before)
    assert {each["outcome"] for each in after} <= {"ran", "running"}
    assert health == {"ok": True, "reason": ""}


def test_another_address_than_loopback_is_refused_without_a_token(
    fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.write(FLEET + 'server: { host: "0.0.0.0" }\n')
    with server_allowed(monkeypatch):
        refused = fleet.call("up", "--port", "0")

    assert refused.returncode == 1
    assert "there is no token" in refused.stderr
    assert "herdbeat token create NAME --scope admin" in refused.stderr


def read_json(port: int, path: str) -> dict[str, list[dict[str, object]]]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", path, headers={"Connection": "close"})
        found: dict[str, list[dict[str, object]]] = json.loads(connection.getresponse().read())
        return found


def child_servers(pid: int) -> list[int]:
    """Ask the kernel which children are servers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    is_server: Callable[[str], bool] = lambda child: b"herdbeat.web" in Path(f"/proc/{child}/cmdline").read_bytes()  # noqa: E731
    return [int(child) for child in children if is_server(child)]


async def test_a_server_that_ends_while_it_is_killed_does_not_keep_the_fleet_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio learns of an end from a thread: on a busy machine later than the kernel, which then knows no such pid."""
    kill = os.kill

    def kill_too_late(pid: int, number: int) -> None:
        kill(pid, number)
        raise ProcessLookupError

    monkeypatch.setattr(server_process, "STOP_TIMEOUT_S", 0)
    monkeypatch.setattr(os, "kill", kill_too_late)

    async with asyncio.timeout(TIMEOUT_S), supervised(tmp_path) as (supervisor, _, _):
        pid = supervisor.pid

    assert supervisor.restarts == 0
    assert not is_alive(pid)
