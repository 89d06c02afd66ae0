"""Programs that misbehave: they do not end, do not read, do not stop printing, or do not exist."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.runner_jobs import NOON, ExitingProcess, command_spec, make_job, new_fifo, read_fifo, shell_spec

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.runners.base import Job, Unstarted, find_unstarted
from herdbeat.runners.process.program import Program
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import RunLog, find_log, read_log
from herdbeat.runners.settings import MIB, RunnerSettings
from herdbeat.testing.clock import FakeClock

MUCH = 1024 * MIB


def started(runners: RunnerRegistry, spec: CommandSpec) -> asyncio.Task[Outcome]:
    return asyncio.create_task(runners.run(make_job(spec, run_id=1)))


def notes(settings: RunnerSettings) -> list[str]:
    path = find_log(settings.state_dir, 1)
    assert path is not None
    return [line.text for line in read_log(path) if line.stream == "note"]


def forget_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


async def test_a_cancelled_program_may_clean_up_and_is_gone_afterwards(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo, cleaned = new_fifo(tmp_path), tmp_path / "cleaned"
    async with open_runners(replace(settings, kill_after=timedelta(minutes=1)), FakeClock(NOON)) as runners:
        task = started(runners, shell_spec(f"trap 'touch {cleaned}; exit' TERM; echo $$ > {fifo}; sleep 600 & wait"))
        leader = ExitingProcess(int(await read_fifo(fifo)))

        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.exists()
        await leader.wait_for_exit()


async def test_a_program_that_ignores_term_is_killed_with_all_its_group(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    script = f"trap '' TERM; sleep 600 & echo $$ $! > {fifo}; wait; sleep 600"
    task = started(runners, shell_spec(script))
    both = [ExitingProcess(int(pid)) for pid in (await read_fifo(fifo)).split()]

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    for each in both:
        await each.wait_for_exit()
    assert notes(settings)[-1] == "the program did not stop in time; killing it"


async def test_a_second_cancellation_kills_at_once(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    task = started(runners, shell_spec(f"trap '' TERM; echo $$ > {fifo}; while :; do sleep 600; done"))
    leader = ExitingProcess(int(await read_fifo(fifo)))

    task.cancel()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await leader.wait_for_exit()


async def test_a_timeout_around_the_run_ends_the_program(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    task = started(runners, shell_spec(f"echo $$ > {fifo}; exec sleep 600"))
    leader = ExitingProcess(int(await read_fifo(fifo)))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await task

    await leader.wait_for_exit()


async def test_a_grandchild_that_keeps_the_output_open_does_not_block_the_run(
    runners: RunnerRegistry, settings: RunnerSettings, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    task = started(runners, shell_spec(f"sleep 600 & echo $! > {fifo}; echo done"))
    grandchild = ExitingProcess(int(await read_fifo(fifo)))

    outcome = await task

    assert outcome.output == "done\n"
    await grandchild.wait_for_exit()
    assert notes(settings) == ["the program has ended but left processes that keep its output open; stopping them"]


async def test_the_rest_of_the_process_group_ends_with_the_run(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    task = started(runners, shell_spec(f"sleep 600 > /dev/null 2>&1 & echo $! > {fifo}"))
    left = ExitingProcess(int(await read_fifo(fifo)))

    await task

    await left.wait_for_exit()


async def test_a_program_that_prints_a_gigabyte_costs_no_memory(
    runners: RunnerRegistry, settings: RunnerSettings
) -> None:
    forget_peak_memory()
    before = peak_memory()

    outcome = await runners.run(
        make_job(shell_spec(f"yes {'0123456789' * 20} | head -c {MUCH}; echo; echo the end"), run_id=1)
    )

    log = find_log(settings.state_dir, 1)
    assert log is not None
    assert peak_memory() - before < 8 * MIB
    assert log.stat().st_size < 13 * MIB
    assert len(outcome.output) == settings.output_cap
    assert outcome.output.endswith("the end\n")
    assert read_log(log)[-1].text == "the end"
    assert int(notes(settings)[-1].split()[0]) > MUCH - 11 * MIB


async def test_one_huge_line_is_kept_up_to_the_caps(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    outcome = await runners.run(make_job(shell_spec("head -c 20000000 /dev/zero | tr '\\0' x"), run_id=1))

    assert outcome.output == "x" * settings.output_cap
    assert notes(settings)[0] == "the log is full: only the end of the remaining output is kept"


async def test_a_program_that_does_not_read_its_long_prompt_still_succeeds(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(shell_spec("exec 0<&-; echo done"), prompt="x" * 10_000_000))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "done\n")


async def test_a_long_prompt_arrives_whole(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("wc", "-c"), prompt="x" * 10_000_000))

    assert outcome.output == "10000000\n"


async def test_a_program_that_ends_before_its_prompt_is_read_still_succeeds(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("true"), prompt="x" * 10_000_000))

    assert outcome.status is RunStatus.SUCCEEDED


async def test_a_missing_program_is_reported(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    outcome = await runners.run(make_job(command_spec("no-such-program"), run_id=1))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error == ('There is no program "no-such-program" on the PATH. Install it, or write its full path.')
    assert notes(settings) == [outcome.error]


async def test_a_hundred_programs_run_concurrently(runners: RunnerRegistry) -> None:
    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(runners.run(make_job(command_spec("echo", str(number))))) for number in range(100)]

    assert [run.result().output for run in runs] == [f"{number}\n" for number in range(100)]


class NeverReady:
    """Prepares a workspace for ever."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    @asynccontextmanager
    async def prepare(self, job: Job, program: Program, run_log: RunLog) -> AsyncIterator[Program]:
        run_log.note(f"{job.target.name} waits")
        self.began.set()
        await asyncio.Event().wait()
        yield program


async def test_an_agent_that_ended_while_its_workspace_was_prepared_says_so(settings: RunnerSettings) -> None:
    preparer = NeverReady()
    async with open_runners(settings, FakeClock(NOON), preparer) as runners:
        spec = AgentSpec(runtime="command", working_directory="/", command=("/bin/true",))
        task = asyncio.create_task(runners.run(make_job(spec)))
        await preparer.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task

    assert find_unstarted(raised.value) == Unstarted("its program was started")


async def test_a_cancelled_program_is_not_called_unstarted(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    task = asyncio.create_task(runners.run(make_job(shell_spec(f"echo > {fifo}; sleep 600"))))
    await read_fifo(fifo)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task

    assert find_unstarted(raised.value) is None
