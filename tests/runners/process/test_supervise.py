"""A cancelled run takes everything with it that its program started, and says so if that fails."""

import asyncio
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.escaping_programs import ESCAPES, escape_script
from tests.support.runner_jobs import NOON, ExitingProcess, make_job, new_fifo, read_fifo, shell_spec

from herdbeat import platform
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.platform import ControlGroup, ProcessInfo
from herdbeat.runners.process import supervise
from herdbeat.runners.process.process_tree import (
    ProcessIdentity,
    find_marked_processes,
    find_run_processes,
    identify,
    is_alive,
)
from herdbeat.runners.process.supervise import RunProcesses
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

needs_control_groups = pytest.mark.skipif(
    platform.find_own_control_group() is None, reason="this user may not make control groups here"
)


PACE_S = 0.1 if platform.HAS_PROC else 1.0
"""On a busy machine two looks by `ps` take longer than a process of the faster pace lives: nobody could end those."""

MULTIPLY = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range({10 / PACE_S:.0f}):
    if os.fork():
        time.sleep({3 * PACE_S})
        os._exit(0)
    os.setsid()
    time.sleep({PACE_S})
signal.pause()
"""
"""A process that is a new one, in a new session, ten times a second."""


@pytest.fixture
def _no_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "find_own_control_group", lambda: None)


def notes(settings: RunnerSettings) -> list[str]:
    path = find_log(settings.state_dir, 1)
    assert path is not None
    return [line.text for line in read_log(path) if line.stream == "note"]


async def start(runners: RunnerRegistry, fifo: Path, script: str) -> tuple[asyncio.Task[Outcome], ProcessIdentity]:
    """Start the script; return its run, and the process whose pid it writes into the fifo."""
    task = asyncio.create_task(runners.run(make_job(shell_spec(script), run_id=1)))
    return task, identify(int(await read_fifo(fifo)))


async def cancel(task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("_no_control_groups")
@pytest.mark.parametrize("escape", [name for name, needs_group in ESCAPES.items() if not needs_group])
async def test_a_child_that_left_its_group_does_not_survive_a_cancel(
    runners: RunnerRegistry, tmp_path: Path, escape: str
) -> None:
    fifo = new_fifo(tmp_path)
    task, escaped = await start(runners, fifo, escape_script(escape, fifo))

    await cancel(task)

    assert not is_alive(escaped)


@needs_control_groups
@pytest.mark.parametrize("escape", ESCAPES)
async def test_no_child_leaves_a_control_group(runners: RunnerRegistry, tmp_path: Path, escape: str) -> None:
    fifo = new_fifo(tmp_path)
    task, escaped = await start(runners, fifo, escape_script(escape, fifo))

    await cancel(task)

    assert not is_alive(escaped)


ESCAPE_AT_ONCE = """
import os
for _ in range(20):
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execve("/bin/sh", ["sh", "-c", "exec > /dev/null 2>&1; echo $$ >> {file}; exec sleep 600"], {{}})
        os._exit(0)
    os.wait()
os.execv("/bin/sleep", ["sleep", "600"])
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_RTTIME"), reason="programs inherit no mark on this system")
async def test_a_daemon_that_left_everything_in_its_first_millisecond_survived_its_cancel(
    runners: RunnerRegistry, tmp_path: Path
) -> None:
    pids, program = tmp_path / "pids", tmp_path / "program.py"
    pids.touch()
    program.write_text(ESCAPE_AT_ONCE.format(file=pids), encoding="ascii")
    task = asyncio.create_task(runners.run(make_job(shell_spec(f"exec {sys.executable} -S {program}"), run_id=1)))
    async with asyncio.timeout(60):
        while len(found := pids.read_text(encoding="ascii").split()) < 20:  # noqa: ASYNC110  processes that are not our children
            await asyncio.sleep(0.01)
    daemons = [identify(int(pid)) for pid in found]

    await cancel(task)

    assert not [daemon for daemon in daemons if is_alive(daemon)]


def find_own_groups() -> set[ControlGroup]:
    """Return the control groups of this process: fleets beside it have theirs, and end them when they like."""
    return {group for group in ControlGroup.find_all("herdbeat-") if f".{os.getpid()}." in group.name}


