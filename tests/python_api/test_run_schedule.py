"""One run of one schedule, item by item of its documented test plan."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_clock_scheduler import MONDAY, RecordingCallback, RecordingLogger, make_agent, run_scheduler

from herdbeat import (
    ScheduleRunResult,
    ScheduleSkipReason,
    ScheduleTriggerError,
    TriggerInfo,
    WorkItem,
    get_schedule_state,
    run_schedule,
    update_schedule_state,
)
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import Conflict, WorkSourceError
from herdbeat.python_api.options import build_fleet
from herdbeat.testing import FakeClock

SOURCE = {"type": "interval", "interval": "5m", "prompt": "Fix it.", "work_source": {"type": "directory", "path": "in"}}


class Source:
    """A work source that returns the given item and records the reports."""

    def __init__(self, *items: WorkItem, error: Exception | None = None, is_deaf: bool = False) -> None:
        self._items = list(items)
        self._error = error
        self._is_deaf = is_deaf
        self.reports: list[tuple[str, bool, str | None]] = []

    async def get_next_work_item(self, agent: Target, schedule: Schedule) -> WorkItem | None:
        if self._error is not None:
            raise self._error
        return self._items.pop() if self._items else None

    async def report_outcome(self, item: WorkItem, result: ScheduleRunResult) -> None:
        if self._is_deaf:
            raise OSError("nobody listens")
        self.reports.append((item.id, result.success, result.error))


ITEM = WorkItem(id="42", title="Fix the timeout", body="After 30 minutes.", url="https://example.com/42")


async def run(folder: Path, name: str = "check", clock: FakeClock | None = None, **options: Any) -> ScheduleRunResult:
    options.setdefault("agent", make_agent(check="5m"))
    return await run_schedule(schedule_name=name, state_dir=folder, timer=clock or FakeClock(MONDAY), **options)


async def test_it_runs_with_the_prompt_and_returns_the_result(tmp_path: Path) -> None:
    callback = RecordingCallback()

    result = await run(tmp_path, job_executor=callback)

    assert (result.success, result.job_id, result.error, result.skipped) == (True, "0001", None, False)
    assert (callback.infos[0].prompt, result.response) == ("Do check.", {"did": "scout/check"})


async def test_the_schedule_is_running_while_it_runs_and_idle_after(tmp_path: Path) -> None:
    during: list[str] = []

    async def execute(info: TriggerInfo) -> None:
        during.append((await get_schedule_state(tmp_path, "scout", "check")).status)

    await run(tmp_path, job_executor=execute)

    after = await get_schedule_state(tmp_path, "scout", "check")
    assert (during, after.status) == (["running"], "idle")


async def test_a_due_run_is_the_one_that_was_due_and_decides_the_next(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)
    await run(tmp_path, clock=clock, job_executor=RecordingCallback())
    clock.advance(timedelta(minutes=5))

    await run(tmp_path, clock=clock, job_executor=RecordingCallback())

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (state.last_run_at, state.next_run_at) == (clock.now(), clock.now() + timedelta(minutes=5))


async def test_a_run_before_its_time_does_not_move_the_next(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)
    await run(tmp_path, clock=clock, job_executor=RecordingCallback())
    clock.advance(timedelta(minutes=1))

    result = await run(tmp_path, clock=clock, job_executor=RecordingCallback())

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert result.success
    assert (state.last_run_at, state.next_run_at) == (clock.now(), MONDAY + timedelta(minutes=5))


async def test_an_error_is_returned_as_a_result_and_stored(tmp_path: Path) -> None:
    lines = RecordingLogger()

    result = await run(tmp_path, job_executor=RecordingCallback(fails=("scout/check",)), logger=lines)

    assert (result.success, result.error) == (False, "RuntimeError: it broke")
    assert (await get_schedule_state(tmp_path, "scout", "check")).last_error == "RuntimeError: it broke"
    assert lines.lines == ["error: scout/check: RuntimeError: it broke"]


async def test_a_work_item_is_claimed_inserted_and_reported(tmp_path: Path) -> None:
    callback, source = RecordingCallback(), Source(ITEM)

    result = await run(tmp_path, agent=make_agent(check=SOURCE), job_executor=callback, work_source_manager=source)

    assert result.work_item == ITEM
    assert "**Title:** Fix the timeout" in callback.infos[0].prompt
    assert source.reports == [("42", True, None)]


async def test_a_work_source_without_a_manager_was_ignored_and_the_schedule_ran_without_its_item(
    tmp_path: Path,
) -> None:
    callback = RecordingCallback()

    result = await run(tmp_path, agent=make_agent(check=SOURCE), job_executor=callback)

    assert (result.success, result.skip_reason) == (False, ScheduleSkipReason.WORK_SOURCE_ERROR)
    assert result.error == "this node does not take work items, and the schedule needs one"
    assert callback.infos == []


async def test_a_failure_is_reported_to_the_source(tmp_path: Path) -> None:
    source = Source(ITEM)
    callback = RecordingCallback(fails=("scout/check",))

    await run(tmp_path, agent=make_agent(check=SOURCE), job_executor=callback, work_source_manager=source)

    assert source.reports == [("42", False, "RuntimeError: it broke")]


async def test_without_work_nothing_runs_and_the_next_is_planned_as_usual(tmp_path: Path) -> None:
    callback = RecordingCallback()

    result = await run(tmp_path, agent=make_agent(check=SOURCE), job_executor=callback, work_source_manager=Source())

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (result.success, result.skipped, result.skip_reason) == (True, True, ScheduleSkipReason.NO_WORK)
    assert (callback.infos, state.next_run_at) == ([], MONDAY + timedelta(minutes=5))


async def test_a_source_that_fails_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    source = Source(error=WorkSourceError("the disk is gone"))

    result = await run(
        tmp_path, agent=make_agent(check=SOURCE), job_executor=RecordingCallback(), work_source_manager=source
    )

    assert (result.success, result.skip_reason) == (False, ScheduleSkipReason.WORK_SOURCE_ERROR)
    assert result.error == "the disk is gone"


async def test_a_source_that_raises_anything_is_asked_again_at_the_usual_next_time(tmp_path: Path) -> None:
    callback, source = RecordingCallback(), Source(error=ConnectionResetError("the API hung up"))

    result = await run(tmp_path, agent=make_agent(check=SOURCE), job_executor=callback, work_source_manager=source)

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (result.success, result.skip_reason) == (False, ScheduleSkipReason.WORK_SOURCE_ERROR)
    assert result.error == "ConnectionResetError: the API hung up"
    assert (callback.infos, state.last_error) == ([], "ConnectionResetError: the API hung up")
    assert state.next_run_at == MONDAY + timedelta(minutes=5)


async def test_a_report_that_fails_does_not_change_the_run(tmp_path: Path) -> None:
    source = Source(ITEM, is_deaf=True)

    result = await run(
        tmp_path, agent=make_agent(check=SOURCE), job_executor=RecordingCallback(), work_source_manager=source
    )

    assert result.success


async def test_the_schedule_can_be_passed_separately_from_its_agent(tmp_path: Path) -> None:
    bare = {"name": "scout"}
    fleet = build_fleet([make_agent(check="5m")], tmp_path)

    by_mapping = await run(
        tmp_path,
        agent=bare,
        schedule={"type": "manual", "prompt": "Now."},
        name="now",
        job_executor=RecordingCallback(),
    )
    by_value = await run(
        tmp_path, agent=fleet.targets[0], schedule=fleet.schedules[0], job_executor=RecordingCallback()
    )

    assert (by_mapping.success, by_value.success) == (True, True)


async def test_other_schedules_of_the_state_directory_stay(tmp_path: Path) -> None:
    await run(tmp_path, job_executor=RecordingCallback())

    await run(tmp_path, agent=make_agent("other", look="1h"), name="look", job_executor=RecordingCallback())

    assert (await get_schedule_state(tmp_path, "scout", "check")).last_run_at == MONDAY


async def test_a_disabled_schedule_is_skipped(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)
    await run(tmp_path, clock=clock, job_executor=RecordingCallback())
    await update_schedule_state(tmp_path, "scout", "check", status="disabled", clock=clock)

    result = await run(tmp_path, clock=clock, job_executor=RecordingCallback())

    assert (result.success, result.skip_reason) == (False, ScheduleSkipReason.DISABLED)


async def test_an_unknown_schedule_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ScheduleTriggerError) as caught:
        await run(tmp_path, name="never", job_executor=RecordingCallback())

    assert (caught.value.agent_name, caught.value.schedule_name) == ("scout", "never")


async def test_it_is_refused_while_a_scheduler_runs_there(tmp_path: Path) -> None:
    async with run_scheduler(tmp_path, [make_agent(check="5m")], RecordingCallback()):
        with pytest.raises(Conflict, match="already running"):
            await run(tmp_path, job_executor=RecordingCallback())


async def test_a_run_that_is_cancelled_is_recorded_as_interrupted(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/check",))
    running = asyncio.create_task(run(tmp_path, job_executor=callback))
    await callback.next()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (state.status, state.last_error) == ("idle", None)
