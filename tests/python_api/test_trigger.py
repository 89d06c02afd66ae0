"""`Scheduler.trigger`, item by item of its documented test plan."""

from pathlib import Path

import pytest
from tests.support.fake_clock_scheduler import RecordingCallback, RecordingLogger, make_agent, run_scheduler

from herdbeat import (
    Scheduler,
    ScheduleSkipReason,
    ScheduleTriggerError,
    TriggerResult,
)


async def test_trigger_runs_a_schedule_now_and_names_its_job(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(
        tmp_path, [make_agent(nightly={"type": "cron", "cron": "0 2 * * *"})], callback
    ) as scheduler:
        result = await scheduler.trigger("scout", "nightly")
        first = await callback.next()

        assert (result.success, result.skipped, result.error) == (True, False, None)
        assert (first, callback.infos[0].job_id) == ("scout/nightly", result.job_id)
        assert scheduler.state.schedules[0].next_run_at is not None


async def test_a_second_trigger_of_a_running_schedule_is_queued(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/slow",))
    async with run_scheduler(tmp_path, [make_agent(most=2, slow={"type": "manual"})], callback) as scheduler:
        first = await scheduler.trigger("scout", "slow")
        second = await scheduler.trigger("scout", "slow")
        callback.let_go()

        assert (first.job_id, second.success, second.job_id) == ("0001", True, None)
        assert [await callback.next(), await callback.next()] == ["scout/slow", "scout/slow"]


async def test_a_schedule_with_overlap_skip_is_not_triggered_twice(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/slow",))
    slow = {"type": "manual", "overlap": "skip"}
    async with run_scheduler(tmp_path, [make_agent(most=2, slow=slow)], callback) as scheduler:
        await scheduler.trigger("scout", "slow")

        again = await scheduler.trigger("scout", "slow")

        assert (again.success, again.skipped, again.skip_reason) == (False, True, ScheduleSkipReason.ALREADY_RUNNING)


async def test_at_capacity_gives_the_documented_result_and_log_line(tmp_path: Path) -> None:
    callback, lines = RecordingCallback(holds=("scout/a", "scout/b")), RecordingLogger()
    manual = {"type": "manual"}
    agents = [make_agent(most=2, a=manual, b=manual, c=manual)]
    async with run_scheduler(tmp_path, agents, callback, logger=lines) as scheduler:
        for name in ("a", "b"):
            await scheduler.trigger("scout", name)

        result = await scheduler.trigger("scout", "c")

        assert (result.skipped, result.skip_reason) == (True, ScheduleSkipReason.AT_CAPACITY)
        assert "info: Skipping scout/c: at max capacity (2/2)" in lines.lines


@pytest.mark.parametrize(
    ("name", "schedule", "message"),
    [
        ("nobody", None, 'There is no agent "nobody". Known: scout, idle.'),
        ("scout", "never", 'The agent "scout" has no schedule "never". Known: check.'),
        ("idle", None, 'The agent "idle" has no schedule. Known: none.'),
    ],
)
async def test_trigger_of_an_unknown_agent_or_schedule_returns_an_error_that_names_it(
    tmp_path: Path, name: str, schedule: str | None, message: str
) -> None:
    async with run_scheduler(tmp_path, [make_agent(check="5m"), make_agent("idle")], RecordingCallback()) as scheduler:
        result = await scheduler.trigger(name, schedule)

        assert result == TriggerResult(success=False, error=message)


async def test_trigger_uses_the_first_schedule_if_none_is_named(tmp_path: Path) -> None:
    callback = RecordingCallback()
    manual = {"type": "manual"}
    async with run_scheduler(tmp_path, [make_agent(first=manual, second=manual)], callback) as scheduler:
        await scheduler.trigger("scout")

        assert await callback.next() == "scout/first"


async def test_a_program_does_not_trigger_what_is_disabled_but_a_person_may(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(tmp_path, [make_agent(hand={"type": "manual", "enabled": False})], callback) as scheduler:
        by_program = await scheduler.trigger("scout", "hand")
        by_person = await scheduler.trigger("scout", "hand", by="human:anna")

        assert (by_program.skipped, by_program.skip_reason) == (True, ScheduleSkipReason.DISABLED)
        assert by_person.success


async def test_nothing_is_triggered_while_it_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(ScheduleTriggerError, match="not running"):
        await Scheduler(tmp_path).trigger("scout", "check")
