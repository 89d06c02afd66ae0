"""The documented class, item by item of its documented test plan: its life cycle, its loop, its state."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_clock_scheduler import (
    LONG_LEASE,
    MONDAY,
    RecordingCallback,
    RecordingLogger,
    make_agent,
    run_scheduler,
    wait_until,
    wait_until_idle,
)

from herdbeat import (
    Scheduler,
    SchedulerShutdownError,
    SchedulerStatus,
    ScheduleSkipReason,
    TriggerInfo,
    update_schedule_state,
)
from herdbeat.errors import Conflict
from herdbeat.testing import FakeClock


async def test_start_begins_to_check_and_sets_the_state_to_running(tmp_path: Path) -> None:
    callback = RecordingCallback()
    scheduler = Scheduler(tmp_path, on_trigger=callback, timer=FakeClock(MONDAY), lease=LONG_LEASE)
    before = scheduler.status

    await scheduler.start([make_agent(check="5m")])
    first = await callback.next()

    assert (before, scheduler.status, scheduler.is_running) == (SchedulerStatus.STOPPED, SchedulerStatus.RUNNING, True)
    assert first == "scout/check"
    await scheduler.stop()


async def test_stop_ends_it(tmp_path: Path) -> None:
    async with run_scheduler(tmp_path, [make_agent(check="5m")], RecordingCallback()) as scheduler:
        await scheduler.stop()

        assert (scheduler.status, scheduler.is_running) == (SchedulerStatus.STOPPED, False)


async def test_stop_waits_for_running_jobs(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/check",))
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()

        stopping = asyncio.create_task(scheduler.stop(wait_for_jobs=True, timeout=30))
        await asyncio.sleep(0)
        status = scheduler.status
        callback.let_go()
        await stopping

        assert status is SchedulerStatus.STOPPING
        assert scheduler.state.schedules[0].last_run_at == MONDAY


async def test_a_start_during_a_stop_waits_and_then_really_starts(tmp_path: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work(info: TriggerInfo) -> None:
        started.set()
        await go_on.wait()

    scheduler = Scheduler(tmp_path, on_trigger=work)
    await scheduler.start([make_agent(check="5m")])
    await started.wait()
    stopping = asyncio.create_task(scheduler.stop())
    await wait_until(scheduler, lambda: True if scheduler.status is SchedulerStatus.STOPPING else None)

    starting = asyncio.create_task(
        scheduler.start([make_agent(check="5m"), make_agent("other", hand={"type": "manual"})])
    )
    await asyncio.sleep(0.05)
    was_pretending = starting.done()
    go_on.set()
    await stopping
    await starting

    assert not was_pretending
    assert scheduler.is_running
    assert (await scheduler.trigger("other")).success
    await scheduler.stop()


async def test_stop_times_out_if_jobs_take_too_long(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/check",))
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()

        with pytest.raises(SchedulerShutdownError) as caught:
            await scheduler.stop(timeout=0)

        assert (caught.value.timed_out, caught.value.running_job_count) == (True, 1)
        assert scheduler.status is SchedulerStatus.STOPPED


async def test_stop_without_waiting_cancels_runs_and_is_no_error(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/check",))
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()

        await scheduler.stop(wait_for_jobs=False)

        (schedule,) = scheduler.state.schedules
        assert (schedule.status, schedule.last_error) == ("idle", None)


async def test_starting_and_stopping_twice_does_nothing_the_second_time(tmp_path: Path) -> None:
    lines = RecordingLogger()
    async with run_scheduler(tmp_path, [make_agent(check="5m")], RecordingCallback(), logger=lines) as scheduler:
        await scheduler.start([make_agent(check="5m")])
        await scheduler.stop()
        await scheduler.stop()

        assert [each for each in lines.lines if "already running" in each]
        assert scheduler.status is SchedulerStatus.STOPPED


async def test_a_second_scheduler_in_the_same_state_directory_is_refused(tmp_path: Path) -> None:
    async with run_scheduler(tmp_path, [make_agent(check="5m")], RecordingCallback()):
        second = Scheduler(tmp_path, on_trigger=RecordingCallback())

        with pytest.raises(Conflict, match="already running"):
            await second.start([make_agent(check="5m")])

        assert second.status is SchedulerStatus.STOPPED


async def test_it_can_be_started_again_after_a_stop(tmp_path: Path) -> None:
    callback = RecordingCallback()
    clock = FakeClock(MONDAY)
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback, clock) as scheduler:
        await callback.next()
        await scheduler.stop()

        clock.advance(timedelta(minutes=5))
        await scheduler.start([make_agent(check="5m")])

        assert await callback.next() == "scout/check"


async def test_all_agents_are_checked(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(tmp_path, [make_agent("a", check="5m"), make_agent("b", check="1h")], callback):
        assert {await callback.next(), await callback.next()} == {"a/check", "b/check"}


async def test_event_triggers_are_not_fired_by_the_clock(tmp_path: Path) -> None:
    callback = RecordingCallback()
    agents = [make_agent(hook={"type": "webhook"}, talk={"type": "chat"}, check="5m")]
    async with run_scheduler(tmp_path, agents, callback) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

        assert callback.labels == ["scout/check"]
        assert scheduler.check("scout", "hook").skip_reason is ScheduleSkipReason.UNSUPPORTED_TYPE


async def test_disabled_schedules_are_skipped(tmp_path: Path) -> None:
    callback = RecordingCallback()
    off = {"type": "interval", "interval": "1m", "enabled": False}
    async with run_scheduler(tmp_path, [make_agent(off=off, check="5m")], callback) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

        assert callback.labels == ["scout/check"]
        assert scheduler.check("scout", "off").skip_reason is ScheduleSkipReason.DISABLED


async def test_a_due_schedule_waits_while_its_agent_is_at_capacity(tmp_path: Path) -> None:
    callback, lines, clock = RecordingCallback(holds=("scout/long",)), RecordingLogger(), FakeClock(MONDAY)
    agents = [make_agent(long={"type": "manual"}, check={"type": "cron", "cron": "5 8 * * *"})]
    async with run_scheduler(tmp_path, agents, callback, clock, logger=lines) as scheduler:
        await scheduler.trigger("scout", "long")
        await callback.next()

        clock.advance(timedelta(minutes=5))
        await wait_until(scheduler, lambda: lines.lines or None)
        waiting = scheduler.check("scout", "check")
        callback.let_go()

        assert lines.lines == ["info: Skipping scout/check: at max capacity (1/1)"]
        assert (waiting.should_trigger, waiting.skip_reason) == (False, ScheduleSkipReason.AT_CAPACITY)
        assert await callback.next() == "scout/check"


async def test_the_next_run_is_one_interval_after_the_end_of_the_last(tmp_path: Path) -> None:
    callback, clock = RecordingCallback(holds=("scout/check",)), FakeClock(MONDAY)
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback, clock) as scheduler:
        await callback.next()
        clock.advance(timedelta(minutes=10))
        callback.let_go()
        await wait_until_idle(scheduler)

        (schedule,) = scheduler.state.schedules
        assert schedule.last_run_at == MONDAY + timedelta(minutes=10)
        assert schedule.next_run_at == MONDAY + timedelta(minutes=15)

        clock.advance(timedelta(minutes=5))
        assert await callback.next() == "scout/check"


async def test_an_error_is_reported_and_other_schedules_continue(tmp_path: Path) -> None:
    callback, lines, clock = RecordingCallback(fails=("scout/bad",)), RecordingLogger(), FakeClock(MONDAY)
    agents = [make_agent(most=2, bad="5m", good="5m")]
    async with run_scheduler(tmp_path, agents, callback, clock, logger=lines) as scheduler:
        await callback.next()
        await callback.next()
        await wait_until_idle(scheduler)
        clock.advance(timedelta(minutes=5))

        assert await callback.next() == "scout/good"  # the bad one waits twice as long

        states = {each.schedule: each for each in scheduler.state.schedules}
        assert states["bad"].last_error == "RuntimeError: it broke"
        assert states["bad"].next_run_at == MONDAY + timedelta(minutes=10)
        assert "error: Error executing scout/bad: RuntimeError: it broke" in lines.lines


async def test_it_polls_at_the_latest_after_the_check_interval(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)
    async with run_scheduler(
        tmp_path, [make_agent(hand={"type": "manual"})], RecordingCallback(), clock, check_interval="10s"
    ) as scheduler:
        await wait_until(scheduler, lambda: _sleeps_until(clock, MONDAY + timedelta(seconds=10)))
        first = scheduler.state.check_count

        clock.advance(timedelta(seconds=9))
        await asyncio.sleep(0)
        early = scheduler.state.check_count
        clock.advance(timedelta(seconds=1))
        later = await wait_until(scheduler, lambda: _after(scheduler, first))

        assert early == first
        assert later.last_check_at == MONDAY + timedelta(seconds=10)


def _sleeps_until(clock: FakeClock, moment: datetime) -> bool | None:
    return True if any(each == moment for each, _ in clock._waiting) else None


def _after(scheduler: Scheduler, count: int) -> Any:
    state = scheduler.state
    return state if state.check_count > count else None


async def test_state_has_start_time_counts_and_every_schedule(tmp_path: Path) -> None:
    callback, clock = RecordingCallback(), FakeClock(MONDAY)
    async with run_scheduler(tmp_path, [make_agent(check="5m", hand={"type": "manual"})], callback, clock) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

        state = scheduler.state

        assert (state.status, state.started_at, state.trigger_count) == ("running", MONDAY, 1)
        assert state.check_count > 0
        assert state.last_check_at == MONDAY
        assert [(each.agent, each.schedule, each.status) for each in state.schedules] == [
            ("scout", "check", "idle"),
            ("scout", "hand", "idle"),
        ]


async def test_running_jobs_are_counted_per_agent_and_uncounted_at_their_end(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("a/check", "b/check"), fails=("b/check",))
    async with run_scheduler(
        tmp_path, [make_agent("a", check="5m"), make_agent("b", check="5m")], callback
    ) as scheduler:
        await callback.next()
        await callback.next()
        during = (scheduler.running_job_count("a"), scheduler.running_job_count("b"), scheduler.total_running_job_count)
        active = scheduler.state.active_jobs

        callback.let_go()
        await wait_until_idle(scheduler)

        assert (during, active) == ((1, 1, 2), 2)
        assert (scheduler.running_job_count("a"), scheduler.total_running_job_count) == (0, 0)
        assert scheduler.running_job_count("nobody") == 0


async def test_a_scheduler_that_was_never_started_has_a_state(tmp_path: Path) -> None:
    state = Scheduler(tmp_path).state

    assert (state.status, state.started_at, state.check_count, state.schedules) == ("stopped", None, 0, ())


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    callback, clock = RecordingCallback(), FakeClock(MONDAY)
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback, clock) as first:
        await callback.next()
        await wait_until_idle(first)
    clock.advance(timedelta(minutes=1))

    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback, clock) as second:
        (schedule,) = second.state.schedules

        assert (schedule.last_run_at, schedule.next_run_at) == (MONDAY, MONDAY + timedelta(minutes=5))
        assert callback.labels == ["scout/check"]


async def test_agents_with_different_intervals_keep_their_own_pace(tmp_path: Path) -> None:
    callback, clock = RecordingCallback(), FakeClock(MONDAY)
    async with run_scheduler(
        tmp_path, [make_agent("fast", check="1m"), make_agent("slow", check="3m")], callback, clock
    ) as scheduler:
        for _ in range(2):
            await callback.next()
        for _ in range(3):
            await wait_until_idle(scheduler)
            clock.advance(timedelta(minutes=1))
            await callback.next()
        await callback.next()

        assert callback.labels.count("fast/check") == 4
        assert callback.labels.count("slow/check") == 2


async def test_a_schedule_disabled_from_outside_is_not_run_any_more(tmp_path: Path) -> None:
    callback, clock = RecordingCallback(), FakeClock(MONDAY)
    async with run_scheduler(tmp_path, [make_agent(check="5m", other="5m", most=2)], callback, clock) as scheduler:
        await callback.next()
        await callback.next()
        await wait_until_idle(scheduler)

        await update_schedule_state(tmp_path, "scout", "check", status="disabled")
        clock.advance(timedelta(minutes=5))

        assert await callback.next() == "scout/other"
        assert scheduler.check("scout", "check").skip_reason is ScheduleSkipReason.DISABLED
