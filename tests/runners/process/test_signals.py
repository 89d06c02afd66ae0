"""A program begins with default signals, however its node was started: with nohup, in the background, as a service."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeGuard
from urllib.request import urlopen

import pytest

import herdbeat
from herdbeat.platform import default_signals, list_inherited_ignores, list_processes

ROOT = Path(__file__).parents[3]
SOURCE = Path(herdbeat.__file__).parent
PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}
SPAWNS = {f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call", "check_output")} | {
    f"asyncio.create_subprocess_{name}" for name in ("exec", "shell")
}
HOSTILE_START = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGTTOU):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1])
os.execv(sys.executable, [sys.executable, "-m", "herdbeat", *sys.argv[1:]])
"""
REPORTER = """#!{python}
import json, os, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
masks = {{name: int(status[name], 16) for name in ("SigIgn", "SigBlk")}}
with open("{reports}", "w") as reports:
    reports.write(json.dumps([os.path.basename(sys.argv[0]), masks]) + "\\n")
if os.path.basename(sys.argv[0]) == "git":
    os.execv("{git}", sys.argv)
if sys.argv[-1] == "list":
    print(json.dumps({{"id": "one", "title": "first"}}))
"""
PROGRAMS = {"agent", "docker", "git", "hook", "message", "precheck", "work"}
FLEET = """
version: 1
server: {{ port: {port} }}
commands:
  - {{ name: sick, command: ["false"], every: 1h }}
agents:
  - {{ name: hooked, runtime: command, command: [bin/agent], precheck: [bin/precheck], every: 1h, prompt: hi,
       hooks: {{ after_run: [{{ type: shell, command: exec bin/hook }}] }} }}
  - {{ name: branch, runtime: command, command: ["true"], workspace: worktree, every: 1h, prompt: hi }}
  - {{ name: boxed, runtime: command, command: ["true"], isolation: docker, every: 1h, prompt: hi }}
  - {{ name: worker, runtime: command, command: ["true"], every: 1h, prompt: hi, work_source:
       {{ type: command, list: [bin/work, list], claim: [bin/work, claim], report: [bin/work, report],
          release: [bin/work, release] }} }}
notify:
  ops: {{ type: command, command: [bin/message] }}
"""
NODE = """
import asyncio, os, signal, sys, threading
from pathlib import Path
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTTOU, signal.SIGRTMIN + 1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
from tests.support.runner_jobs import command_spec, make_job
from herdbeat.clock import SystemClock
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings

async def main():
    settings = RunnerSettings(state_dir=Path(sys.argv[1]), environ=dict(os.environ))
    async with open_runners(settings, SystemClock()) as runners:
        outcome = await runners.run(make_job(command_spec("grep", "^Sig[BI]", "/proc/self/status")))
        print(outcome.output)

if sys.argv[2] == "thread":
    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    thread.join()
else:
    asyncio.run(main())
print(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def _signals_of(mask: int) -> set[int]:
    """Return the signals of a mask, without the two that the C library keeps to itself and lets no program change."""
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_program_ignores_and_blocks_no_signal_although_its_node_does(tmp_path: Path, where: str) -> None:
    argv = [sys.executable, "-c", NODE, str(tmp_path), where]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)

    *lines, node_still_blocks = done.stdout.split("\n")[:-1]
    found = {name: _signals_of(int(value, 16)) for name, _, value in (line.partition(":") for line in lines if line)}
    assert found == {"SigIgn": set(), "SigBlk": set()}
    assert node_still_blocks == "True"


def test_a_process_goes_on_ignoring_what_its_programs_must_not_ignore() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with default_signals() as preexec_fn:
            ignored = list_inherited_ignores()
        signal.raise_signal(signal.SIGHUP)  # the default would end this process
    finally:
        signal.signal(signal.SIGHUP, before)

    assert (preexec_fn, ignored) == (None, [])


@contextmanager
def start_hostile_fleet(folder: Path, reports: Path) -> Iterator[subprocess.Popen[str]]:
    """`up` of a fleet whose programs report their signals, started with signals ignored and blocked."""
    folder.joinpath("bin").mkdir()
    git = subprocess.check_output(["which", "git"], text=True).strip()
    for name in PROGRAMS:
        program = folder / "bin" / name
        program.write_text(REPORTER.format(python=sys.executable, reports=reports, git=git))
        program.chmod(0o755)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    (folder / "herdbeat.yaml").write_text(FLEET.format(port=port))
    for words in (
        ["init", "-q"],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run([git, *words], cwd=folder, check=True)
    environ = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}
    del environ["HERDBEAT_NO_SERVER"]
    argv = [sys.executable, "-c", HOSTILE_START, "up", "--no-color"]
    with subprocess.Popen(argv, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _read_masks(pid: int) -> dict[str, set[int]]:
    lines = (line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: _signals_of(int(value, 16)) for name, value in lines if name in ("SigIgn", "SigBlk")}


@pytest.mark.timeout(120)
def test_hooks_git_docker_work_sources_messages_and_the_server_begin_with_default_signals(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    os.mkfifo(reports)
    keep_open = os.open(reports, os.O_RDWR)  # so that the pipe does not end between two reports

    with start_hostile_fleet(tmp_path, reports) as fleet, open(keep_open, encoding="utf-8") as lines:  # noqa: PTH123
        assert fleet.stdout is not None
        address = next(line for line in fleet.stdout if line.startswith("dashboard:")).split()[1]
        urlopen(f"{address}/readyz", timeout=60).close()  # the socket is there before the server is
        children = [each.pid for each in list_processes() if each.parent == fleet.pid]
        web = next(pid for pid in children if b"herdbeat.web" in Path(f"/proc/{pid}/cmdline").read_bytes())
        server = _read_masks(web)
        subprocess.run([sys.executable, "-m", "herdbeat", "notify", "test", "ops"], cwd=tmp_path, check=True)
        found: dict[str, set[int]] = {}
        while found.keys() != PROGRAMS:
            name, masks = json.loads(lines.readline())
            found.setdefault(name, set()).update(*(_signals_of(mask) - PYTHON_IGNORES for mask in masks.values()))
        fleet.send_signal(signal.SIGTERM)
        stopped = fleet.wait()

    assert found == {name: set() for name in PROGRAMS}
    assert server["SigBlk"] == set()
    assert server["SigIgn"] <= PYTHON_IGNORES
    assert stopped == 0


def _is_spawn(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in SPAWNS


def _is_default_signals(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr) == "default_signals()"


def test_every_program_is_started_with_default_signals() -> None:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "fake_agent.py"]
    spawns, covered = set(), set()
    for path in paths:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        blocks = [node for node in nodes if _is_default_signals(node)]
        spawns |= {(path.name, node.lineno) for node in nodes if _is_spawn(node)}
        covered |= {(path.name, node.lineno) for block in blocks for node in ast.walk(block) if _is_spawn(node)}

    assert len(spawns) > 10
    assert spawns - covered == set()
