"""A function of the process that runs every target."""

import asyncio
from pathlib import Path

import pytest
from tests.support.runner_jobs import command_spec, make_job

from herdbeat.clock import SystemClock
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.base import Job
from herdbeat.runners.functions import Function, LocalFunctions
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings


def telling(folder: Path, function: Function) -> RunnerSettings:
    return RunnerSettings(state_dir=folder, environ={}, local_functions=LocalFunctions(override=function))


async def test_the_callback_gets_the_job_instead_of_the_runner_of_its_kind(tmp_path: Path) -> None:
    refused_elsewhere = AgentSpec(runtime="sdk", working_directory="/")
    settings = telling(tmp_path, Function(call=lambda job: {"asked": job.prompt}, is_async=False, takes_run=True))

    async with open_runners(settings, SystemClock()) as runners:
        outcome = await runners.run(make_job(refused_elsewhere, prompt="Look around."))

    assert (outcome.status, outcome.response) == (RunStatus.SUCCEEDED, {"asked": "Look around."})


async def test_an_async_callback_is_awaited_and_its_error_is_the_failure(tmp_path: Path) -> None:
    async def tell(job: Job) -> None:
        raise LookupError(job.target.name)

    async with open_runners(
        telling(tmp_path, Function(call=tell, is_async=True, takes_run=True)), SystemClock()
    ) as runners:
        outcome = await runners.run(make_job(command_spec("true")))

    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "LookupError: scribe")


async def test_a_cancelled_callback_raises_the_cancellation(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def tell(job: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with open_runners(
        telling(tmp_path, Function(call=tell, is_async=True, takes_run=True)), SystemClock()
    ) as runners:
        running = asyncio.create_task(runners.run(make_job(command_spec("true"), run_id=7)))
        await begun.wait()
        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
        await runners.wait_stopped(7)
