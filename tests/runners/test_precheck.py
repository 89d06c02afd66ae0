"""Prechecks: programs that decide whether a run starts, and whose faults must not silence a schedule."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.runners.process.test_runner import lines_of
from tests.support.runner_jobs import (
    PLAN,
    ExitingProcess,
    callable_spec,
    command_spec,
    make_job,
    new_fifo,
    read_fifo,
    shell_spec,
)

from herdbeat.domain.target import CommandSpec, TargetSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.runners.base import Job, PrecheckResult
from herdbeat.runners.registry import RunnerRegistry
from herdbeat.runners.settings import RunnerSettings

BROKEN = "the precheck failed, and the beat ran without it: "


def checked_job(*argv: str, spec: TargetSpec | None = None, timeout: timedelta = timedelta(hours=1)) -> Job:
    plan = ScheduleSpec(trigger=PLAN.trigger, policies=replace(PLAN.policies, precheck=argv, timeout=timeout))
    usual = make_job(spec or command_spec("true"))
    return replace(usual, claim=usual.claim._replace(plan=plan))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", PrecheckResult(may_run=True)),
        ("exit 1", PrecheckResult(may_run=False)),
        ("exit 2", PrecheckResult(may_run=True, note=f"{BROKEN}exit code 2")),
        (
            "echo no such table >&2; exit 127",
            PrecheckResult(may_run=True, note=f"{BROKEN}exit code 127: no such table"),
        ),
        ("kill -KILL $$", PrecheckResult(may_run=True, note=f"{BROKEN}it was killed by signal 9")),
    ],
)
async def test_the_exit_code_decides_whether_the_run_starts(
    runners: RunnerRegistry, script: str, expected: PrecheckResult
) -> None:
    assert await runners.check(checked_job("/bin/sh", "-c", script)) == expected


async def test_a_check_that_does_not_exist_is_a_broken_check(runners: RunnerRegistry) -> None:
    found = await runners.check(checked_job("no-such-check"))

    assert found.may_run
    assert found.note.startswith(BROKEN)
    assert "no-such-check" in found.note


async def test_a_check_that_takes_too_long_is_ended_and_broken(runners: RunnerRegistry, tmp_path: Path) -> None:
    fifo = new_fifo(tmp_path)
    slow = checked_job("/bin/sh", "-c", f"echo $$ > {fifo}; exec sleep 60", timeout=timedelta(seconds=3))

    asking = asyncio.create_task(runners.check(slow))
    child = ExitingProcess(int(await read_fifo(fifo)))

    assert await asking == PrecheckResult(may_run=True, note=f"{BROKEN}it took longer than 3s")
    await child.wait_for_exit()


async def test_a_cancelled_check_is_ended_before_the_cancellation_is_raised(
    runners: RunnerRegistry, tmp_path: Path
) -> None:
    fifo = new_fifo(tmp_path)
    asking = asyncio.create_task(runners.check(checked_job("/bin/sh", "-c", f"echo $$ > {fifo}; exec sleep 60")))
    child = ExitingProcess(int(await read_fifo(fifo)))

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await child.wait_for_exit()


async def test_the_output_of_a_check_is_in_the_log_of_the_run(
    runners: RunnerRegistry, settings: RunnerSettings
) -> None:
    asked = checked_job("/bin/sh", "-c", "echo nothing new; exit 1")

    await runners.check(asked)

    assert [line.text for line in lines_of(settings, asked.claim.run_id)] == ["nothing new", "the precheck declined"]


async def test_a_check_has_the_folder_and_the_environment_of_its_target(
    runners: RunnerRegistry, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    spec = CommandSpec(command=("true",), working_directory=str(tmp_path), env=("OUR_TOKEN",))

    await runners.check(checked_job("/bin/sh", "-c", "echo $PWD $OUR_TOKEN $OUR_SECRET. > seen", spec=spec))

    assert seen.read_text() == f"{tmp_path} token .\n"


async def test_a_callable_may_have_a_check(runners: RunnerRegistry) -> None:
    assert await runners.check(checked_job("true", spec=callable_spec("m:f"))) == PrecheckResult(may_run=True)


async def test_a_check_and_its_run_share_one_log(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    asked = checked_job("/bin/sh", "-c", "echo first", spec=shell_spec("echo second"))

    await runners.check(asked)
    await runners.run(asked)

    assert [line.text for line in lines_of(settings, asked.claim.run_id)] == ["first", "second"]
