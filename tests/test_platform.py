"""The fallbacks of `platform.py`: real processes and a real fleet on a system that lacks what only Linux has."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import herdbeat
from herdbeat import platform
from herdbeat.platform import ControlGroup, list_processes, read_process

ROOT = Path(__file__).parent.parent
SOURCE = Path(herdbeat.__file__).parent
WITHOUT_LINUX = ROOT / "tests" / "support" / "without_linux"

CORE_TESTS = {
    "processes": "tests/runners/process/test_child.py tests/runners/process/test_process_tree.py"
    " tests/runners/process/test_supervise.py",
    "node deaths": "tests/runners/process/test_reaper_main.py"
    " tests/runners/process/test_reaper.py::test_children_of_a_killed_node_are_ended"
    " tests/runners/process/test_reaper.py"
    "::test_a_process_that_a_function_forked_does_not_hide_the_death_of_the_node",
    "timers and sockets": "tests/scheduler/test_timerfd.py tests/control_socket",
    "engines and messages": "tests/executors tests/chat tests/notify tests/runners/agents/isolation/test_docker.py",
    "a fleet": "tests/cli/commands/test_up.py::test_after_kill_9_the_ledger_is_readable_and_the_next_start_rescues_runs"
    " tests/cli/commands/test_beat_commands_running_fleet.py"
    "::test_cancel_with_force_kills_a_run_at_once_and_records_the_reason",
}
"""Tests that start real processes and real fleets."""

LINUX_ONLY_NAMES = {
    "CLOCK_BOOTTIME",
    "SOCK_CLOEXEC",
    "SOCK_NONBLOCK",
    "eventfd",
    "fdatasync",
    "getxattr",
    "memfd_create",
    "pidfd_open",
    "pipe2",
    "prctl",
    "prlimit",
    "sched_getaffinity",
    "timerfd_create",
    "waitid",
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("tests", CORE_TESTS.values(), ids=CORE_TESTS)
def test_the_core_works_without_what_only_linux_has(tests: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PYTHONPATH"] = f"{WITHOUT_LINUX}{os.pathsep}{SOURCE.parent}"
    argv = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *tests.split()]

    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]


def is_platform_use(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) if name in LINUX_ONLY_NAMES:
            return True
        case ast.Attribute(value=ast.Name(id="sys"), attr="platform"):
            return True
        case ast.Constant(value=str(text)):
            return text.startswith(("/proc", "/sys/"))
    return False


def test_only_the_platform_module_knows_the_system() -> None:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "platform.py"]

    users = [path for path in paths if any(map(is_platform_use, ast.walk(ast.parse(path.read_bytes()))))]

    assert users == []


@pytest.fixture
def _no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "HAS_PROC", False)
    monkeypatch.setattr(platform, "PROC", "/nowhere")


@pytest.mark.usefixtures("_no_proc")
def test_ps_answers_as_proc_does(monkeypatch: pytest.MonkeyPatch) -> None:
    by_ps, environments = read_process(os.getpid()), dict(platform.iter_environments())
    table = {process.pid: process for process in list_processes()}
    monkeypatch.undo()
    by_proc = read_process(os.getpid())

    assert by_ps is not None
    assert by_proc is not None
    assert by_ps[1:4] == by_proc[1:4] == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert abs(by_ps.start - (time.time() - platform.boot_time() + by_proc.start / os.sysconf("SC_CLK_TCK"))) < 3
    assert table[os.getpid()].is_running
    assert b"\0PATH=" in environments[os.getpid()]


@pytest.mark.usefixtures("_no_proc")
def test_without_any_process_table_a_process_is_found_by_its_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "_find_ps", lambda: None)

    found = read_process(os.getpid())

    assert found is not None
    assert (found.group, found.session, found.start) == (os.getpgid(0), os.getsid(0), 0)
    assert list_processes() == []
    assert read_process(2**22 + 1) is None


@pytest.mark.usefixtures("_no_proc")
def test_a_system_without_control_groups_has_none() -> None:
    platform.find_own_control_group.cache_clear()
    try:
        created, found = ControlGroup.create("herdbeat-test"), ControlGroup.find_all("herdbeat-")
    finally:
        platform.find_own_control_group.cache_clear()

    assert (created, found) == (None, [])


@pytest.mark.usefixtures("_no_proc")
def test_a_system_that_does_not_show_when_processes_began_has_no_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "PROC", "/nowhere")

    assert platform.read_own_origin() is None


def test_a_process_has_ended_if_it_is_gone_a_zombie_or_began_at_another_time() -> None:
    own = platform.read_own_origin()
    child = subprocess.Popen(["true"])
    platform.wait_without_reaping(child.pid)
    zombie = read_process(child.pid)
    assert own is not None
    assert zombie is not None

    ended = [platform.has_ended(child.pid, zombie.start), platform.has_ended(os.getpid(), own.start - 1)]
    child.wait()

    assert ended == [True, True]
    assert platform.has_ended(child.pid, zombie.start)
    assert not platform.has_ended(os.getpid(), own.start)
