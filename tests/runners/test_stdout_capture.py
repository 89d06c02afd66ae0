"""What a function prints is in the log of its run, and nowhere else unless the program is the user's own."""

import asyncio
import io
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.runner_jobs import NOON, callable_spec, make_job

from herdbeat.domain.run import Outcome
from herdbeat.runners.functions import LocalFunctions, inspect_function
from herdbeat.runners.registry import open_runners
from herdbeat.runners.run_log import LogStream, find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


def replace_stdout(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Not a fixture: pytest puts its own streams in place between fixtures and test."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


async def run_functions(settings: RunnerSettings, *functions: Callable[..., object]) -> list[Outcome]:
    """Run all of them at once, as runs 1, 2, …"""
    registered = {each.__name__: inspect_function(each.__name__, each) for each in functions}
    local = replace(settings, local_functions=LocalFunctions(functions=registered))
    async with open_runners(local, FakeClock(NOON)) as runners:
        jobs = [make_job(callable_spec(name), run_id=number) for number, name in enumerate(registered, 1)]
        return await asyncio.gather(*(runners.run(job) for job in jobs))


def logged(settings: RunnerSettings, run_id: int) -> list[tuple[LogStream, str]]:
    path = find_log(settings.state_dir, run_id)
    return [] if path is None else [(line.stream, line.text) for line in read_log(path)]


async def test_what_functions_print_at_the_same_time_goes_to_the_log_of_each(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = replace_stdout(monkeypatch)
    in_thread, in_loop = threading.Event(), asyncio.Event()

    def first() -> None:
        print("first begins")
        in_thread.set()
        print("first ends", file=sys.stderr)

    async def second() -> None:
        print("second begins")
        await asyncio.to_thread(in_thread.wait)
        await asyncio.to_thread(print, "second in a thread")
        await asyncio.create_task(print_later())

    async def print_later() -> None:
        print("second in a task")
        in_loop.set()

    async def the_program_itself() -> None:
        await in_loop.wait()
        print("not a run")

    beside = asyncio.create_task(the_program_itself())
    outcomes = await run_functions(settings, first, second)
    await beside

    assert logged(settings, 1) == [(LogStream.OUT, "first begins"), (LogStream.ERR, "first ends")]
    assert [text for _, text in logged(settings, 2)] == ["second begins", "second in a thread", "second in a task"]
    assert [each.output for each in outcomes] == [
        "first begins\nfirst ends\n",
        "second begins\nsecond in a thread\nsecond in a task\n",
    ]
    assert stdout.getvalue() == "not a run\n"
    assert sys.stdout is stdout


async def test_in_a_users_own_program_prints_appear_on_its_stdout_too(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = replace_stdout(monkeypatch)

    def hello() -> None:
        print("hello")

    await run_functions(replace(settings, is_embedded=True), hello)

    assert logged(settings, 1) == [(LogStream.OUT, "hello")]
    assert stdout.getvalue() == "hello\n"


async def test_what_is_left_of_a_run_prints_to_the_real_stdout(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = replace_stdout(monkeypatch)
    released, left = asyncio.Event(), []

    async def leaves_a_task() -> None:
        left.append(asyncio.create_task(print_after_the_end()))

    async def print_after_the_end() -> None:
        await released.wait()
        print("too late")

    await run_functions(settings, leaves_a_task)
    released.set()
    await left[0]

    assert logged(settings, 1) == []
    assert stdout.getvalue() == "too late\n"


async def test_a_function_that_prints_without_end_fills_its_log_and_no_memory(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = replace_stdout(monkeypatch)

    def babbles() -> None:
        for _ in range(2000):
            print("x" * 1000)

    (outcome,) = await run_functions(replace(settings, log_cap=10_000), babbles)

    assert len(outcome.output) == settings.output_cap
    assert any("the log is full" in text for _, text in logged(settings, 1))
    assert stdout.getvalue() == ""


async def test_a_program_that_replaces_its_stdout_while_functions_run_keeps_it(
    settings: RunnerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_stdout(monkeypatch)
    other = io.StringIO()

    def replaces() -> None:
        sys.stdout = other

    await run_functions(settings, replaces)

    assert sys.stdout is other
