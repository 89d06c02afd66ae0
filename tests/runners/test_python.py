"""Python functions: their argument, their results and exceptions, and functions that never return."""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import sample_functions as sample
from tests.support.runner_jobs import NOON, callable_spec, make_job

from herdbeat.domain.run import RunStatus
from herdbeat.runners.base import find_unstarted
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock

HERE = "tests.support.sample_functions"


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    sample.GATE.clear()
    sample.ENTERED.clear()
    yield
    sample.GATE.set()


async def test_a_function_that_returns_nothing_succeeds_without_output(
    runners: RunnerRegistry, settings: RunnerSettings
) -> None:
    outcomes = [await runners.run(make_job(callable_spec(f"{HERE}:{name}"))) for name in ("nothing", "nothing_async")]

    assert [outcome.status for outcome in outcomes] == [RunStatus.SUCCEEDED] * 2
    assert [outcome.response for outcome in outcomes] == [None] * 2
    assert not settings.state_dir.exists()


async def test_a_sync_function_has_a_thread_and_an_async_one_the_loop(runners: RunnerRegistry) -> None:
    in_thread = await runners.run(make_job(callable_spec(f"{HERE}:thread")))
    in_loop = await runners.run(make_job(callable_spec(f"{HERE}:thread_async")))

    assert (in_thread.response, in_loop.response) == ("callable 1", "MainThread")


async def test_a_function_with_an_argument_gets_its_run_context(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:about"), prompt="Tidy up."))

    assert outcome.response == [
        "scribe/hourly",
        "scribe/hourly:cron:2026-03-02T12:00:00Z",
        "2026-03-02T12:00:00+00:00",
        1,
        "Tidy up.",
        "Cron trigger: 0 * * * *",
    ]


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("about_async", "Tidy up."),
        ("about_if_requested", True),
        ("with_defaults", 3),
        ("GREETER.greet", "hello"),
        ("GREETER", "called"),
        ("GREET", "hello"),
        ("looks_sync", None),
    ],
)
async def test_functions_of_every_shape_are_called(runners: RunnerRegistry, name: str, response: object) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:{name}"), prompt="Tidy up."))

    assert (outcome.error, outcome.response) == ("", response)


async def test_a_function_in_a_thread_sees_the_context_of_its_run(runners: RunnerRegistry) -> None:
    sample.WORD.set("given")

    outcome = await runners.run(make_job(callable_spec(f"{HERE}:word")))

    assert outcome.response == "given"


@pytest.mark.parametrize("name", ["fails", "fails_async"])
async def test_an_exception_is_the_error_and_its_traceback_is_in_the_log(
    runners: RunnerRegistry, settings: RunnerSettings, name: str
) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:{name}"), run_id=3))

    log = find_log(settings.state_dir, 3)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "ValueError: the queue is closed")
    assert log is not None
    assert any(f"in {name}" in line.text for line in read_log(log))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("cancels_itself", "CancelledError"),
        ("stops_iterating", "RuntimeError: coroutine raised StopIteration"),
        ("interrupts", "RuntimeError: the function raised KeyboardInterrupt"),
        ("raises_own_base_exception", "RuntimeError: the function raised OwnBaseException: mine"),
        ("raises_generator_exit", "RuntimeError: the function raised GeneratorExit"),
        ("raises_unreadable", "UnreadableError: its message cannot be read"),
        ("exits_badly", "the function called sys.exit('no disk')"),
        ("outcome", "its own words"),
    ],
)
async def test_unusual_exceptions_fail_only_their_run(runners: RunnerRegistry, name: str, error: str) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:{name}")))

    assert (outcome.status, outcome.error) == (RunStatus.FAILED, error)


