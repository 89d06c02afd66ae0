"""The documented state functions, with and without a running scheduler."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_clock_scheduler import MONDAY, RecordingCallback, make_agent, run_scheduler, wait_until_idle

from herdbeat import (
    PersistedScheduleState,
    ScheduleStanding,
    get_agent_schedule_states,
    get_schedule_state,
    run_schedule,
    update_schedule_state,
)
from herdbeat.errors import StoreUnavailable, UsageError
from herdbeat.testing import FakeClock

UNKNOWN = PersistedScheduleState(status=ScheduleStanding.IDLE, last_run_at=None, next_run_at=None, last_error=None)


async def ran_once(folder: Path, **schedules: Any) -> None:
    """A state directory in which the schedule `check` has run once, and nothing runs any more."""
    callback = RecordingCallback()
    async with run_scheduler(folder, [make_agent(check="5m", **schedules)], callback) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)


async def test_an_unknown_state_directory_agent_or_schedule_is_idle(tmp_path: Path) -> None:
    await ran_once(tmp_path)

    assert await get_schedule_state(tmp_path / "nothing", "scout", "check") == UNKNOWN
    assert await get_schedule_state(tmp_path, "nobody", "check") == UNKNOWN
    assert await get_schedule_state(tmp_path, "scout", "never") == UNKNOWN
    assert await get_agent_schedule_states(tmp_path, "nobody") == {}


async def test_the_state_survives_the_scheduler(tmp_path: Path) -> None:
    await ran_once(tmp_path)

    state = await get_schedule_state(tmp_path, "scout", "check")

    assert (state.status, state.last_run_at) == ("idle", MONDAY)
    assert state.next_run_at == MONDAY + timedelta(minutes=5)


async def test_a_running_schedule_has_the_status_running(tmp_path: Path) -> None:
    callback = RecordingCallback(holds=("scout/check",))
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback):
        await callback.next()

        assert (await get_schedule_state(tmp_path, "scout", "check")).status == "running"


async def test_a_failure_stores_its_error(tmp_path: Path) -> None:
    callback = RecordingCallback(fails=("scout/check",))
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

    assert (await get_schedule_state(tmp_path, "scout", "check")).last_error == "RuntimeError: it broke"


async def test_a_damaged_ledger_is_an_error_and_not_an_empty_state(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.db").write_bytes(b"this is no database, and was not one before" * 100)

    with pytest.raises(StoreUnavailable, match="not a database"):
        await get_schedule_state(tmp_path, "scout", "check")


async def test_disabling_keeps_the_history_and_the_other_schedules(tmp_path: Path) -> None:
    await ran_once(tmp_path, other={"type": "manual"})

    await update_schedule_state(tmp_path, "scout", "check", status="disabled", clock=FakeClock(MONDAY))

    states = await get_agent_schedule_states(tmp_path, "scout")
    assert (states["check"].status, states["check"].last_run_at) == ("disabled", MONDAY)
    assert (states["check"].next_run_at, states["other"].status) == (None, "idle")


async def test_idle_enables_it_again(tmp_path: Path) -> None:
    await ran_once(tmp_path)
    clock = FakeClock(MONDAY)
    await update_schedule_state(tmp_path, "scout", "check", status="disabled", clock=clock)

    await update_schedule_state(tmp_path, "scout", "check", status="idle", clock=clock)

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (state.status, state.next_run_at) == ("idle", MONDAY + timedelta(minutes=5))


async def test_running_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await ran_once(tmp_path)

    with caplog.at_level(logging.WARNING):
        await update_schedule_state(tmp_path, "scout", "check", status="running")

    assert (await get_schedule_state(tmp_path, "scout", "check")).status == "idle"
    assert "status ignored schedule=scout/check" in caplog.text


async def test_an_unknown_status_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='status cannot be "paused"'):
        await update_schedule_state(tmp_path, "scout", "check", status="paused")


@pytest.mark.parametrize("folder", ["known", "new"])
async def test_an_update_creates_what_is_missing(tmp_path: Path, folder: str) -> None:
    await ran_once(tmp_path / "known")

    await update_schedule_state(tmp_path / folder, "scout", "other", status="disabled")
    await update_schedule_state(tmp_path / folder, "nobody", "check", status="idle")

    assert (await get_schedule_state(tmp_path / folder, "scout", "other")).status == "disabled"
    assert (await get_schedule_state(tmp_path / folder, "nobody", "check")).status == "idle"


async def test_a_recorded_next_run_of_a_created_schedule_was_repaired_as_damage_and_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    following = MONDAY - timedelta(hours=1)
    await update_schedule_state(tmp_path, "nobody", "check", next_run_at=following, clock=FakeClock(MONDAY))

    await ran_once(tmp_path)

    assert (await get_schedule_state(tmp_path, "nobody", "check")).next_run_at == following
    assert "repaired" not in caplog.text


async def test_an_update_records_last_run_next_run_and_error(tmp_path: Path) -> None:
    last, following = MONDAY - timedelta(hours=1), MONDAY + timedelta(hours=2)

    await update_schedule_state(
        tmp_path,
        "scout",
        "check",
        last_run_at=last,
        next_run_at=following,
        last_error="the disk is full",
        clock=FakeClock(MONDAY),
    )

    assert await get_schedule_state(tmp_path, "scout", "check") == PersistedScheduleState(
        status=ScheduleStanding.IDLE, last_run_at=last, next_run_at=following, last_error="the disk is full"
    )


async def test_an_update_with_timestamps_as_texts_was_an_attribute_error(tmp_path: Path) -> None:
    await update_schedule_state(
        tmp_path, "scout", "check", last_run_at="2026-01-19T10:05:00Z", next_run_at="2026-01-19T11:10:00+01:00"
    )

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert state.last_run_at == datetime(2026, 1, 19, 10, 5, tzinfo=UTC)
    assert state.next_run_at == datetime(2026, 1, 19, 10, 10, tzinfo=UTC)


async def test_an_interval_counts_from_the_recorded_last_run_or_to_the_recorded_next_one(tmp_path: Path) -> None:
    await ran_once(tmp_path)
    clock = FakeClock(MONDAY)

    await update_schedule_state(tmp_path, "scout", "check", last_run_at=MONDAY - timedelta(minutes=3), clock=clock)
    after_last = await get_schedule_state(tmp_path, "scout", "check")
    await update_schedule_state(tmp_path, "scout", "check", next_run_at=MONDAY + timedelta(hours=1), clock=clock)
    after_next = await get_schedule_state(tmp_path, "scout", "check")

    assert (after_last.last_run_at, after_last.next_run_at) == (
        MONDAY - timedelta(minutes=3),
        MONDAY + timedelta(minutes=2),
    )
    assert (after_next.last_run_at, after_next.next_run_at) == (after_last.last_run_at, MONDAY + timedelta(hours=1))


async def test_a_recorded_next_run_of_a_cron_is_one_more_instant(tmp_path: Path) -> None:
    await ran_once(tmp_path, nightly={"type": "cron", "cron": "0 0 * * *"})
    extra = MONDAY + timedelta(minutes=10)

    await update_schedule_state(tmp_path, "scout", "nightly", next_run_at=extra, clock=FakeClock(MONDAY))

    assert (await get_schedule_state(tmp_path, "scout", "nightly")).next_run_at == extra


async def test_an_empty_error_removes_the_recorded_one_and_nothing_else(tmp_path: Path) -> None:
    await update_schedule_state(tmp_path, "scout", "check", last_error="no", status="disabled")
    await update_schedule_state(tmp_path, "scout", "check", last_error="")

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (state.status, state.last_error) == ("disabled", None)


async def test_concurrent_updates_all_take_effect(tmp_path: Path) -> None:
    names = {f"s{number}": {"type": "manual"} for number in range(5)}
    await ran_once(tmp_path, **names)

    await asyncio.gather(*(update_schedule_state(tmp_path, "scout", name, status="disabled") for name in names))

    states = await get_agent_schedule_states(tmp_path, "scout")
    assert [states[name].status for name in names] == ["disabled"] * 5


async def test_it_works_beside_a_scheduler_in_the_same_event_loop(tmp_path: Path) -> None:
    callback = RecordingCallback()
    async with run_scheduler(tmp_path, [make_agent(check="5m")], callback) as scheduler:
        await callback.next()
        await wait_until_idle(scheduler)

        await update_schedule_state(tmp_path, "scout", "check", status="disabled")

        assert scheduler.state.schedules[0].status == "disabled"


async def test_a_single_run_leaves_its_state_for_these_functions(tmp_path: Path) -> None:
    clock = FakeClock(MONDAY)

    await run_schedule(
        agent=make_agent(check="5m"),
        schedule_name="check",
        state_dir=tmp_path,
        job_executor=RecordingCallback(),
        timer=clock,
    )

    state = await get_schedule_state(tmp_path, "scout", "check")
    assert (state.status, state.last_run_at, state.next_run_at) == ("idle", MONDAY, MONDAY + timedelta(minutes=5))
