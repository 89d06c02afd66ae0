"""What a type checker sees of the public names: mypy reads this file as it would read a user's.

Each `type: ignore` marks an error that a user would see: mypy rejects one that is not needed.
"""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, assert_type
from zoneinfo import ZoneInfo

import pytest

from herdbeat import (
    ConfigError,
    Herd,
    RunContext,
    Scheduler,
    SchedulerOptions,
    ScheduleRunResult,
    StopOptions,
    TriggerInfo,
    TriggerResult,
    parse_interval,
    run_schedule,
)

MOMENT = datetime(2030, 4, 1, 9, 0, tzinfo=UTC)


def test_the_package_is_marked_as_typed() -> None:
    """Without the marker a checker treats every name here as Any, and `--strict` refuses the decorators."""
    assert files("herdbeat").joinpath("py.typed").is_file()


def test_a_decorator_keeps_the_type_and_the_function() -> None:
    herd = Herd(None)

    def poll(run: RunContext, /) -> dict[str, int]:
        return {"attempt": run.attempt}

    async def standup() -> str:
        return "all is well"

    every = herd.every(timedelta(minutes=5), overlap="queue", retry={"attempts": 3, "wait": "10s"})(poll)
    cron = herd.cron("0 9 * * 1-5", timezone=ZoneInfo("Europe/Berlin"), budget={"runs_per_day": 3})(standup)
    once = herd.at(MOMENT, name="standup/once")(standup)

    assert_type(every, Callable[[RunContext], dict[str, int]])
    assert_type(cron, Callable[[], Coroutine[Any, Any, str]])
    assert (every, cron, once) == (poll, standup, standup)


def test_errors_are_reported_by_the_type_checker_and_at_run_time() -> None:
    herd = Herd(None)

    with pytest.raises(ConfigError, match="sometimes"):
        herd.every("5m", overlap="sometimes", name="a")(str)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match='did you mean "prompt"'):
        herd.every("5m", promt="Go.", name="a")(str)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="the time unit is missing"):
        herd.every(5, name="a")(str)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="was called without a schedule"):
        herd.every(str)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="promt"):
        Scheduler(promt="Go.")  # type: ignore[call-arg]


async def test_arguments_and_results_are_typed(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="poll")(lambda: None)

    async with herd as same:
        result = await herd.trigger("poll", wait=True)
        text = herd.explain("poll").text

    assert_type(same, Herd)
    assert_type(result, TriggerResult)
    assert_type(herd.next("poll"), datetime | None)
    assert_type(text, str)
    assert_type(parse_interval("5m"), timedelta)
    assert result.success


async def test_the_documented_options_fit_their_functions(tmp_path: Path) -> None:
    async def on_trigger(info: TriggerInfo) -> str:
        return info.prompt

    options: SchedulerOptions = {"state_dir": tmp_path / "a", "on_trigger": on_trigger}
    stop: StopOptions = {"wait_for_jobs": True, "timeout": 30}
    scout: dict[str, object] = {"name": "scout", "schedules": {"check": {"type": "interval", "interval": "5m"}}}

    scheduler = Scheduler(**options)
    await scheduler.start([scout])
    await scheduler.stop(**stop)
    ran = await run_schedule(
        agent=scout, schedule_name="check", state_dir=tmp_path / "b", job_executor=lambda info: len(info.prompt)
    )

    assert_type(ran, ScheduleRunResult)
    assert (scheduler.is_running, ran.success) == (False, True)