async def test_sys_exit_without_an_error_is_a_success(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:exits_well")))

    assert outcome.status is RunStatus.SUCCEEDED


@pytest.mark.parametrize(("name", "shown"), [("not_json", "{1}"), ("not_a_number", "nan")])
async def test_a_result_that_is_not_json_is_shown_and_not_stored(
    runners: RunnerRegistry, name: str, shown: str
) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:{name}")))

    assert (outcome.status, outcome.response, outcome.output) == (RunStatus.SUCCEEDED, None, shown)


async def test_a_result_that_is_too_long_is_noted(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:long")))

    assert outcome.response is None
    assert len(outcome.output) == settings.output_cap
    assert outcome.summary == "The return value is not stored: it has 1000002 bytes, and at most 262144 are kept."


async def test_a_cancelled_async_function_is_stopped(runners: RunnerRegistry) -> None:
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:waits_async"))))
    await asyncio.to_thread(sample.ENTERED.wait)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_function_cancelled_while_it_is_imported_has_not_started(runners: RunnerRegistry) -> None:
    """With `overlap: cancel`, its beat was called `ran` although nothing of it had started."""
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:waits_async"))))
    await asyncio.sleep(0)  # it waits for the thread that imports it

    task.cancel()

    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert find_unstarted(cancelled.value) is not None
    assert not sample.ENTERED.is_set()


async def test_a_function_cancelled_after_its_first_step_has_started(runners: RunnerRegistry) -> None:
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:waits_async"))))
    await asyncio.to_thread(sample.ENTERED.wait)

    task.cancel()

    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert find_unstarted(cancelled.value) is None


async def test_a_cancelled_function_in_a_thread_goes_on_and_its_end_can_be_awaited(runners: RunnerRegistry) -> None:
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:waits"), run_id=4)))
    await asyncio.to_thread(sample.ENTERED.wait)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = asyncio.create_task(runners.wait_stopped(4))
    await asyncio.sleep(0)
    was_over = ended.done()
    sample.GATE.set()
    await ended

    assert not was_over


async def test_a_function_that_ignores_its_cancellation_ends_its_run_and_keeps_its_slot(
    runners: RunnerRegistry,
) -> None:
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:ignores_cancellation"), run_id=4)))
    await asyncio.to_thread(sample.ENTERED.wait)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = asyncio.create_task(runners.wait_stopped(4))
    await asyncio.sleep(0.05)
    was_over = ended.done()
    sample.GATE.set()
    await ended

    assert not was_over


async def test_a_function_that_ignores_its_cancellation_is_abandoned_when_the_node_closes(
    settings: RunnerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_runners(settings, FakeClock(NOON)) as runners:
        task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:ignores_cancellation"))))
        await asyncio.to_thread(sample.ENTERED.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = [each for each in asyncio.all_tasks() if each.get_name() == "function of scribe/hourly"]

    await asyncio.wait(left, timeout=60)

    assert [each.done() for each in left] == [True]
    assert "function abandoned schedule=scribe/hourly it ignored its cancellation" in caplog.text


async def test_a_function_that_returns_although_it_was_cancelled_does_not_succeed(runners: RunnerRegistry) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await runners.run(make_job(callable_spec(f"{HERE}:returns_when_cancelled")))


async def test_a_function_may_use_timeouts_and_cancel_its_own_tasks(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(callable_spec(f"{HERE}:uses_timeouts")))

    assert (outcome.error, outcome.response) == ("", "timed out inside")


async def test_an_exception_of_a_cancelled_function_is_dropped(runners: RunnerRegistry) -> None:
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    task = asyncio.create_task(runners.run(make_job(callable_spec(f"{HERE}:waits_and_fails"), run_id=4)))
    await asyncio.to_thread(sample.ENTERED.wait)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = asyncio.create_task(runners.wait_stopped(4))
    await asyncio.sleep(0)
    sample.GATE.set()
    await ended
    gc.collect()

    assert unhandled == []


async def test_waiting_for_any_other_run_returns_at_once(runners: RunnerRegistry) -> None:
    await runners.run(make_job(callable_spec(f"{HERE}:nothing"), run_id=4))

    await asyncio.wait_for(runners.wait_stopped(4), timeout=60)


async def test_a_function_that_cannot_be_found_fails_with_a_hint(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(callable_spec("no.such.module:tidy")))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error == (
        'There is no module "no.such.module". Correct call:, or install the module in herdbeat\'s environment.'
    )


async def test_functions_beside_the_fleet_file_are_found(settings: RunnerSettings, tmp_path: Path) -> None:
    (tmp_path / "beside_the_fleet.py").write_text("def tidy():\n    return 17\n", encoding="utf-8")

    async with open_runners(replace(settings, module_folders=(tmp_path,)), FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(callable_spec("beside_the_fleet:tidy")))

    assert outcome.response == 17
