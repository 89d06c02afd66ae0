"""Agents in a real sandbox of bubblewrap. What they can reach is asked from the inside, and of the real file system."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.runner_jobs import NOON, make_job, new_fifo, read_fifo

from herdbeat.domain.isolation import Access, IsolationSpec, IsolationType
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.runners.agents.git import run_git
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

pytestmark = pytest.mark.needs("bubblewrap", "git")

BWRAP = IsolationSpec(type=IsolationType.BWRAP)
OFFLINE = replace(BWRAP, network=False)
LOOK = """
import json, os, socket, sys
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return type(error).__name__
def write(path):
    try:
        open(path, "w").write("x")
    except OSError as error:
        return type(error).__name__
    return "written"
def list_folder(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__
def connect(address):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    try:
        socket.socket(family).connect(address if isinstance(address, str) else tuple(address))
    except OSError as error:
        return type(error).__name__
    return "connected"
questions = json.load(open(0))
print(json.dumps([globals()[name](value) for name, value in questions]))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_ed25519").write_text("private key")
    return folder


@pytest.fixture
def app(home: Path) -> Path:
    """A repository in the home of the user, with the fleet file and the state directory in it."""
    folder = home / "app"
    (folder / ".herdbeat").mkdir(parents=True)
    (folder / ".herdbeat" / "herdbeat.db").write_text("ledger")
    (folder / "README.md").write_text("read me")
    run_git(folder, "init", "--quiet", "-b", "main")
    run_git(folder, "add", "README.md")
    run_git(folder, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "Begin")
    (folder / "herdbeat.yaml").write_text("version: 1")
    return folder


@pytest.fixture
def settings(app: Path, home: Path) -> RunnerSettings:
    return RunnerSettings(
        state_dir=app / ".herdbeat",
        environ={"PATH": os.environ["PATH"], "HOME": str(home), "SECRET": "hunter2", "TOKEN": "token"},
        home=app,
        fleet_files=(app / "herdbeat.yaml",),
        interrupt_grace=timedelta(seconds=2),
        kill_after=timedelta(seconds=1),
    )


@pytest.fixture
async def runners(settings: RunnerSettings) -> AsyncIterator[RunnerRegistry]:
    async with open_runners(settings, FakeClock(NOON)) as opened:
        yield opened


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on loopback."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def agent(script: str, isolation: IsolationSpec, **options: Any) -> AgentSpec:
    # The interpreter of the tests may lie anywhere, so its folder is made visible.
    argv = (str(Path(sys.executable).resolve()), "-I", "-S", "-c", script)
    visible = replace(isolation, read_only=(sys.base_prefix,))
    return AgentSpec(runtime="command", working_directory=".", command=argv, isolation=visible, **options)


async def ask(runners: RunnerRegistry, isolation: IsolationSpec, *questions: tuple[str, object]) -> list[Any]:
    """Return what a program inside finds out."""
    outcome = await runners.run(make_job(agent(LOOK, isolation), prompt=json.dumps(questions)))
    assert outcome.status is RunStatus.SUCCEEDED, outcome.error
    answers: list[Any] = json.loads(outcome.output)
    return answers


async def test_the_home_of_the_user_is_not_there(runners: RunnerRegistry, home: Path) -> None:
    answers = await ask(
        runners,
        BWRAP,
        ("read", str(home / ".ssh" / "id_ed25519")),
        ("list_folder", str(home)),
    )

    assert answers == ["FileNotFoundError", ["app"]]


async def test_state_directory_and_fleet_file_cannot_be_read_in_the_workspace(
    runners: RunnerRegistry, app: Path
) -> None:
    answers = await ask(
        runners,
        BWRAP,
        ("read", str(app / "README.md")),
        ("read", str(app / "herdbeat.yaml")),
        ("write", str(app / "herdbeat.yaml")),
        ("list_folder", str(app / ".herdbeat")),
    )

    assert answers == ["read me", "PermissionError", "PermissionError", []]
    assert (app / "herdbeat.yaml").read_text() == "version: 1"
    assert (app / ".herdbeat" / "herdbeat.db").read_text() == "ledger"


async def test_sockets_cannot_be_reached(runners: RunnerRegistry, app: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as control:
        control.bind(str(app / "agent.sock"))
        control.listen()

        answers = await ask(runners, BWRAP, ("connect", str(app / "agent.sock")), ("list_folder", "/run"))

    assert answers[0] != "connected"
    assert answers[1] == []


@pytest.mark.parametrize("isolation", [BWRAP, OFFLINE])
async def test_the_network_is_on_or_off(runners: RunnerRegistry, port: int, isolation: IsolationSpec) -> None:
    answers = await ask(runners, isolation, ("connect", ("127.0.0.1", port)))

    assert (answers == ["connected"]) is isolation.network


async def test_only_the_workspace_can_be_written(runners: RunnerRegistry, app: Path) -> None:
    answers = await ask(runners, BWRAP, ("write", str(app / "made")), ("write", "/usr/made"), ("write", "/etc/made"))

    assert answers == ["written", "OSError", "OSError"]
    assert (app / "made").read_text() == "x"


async def test_a_read_only_workspace_stays_as_it_is(runners: RunnerRegistry, app: Path) -> None:
    answers = await ask(runners, replace(BWRAP, workspace=Access.READ_ONLY), ("write", str(app / "made")))

    assert answers == ["OSError"]
    assert not (app / "made").exists()


async def test_only_the_named_variables_are_inside(runners: RunnerRegistry) -> None:
    script = "import os, json; print(json.dumps(dict(os.environ)))"

    outcome = await runners.run(make_job(agent(script, BWRAP, env=("TOKEN",))))

    variables = json.loads(outcome.output)
    assert (variables["TOKEN"], variables["HOME"]) == ("token", "/home/agent")
    assert "SECRET" not in variables


async def test_processes_of_the_host_are_not_visible(runners: RunnerRegistry) -> None:
    answers = await ask(runners, BWRAP, ("list_folder", "/proc"))

    pids = [int(name) for name in answers[0] if name.isdigit()]
    assert len(pids) <= 3
    assert os.getpid() not in pids or os.getpid() <= 3


async def test_the_home_of_an_agent_stays_from_run_to_run(runners: RunnerRegistry, home: Path) -> None:
    await ask(runners, BWRAP, ("write", "/home/agent/.claude/session"))

    answers = await ask(runners, BWRAP, ("read", "/home/agent/.claude/session"))

    assert answers == ["x"]
    assert not (home / ".claude").exists()


async def test_an_isolated_worktree_does_not_show_the_repository(runners: RunnerRegistry, app: Path) -> None:
    script = (
        "import subprocess as s, os; open('fix.py', 'w').write('x'); s.run(['git', 'add', '.'], check=True);"
        "s.run(['git', '-c', 'user.name=A', '-c', 'user.email=a@b', 'commit', '-qm', 'Fix'], check=True);"
        f"print(os.path.exists({str(app)!r}))"
    )
    workspace = WorkspaceSpec(type=WorkspaceType.WORKTREE)

    outcome = await runners.run(make_job(agent(script, BWRAP, workspace=workspace)))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "False\n"), outcome.error
    assert run_git(app, "log", "-1", "--format=%s", outcome.workspace) == "Fix"


async def test_a_cancelled_agent_is_asked_to_end_before_its_sandbox_is_killed(
    runners: RunnerRegistry, app: Path
) -> None:
    fifo = new_fifo(app)
    script = (
        "import signal, sys, time\n"
        "def stop(*_):\n    open('stopped', 'w').write('x'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"open({str(fifo)!r}, 'w').write('up')\ntime.sleep(600)"
    )
    run = asyncio.create_task(runners.run(make_job(agent(script, BWRAP))))
    await read_fifo(fifo)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert (app / "stopped").read_text() == "x"


async def test_nothing_of_an_agent_that_ignores_signals_is_left(runners: RunnerRegistry, app: Path) -> None:
    fifo, beat = new_fifo(app), app / "beat"
    script = (
        "import signal, os, time\n[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\n"
        "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n"
        f"open({str(fifo)!r}, 'w').write('up')\n"
        f"while True:\n    open({str(beat)!r}, 'a').write('x'); time.sleep(0.01)"
    )
    run = asyncio.create_task(runners.run(make_job(agent(script, BWRAP))))
    await read_fifo(fifo)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert await runners.wait_stopped(0) == ""
    assert processes_with(str(beat)) == []


def processes_with(text: str) -> list[str]:
    """Return the processes of the host whose arguments contain the text."""
    return [each.name for each in Path("/proc").glob("[0-9]*") if text.encode() in _read(each / "cmdline")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
