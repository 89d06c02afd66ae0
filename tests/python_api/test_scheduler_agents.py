"""The agents of a `Scheduler`, how they are run, and its options."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_clock_scheduler import (
    LONG_LEASE,
    MONDAY,
    RecordingCallback,
    make_agent,
    run_scheduler,
    wait_until,
    wait_until_idle,
)

from herdbeat import (
    ConfigError,
    Scheduler,
    TriggerInfo,
)
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.testing import FakeClock


async def test_set_agents_changes_them_while_it_runs(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()

        await scheduler.set_agents([make_agent(check="5m"), make_agent("new", check="1h")])

        assert await callback.next() == "new/check"
        assert [each.agent for each in scheduler.state.schedules] == ["scout", "new"]


async def test_set_agents_that_are_wrong_change_nothing(tmp_path: Path) -> None:
    async with run_scheduler(tmp_path, [make_agent(check="5m")], RecordingCallback()) as scheduler:
        with pytest.raises(ConfigError, match=r"agents\.scout\.schedules\.check\.interval"):
            scheduler.set_agents([make_agent(check="5x")])

        assert [each.schedule for each in scheduler.state.schedules] == ["check"]


async def test_every_problem_of_the_agents_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await Scheduler(tmp_path).start([make_agent(a="5x", b={"type": "cron", "cron": "0 25 * * *"})])

    assert [each.where.path for each in caught.value.problems if each.where] == [
        "agents.scout.schedules.a.interval",
        "agents.scout.schedules.b.cron",
    ]
    assert len(caught.value.__notes__) == 2


async def test_a_single_agent_must_be_in_a_list(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a mapping") as caught:
        await Scheduler(tmp_path).start(make_agent(check="1h"))  # type: ignore[arg-type]

    assert "list" in caught.value.hint


async def test_an_object_that_is_no_agent_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="42 is not an agent"):
        await Scheduler(tmp_path).start([42])


async def test_a_fleet_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    file.write_text("version: 1\ncommands:\n  - { name: tidy, command: [date], every: 5m }\n", encoding="utf-8")
    callback = RecordingCallback()

    async with run_scheduler(tmp_path / "state", file, callback):
        assert await callback.next() == "tidy/default"


async def test_on_trigger_receives_agent_schedule_and_rendered_prompt(tmp_path: Path) -> None:
    callback = RecordingCallback()
    schedule = {"type": "interval", "interval": "5m", "prompt": "I am {{agent}}."}
    async with run_scheduler(tmp_path, [make_agent(check=schedule)], callback):
        await callback.next()

        info = callback.infos[0]
        assert (info.agent.name, info.schedule_name, info.schedule.id) == ("scout", "check", "scout/check")
        assert (info.prompt, info.due_at, info.attempt) == ("I am scout.", MONDAY, 1)
        assert (info.metadata.trigger_type, info.metadata.schedule) == ("interval", "check")


async def test_on_trigger_can_be_a_plain_function(tmp_path: Path) -> None:
    done: list[str] = []

    def on_trigger(info: TriggerInfo) -> None:
        done.append(info.schedule_name)

    scheduler = Scheduler(tmp_path, on_trigger=on_trigger, timer=FakeClock(MONDAY), lease=LONG_LEASE)
    await scheduler.start([make_agent(check="5m")])
    await wait_until(scheduler, lambda: scheduler.state.schedules[0].last_run_at)
    await scheduler.stop()

    assert done == ["check"]


async def test_without_on_trigger_the_target_is_run_by_its_own_runner(tmp_path: Path) -> None:
    scout = {**make_agent(check="5m"), "runtime": "command", "command": ["sh", "-c", "cat > said"]}
    scout["working_directory"] = str(tmp_path)
    scheduler = Scheduler(tmp_path / "state", timer=FakeClock(MONDAY), lease=LONG_LEASE)

    await scheduler.start([scout])
    await wait_until(scheduler, lambda: scheduler.state.schedules[0].last_run_at)
    await scheduler.stop()

    assert (tmp_path / "said").read_text(encoding="utf-8") == "Do check."


async def test_jitter_percent_spreads_intervals(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(tmp_path, [make_agent(check="1h")], callback, jitter_percent=50) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

        (schedule,) = scheduler.state.schedules
        assert schedule.next_run_at is not None
        assert MONDAY + timedelta(hours=1) <= schedule.next_run_at <= MONDAY + timedelta(minutes=90)
        assert schedule.next_run_at != MONDAY + timedelta(hours=1)


@pytest.mark.parametrize("percent", [-1, 101])
async def test_jitter_outside_of_zero_to_a_hundred_is_refused(tmp_path: Path, percent: float) -> None:
    with pytest.raises(UsageError, match="jitter_percent"):
        await Scheduler(tmp_path, jitter_percent=percent).start([make_agent(check="1h")])


def test_a_negative_check_interval_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="check_interval is negative"):
        Scheduler(tmp_path, check_interval=-1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_interval": "0s"}, "zero"),
        ({"check_interval": 0}, "check_interval is zero"),
        ({"lease": 0}, "lease is zero"),
        ({"max_concurrent": -1}, "max_concurrent cannot be -1"),
        ({"check_interval": float("nan")}, "check_interval is not a duration: nan"),
        ({"lease": float("inf")}, "lease is not a duration: inf"),
    ],
)
def test_invalid_options_of_a_scheduler_are_rejected(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HerdbeatError, match=message):
        Scheduler(tmp_path, **options)
