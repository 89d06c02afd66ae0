"""One timer for the timeouts of all runs: it ends what is over, and nothing else."""

import asyncio
from datetime import timedelta

import pytest

from herdbeat.scheduler.timers import RunTimeouts

AT_ONCE = timedelta(0)
SOON = timedelta(milliseconds=1)
NEVER = timedelta(days=1)


async def wait_forever(timeouts: RunTimeouts, time_limit: timedelta) -> None:
    with timeouts.limit(time_limit):
        await asyncio.Event().wait()


async def test_a_block_that_is_over_raises_timeout_error_with_the_cancellation_as_its_cause() -> None:
    with pytest.raises(TimeoutError) as raised:
        await wait_forever(RunTimeouts(), AT_ONCE)

    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_block_that_ends_in_time_returns_and_leaves_the_timer_to_the_others() -> None:
    timeouts = RunTimeouts()
    with timeouts.limit(SOON):
        pass

    with pytest.raises(TimeoutError):
        await wait_forever(timeouts, SOON * 2)


async def test_a_shorter_timeout_ends_first_although_it_began_last() -> None:
    timeouts, ended = RunTimeouts(), list[str]()

    async def run(name: str, time_limit: timedelta) -> None:
        try:
            await wait_forever(timeouts, time_limit)
        except TimeoutError:
            ended.append(name)

    async with asyncio.TaskGroup() as tasks:
        never = tasks.create_task(run("never", NEVER))
        later = tasks.create_task(run("later", SOON * 2))
        sooner = tasks.create_task(run("sooner", SOON))
        await asyncio.wait((later, sooner))
        never.cancel()

    assert ended == ["sooner", "later"]


async def test_a_run_that_is_cancelled_stays_cancelled_although_its_time_is_over_too() -> None:
    timeouts, began = RunTimeouts(), asyncio.Event()

    async def stop_slowly() -> None:
        with timeouts.limit(SOON):
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()  # until its time is over

    task = asyncio.create_task(stop_slowly())
    await began.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_second_event_loop_has_its_own_timer() -> None:
    timeouts = RunTimeouts()

    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(wait_forever(timeouts, SOON))
