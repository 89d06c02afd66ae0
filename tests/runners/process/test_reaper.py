"""A node that is killed takes its children with it, and nothing else."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.escaping_programs import escape_script
from tests.support.runner_jobs import NOON, ExitingProcess, make_job, new_fifo, read_fifo, shell_spec

from herdbeat import platform
from herdbeat.domain.run import Outcome
from herdbeat.platform import ControlGroup, inherited_mark
from herdbeat.runners.process.process_tree import InheritedMark, ProcessIdentity, is_alive, read_start_time
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.runner import CommandRunner
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

ROOT = Path(__file__).parents[3]

needs_inherited_marks = pytest.mark.skipif(
    not hasattr(resource, "RLIMIT_RTTIME"), reason="programs inherit no mark on this system"
)


@asynccontextmanager
async def node_that_runs(state_dir: Path, script: str) -> AsyncIterator[asyncio.subprocess.Process]:
    argv = (sys.executable, "-m", "tests.support.runner_process", str(state_dir), script)
    node = await asyncio.create_subprocess_exec(*argv, cwd=ROOT)
    try:
        yield node
    finally:
        if node.returncode is None:
            node.kill()
        await node.wait()


@pytest.mark.parametrize(
    "script",
    [
        "echo $$ > {fifo}; exec sleep 600",
        "trap '' TERM; sleep 600 & echo $$ $! > {fifo}; wait; sleep 600",
        "setsid sleep 600 & echo $$ $! > {fifo}; wait",
        "(sleep 600 & echo $! > {fifo}) & wait; sleep 600",
        pytest.param(escape_script("double fork, without environment", Path("{fifo}")), marks=needs_inherited_marks),
    ],
    ids=["plain", "ignores TERM", "in a session of its own", "orphaned in the group", "daemon without environment"],
)
async def test_children_of_a_killed_node_are_ended(tmp_path: Path, script: str) -> None:
    fifo = new_fifo(tmp_path)
    async with node_that_runs(tmp_path / "state", script.format(fifo=fifo)) as node:
        children = [ExitingProcess(int(pid)) for pid in (await read_fifo(fifo)).split()]

        node.kill()

        for child in children:
            await child.wait_for_exit()


async def test_a_process_that_a_function_forked_does_not_hide_the_death_of_the_node(tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    async with node_that_runs(tmp_path / "state", f"echo $$ HOLDER > {fifo}; exec sleep 600") as node:
        child, holder = map(int, (await read_fifo(fifo)).split())
        doomed = ExitingProcess(child)

        node.kill()

        await doomed.wait_for_exit()
        os.kill(holder, signal.SIGKILL)


async def test_signals_for_the_whole_terminal_do_not_end_the_reaper(tmp_path: Path) -> None:
    reaper = Reaper(tmp_path)
    reaper.expect("0007")
    reaper.renew(timedelta(hours=1))
    pid = reaper.pid
    assert pid is not None
    await until(lambda: _ignores(pid, signal.SIGTERM))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    reaper.forget("0007")

    assert reaper.pid == pid
    assert os.getsid(pid) == pid
    reaper.close()


async def test_a_reaper_that_was_killed_is_replaced_and_gets_all_runs(
    settings: RunnerSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reaper, fifo = Reaper(settings.state_dir), new_fifo(tmp_path)
    runner = CommandRunner(settings, reaper, FakeClock(NOON))
    run = asyncio.create_task(runner.run(make_job(shell_spec(f"echo $$ > {fifo}; exec sleep 600"))))
    child, first = ExitingProcess(int(await read_fifo(fifo))), reaper.pid
    assert first is not None
    lost = ExitingProcess(first)
    os.kill(first, signal.SIGKILL)
    await lost.wait_for_exit()

    reaper.expect("another")
    second = reaper.pid
    reaper.close()  # as if the node had ended while its child was running

    assert second != first
    assert "reaper lost" in caplog.text
    await child.wait_for_exit()
    assert (await run).error == "killed by SIGTERM"


async def test_a_reaper_that_no_longer_reads_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reaper = Reaper(tmp_path)
    reaper.expect("0007")
    first = reaper.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)

    while reaper.pid == first:
        reaper.expect("0007")

    assert f"reaper lost pid={first} runs=1" in caplog.text
    reaper.forget("0007")
    reaper.close()


async def test_a_reaper_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herdbeat.runners.process.reaper.CLOSE_TIMEOUT_S", 0.1)
    reaper = Reaper(tmp_path)
    reaper.expect("0007")
    pid = reaper.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    reaper.close()

    assert read_start_time(pid) is None


async def test_a_run_goes_on_if_no_reaper_can_be_started(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    runner = CommandRunner(settings, Reaper(settings.state_dir), FakeClock(NOON))

    outcome = await runner.run(make_job(shell_spec("exit 3")))

    assert outcome.code == 3
    assert "reaper not started error=" in caplog.text


@pytest.mark.parametrize("is_renewed_first", [True, False])
async def test_a_lease_that_is_not_renewed_ends_the_children(
    settings: RunnerSettings, tmp_path: Path, is_renewed_first: bool
) -> None:
    reaper, fifo = Reaper(settings.state_dir), new_fifo(tmp_path)
    runner = CommandRunner(settings, reaper, FakeClock(NOON))
    if is_renewed_first:
        reaper.renew(timedelta(milliseconds=300))  # before there is a child, and so before there is a reaper

    run = asyncio.create_task(runner.run(make_job(shell_spec(f"echo $$ > {fifo}; exec sleep 600"))))
    await read_fifo(fifo)
    if not is_renewed_first:
        reaper.renew(timedelta(milliseconds=50))

    outcome: Outcome = await run
    assert outcome.error == "killed by SIGTERM"
    reaper.close()


def test_nothing_is_started_for_a_node_without_children(tmp_path: Path) -> None:
    reaper = Reaper(tmp_path)

    reaper.renew(timedelta(seconds=30))
    reaper.close()

    assert reaper.pid is None


class Leftover:
    """A process with the marks of a node that may or may not be alive, in its environment or inherited."""

    def __init__(self, node: str, run: str, *, is_inherited: bool = False) -> None:
        environment = {} if is_inherited else {"HERDBEAT_NODE": node, "HERDBEAT_RUN": run}
        with inherited_mark(InheritedMark.build(node, run).to_number()) if is_inherited else nullcontext():
            self.process = subprocess.Popen(["/bin/sleep", "600"], env=environment, start_new_session=True)
        self.identity = ProcessIdentity(self.process.pid, read_start_time(self.process.pid) or 0)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def test_leftovers_of_dead_nodes_are_ended_and_no_others(tmp_path: Path) -> None:
    reaper = Reaper(tmp_path)
    state = reaper.node.split(".", maxsplit=1)[0]
    dead = f"{state}.{os.getpid()}.1"  # our pid, but not our start time: a predecessor with the same pid
    ours = Leftover(dead, "0007")
    finished = Leftover(dead, "0006")
    living = Leftover(reaper.node, "0007")
    foreign = Leftover(f"{'0' * 16}.{os.getpid()}.1", "0007")
    odd = Leftover(f"{state}.made.up", "0007")

    count = reaper.end_leftovers(frozenset({"0007"}))

    spared = (finished, living, foreign, odd)
    assert count == 1
    assert [is_alive(each.identity) for each in (ours, *spared)] == [False, True, True, True, True]
    assert reaper.end_leftovers() == 1  # without a list of runs, the finished one is ended too
    assert [is_alive(each.identity) for each in spared] == [False, True, True, True]
    for each in (ours, *spared):
        each.close()


@needs_inherited_marks
def test_a_daemon_without_environment_survived_the_next_start(tmp_path: Path) -> None:
    reaper = Reaper(tmp_path)
    state = reaper.node.split(".", maxsplit=1)[0]
    dead = f"{state}.{os.getpid()}.1"
    ours, finished = Leftover(dead, "0007", is_inherited=True), Leftover(dead, "0006", is_inherited=True)
    living = Leftover(reaper.node, "0007", is_inherited=True)
    foreign = Leftover(f"{'0' * 16}.{os.getpid()}.1", "0007", is_inherited=True)

    count = reaper.end_leftovers(frozenset({"0007"}))

    everyone = (ours, finished, living, foreign)
    assert (count, [is_alive(each.identity) for each in everyone]) == (1, [False, True, True, True])
    for each in everyone:
        each.close()


@pytest.mark.skipif(platform.find_own_control_group() is None, reason="this user may not make control groups here")
def test_control_groups_that_a_killed_node_and_its_reaper_left_were_there_for_ever(tmp_path: Path) -> None:
    reaper = Reaper(tmp_path)
    state = reaper.node.split(".", maxsplit=1)[0]
    names = [f"herdbeat-{state}.{os.getpid()}.1-0007", f"herdbeat-{'0' * 16}.{os.getpid()}.1-0007"]
    groups = [group for name in names if (group := ControlGroup.create(name)) is not None]

    reaper.end_leftovers(frozenset())

    assert [Path(group.folder).exists() for group in groups] == [False, True]  # the other one is of another store
    groups[1].remove()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what the kernel shows but does not announce."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0)


def _ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (number - 1) & 1)