@needs_control_groups
async def test_a_control_group_is_removed_with_its_run(settings: RunnerSettings, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    async with open_runners(settings, FakeClock(NOON)) as runners:
        await runners.run(make_job(shell_spec("true")))
        task, _ = await start(runners, fifo, escape_script("double fork", fifo))
        during = find_own_groups()
        await cancel(task)

    assert any(group.name.endswith("-0001") for group in during)
    assert not during & find_own_groups()


@needs_control_groups
async def test_a_kernel_that_takes_long_to_move_a_program_does_not_hold_up_the_event_loop(
    runners: RunnerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a hundred commands a second on a busy machine, functions started half a second late."""
    asked, moved, add = threading.Event(), threading.Event(), ControlGroup.add

    def add_slowly(group: ControlGroup, pid: int) -> None:
        asked.set()
        assert moved.wait(30), "the event loop waits for the kernel"
        add(group, pid)

    monkeypatch.setattr(ControlGroup, "add", add_slowly)
    task = asyncio.create_task(runners.run(make_job(shell_spec("echo done"))))
    await asyncio.to_thread(asked.wait, 30)
    moved.set()  # by the loop, which is free

    assert (await task).output == "done\n"


async def test_a_child_outside_its_group_may_clean_up_before_it_is_killed(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo, cleaned = new_fifo(tmp_path), tmp_path / "cleaned"
    daemon = tmp_path / "daemon"
    daemon.write_text(f"trap 'touch {cleaned}; exit' TERM; echo $$ > {fifo}; while :; do sleep 0.05; done")
    async with open_runners(replace(settings, kill_after=timedelta(minutes=1)), FakeClock(NOON)) as runners:
        task, escaped = await start(runners, fifo, f"setsid sh {daemon} & wait")

        await cancel(task)

    assert cleaned.exists()
    assert not is_alive(escaped)


@needs_control_groups
async def test_a_forced_cancel_while_the_program_is_put_into_its_group_did_not_kill_it(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_moving, may_move = threading.Event(), threading.Event()

    def add(_group: ControlGroup, _pid: int) -> None:
        is_moving.set()
        may_move.wait()

    monkeypatch.setattr(ControlGroup, "add", add)
    async with open_runners(replace(settings, kill_after=timedelta(hours=1)), FakeClock(NOON)) as runners:
        task = asyncio.create_task(
            runners.run(make_job(shell_spec("trap '' TERM; while :; do sleep 1; done"), run_id=1))
        )
        assert await asyncio.to_thread(is_moving.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        may_move.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert notes(settings)[-1] == "cancelled again: killing the program"


@needs_control_groups
async def test_a_program_that_began_a_session_while_it_was_moved_stayed_stopped_for_ever(
    runners: RunnerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, went_on = new_fifo(tmp_path), threading.Event()
    move = ControlGroup.add

    def add(group: ControlGroup, pid: int) -> None:
        went_on.wait(60)  # it goes on while it is moved: nothing stops it, so nothing can forget to continue it
        move(group, pid)

    monkeypatch.setattr(ControlGroup, "add", add)
    task = asyncio.create_task(runners.run(make_job(shell_spec(f"setsid sh -c 'echo on > {fifo}'"), run_id=1)))
    assert await read_fifo(fifo, within=50) == "on\n"
    went_on.set()

    assert (await task).status is RunStatus.SUCCEEDED


async def test_a_cancel_ends_no_process_of_another_run(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    other = asyncio.create_task(runners.run(make_job(shell_spec(escape_script("own session", fifo)), run_id=2)))
    spared = identify(int(await read_fifo(fifo)))
    task, escaped = await start(runners, fifo, escape_script("own session", fifo))

    await cancel(task)

    assert [is_alive(escaped), is_alive(spared)] == [False, True]
    await cancel(other)


async def test_a_server_that_a_finished_program_left_in_its_own_session_goes_on(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    task, server = await start(runners, fifo, f"setsid sh -c 'echo $$ > {fifo}; exec sleep 600' & sleep 0.1; echo done")
    outcome = await task
    goes_on = is_alive(server)

    ended = ExitingProcess(server.pid)
    os.kill(server.pid, signal.SIGKILL)
    await ended.wait_for_exit()

    assert (goes_on, outcome.output) == (True, "done\n")
    said = (
        "the program has ended; processes that it started in new sessions continue, "
        "and their output is no longer recorded:"
    )
    assert notes(settings) == [f"{said} pid {server.pid}"]


async def test_nothing_that_an_agent_leaves_outlives_its_run_also_if_any_program_is_the_agent(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    script = f"setsid sh -c 'echo $$ > {fifo}; exec sleep 600' & sleep 0.1; echo done"
    spec = AgentSpec(runtime="command", working_directory="/", command=("/bin/sh", "-c", script))
    task = asyncio.create_task(runners.run(make_job(spec, run_id=1)))
    left = identify(int(await read_fifo(fifo)))

    outcome = await task

    assert (is_alive(left), outcome.output) == (False, "done\n")
    assert notes(settings) == [f"the program has ended and left processes; stopping them: pid {left.pid}"]


async def test_a_process_that_cannot_be_ended_is_named(
    runners: RunnerRegistry,
    settings: RunnerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fifo = new_fifo(tmp_path)
    task, escaped = await start(runners, fifo, escape_script("own session", fifo))
    with monkeypatch.context() as patch:  # as if it belonged to another user
        patch.setattr(supervise, "KILL_WAIT_S", 0.1)
        patch.setattr(supervise, "send_signal", lambda *_: None)
        patch.setattr(ControlGroup, "kill", lambda _: None)
        await cancel(task)
        has_survived = is_alive(escaped)
    survivors = await runners.wait_stopped(1)
    os.kill(escaped.pid, signal.SIGKILL)

    assert has_survived
    assert survivors == f"some processes could not be stopped: pid {escaped.pid}"
    assert notes(settings)[-1] == survivors
    assert f"processes could not be stopped run=0001 pids=pid {escaped.pid}" in caplog.text
    assert await runners.wait_stopped(1) == ""


@pytest.mark.usefixtures("_no_control_groups")
async def test_a_slow_look_at_the_process_table_called_a_killed_process_a_survivor(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = new_fifo(tmp_path)
    task, escaped = await start(runners, fifo, escape_script("own session, ignores TERM", fifo))
    original, began = find_run_processes, time.monotonic()

    def look(*arguments: Any) -> list[ProcessInfo]:
        found = original(*arguments)
        while time.monotonic() <= began + supervise.KILL_WAIT_S:
            time.sleep(0.01)  # as `ps` does on a busy machine
        return found

    async def kill(processes: RunProcesses) -> list[ProcessInfo]:
        nonlocal began
        began = time.monotonic()
        return await original_kill(processes)

    original_kill = RunProcesses.kill
    monkeypatch.setattr(supervise, "KILL_WAIT_S", 0.2)
    monkeypatch.setattr(supervise, "find_run_processes", look)
    monkeypatch.setattr(RunProcesses, "kill", kill)

    await cancel(task)

    assert not is_alive(escaped)
    assert not [note for note in notes(settings) if "could not be stopped" in note]


@pytest.mark.usefixtures("_no_control_groups")
async def test_processes_that_multiply_while_they_are_killed_are_all_ended(
    runners: RunnerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not platform.HAS_PROC:
        # On a busy machine one look by `ps` takes longer than one of them lives. Their number is limited, so the killer
        # wins in the end.
        monkeypatch.setattr(supervise, "KILL_WAIT_S", 120.0)
        monkeypatch.setattr(supervise, "EMPTY_LOOKS", 10)
    fifo = new_fifo(tmp_path)
    program = tmp_path / "multiply.py"
    program.write_text(MULTIPLY, encoding="ascii")
    script = f"setsid {sys.executable} {program} & echo $! > {fifo}; sleep 600"
    task, _ = await start(runners, fifo, script)

    await cancel(task)

    ours = [found for found in find_marked_processes("") if found.node.split(".")[1] == str(os.getpid())]
    assert not [found for found in ours if found.run == "0001"]
