"""A running herd: what it runs, what it stores, how it stops."""

import asyncio
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.event_wait import wait_for_event

from herdbeat import Herd, RunContext
from herdbeat.bootstrap.handle import open_state_dir
from herdbeat.errors import Conflict, SchedulerShutdownError, StoreUnavailable, UsageError
from herdbeat.events import Event, RunFinished
from herdbeat.scheduler.claim import ClaimResult
from herdbeat.service.commands.base import Actor, TriggerSchedule


async def test_an_async_function_runs_at_once_and_its_result_is_stored(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()

    @herd.every("5m")
    async def poll(run: RunContext) -> dict[str, int]:
        done.set()
        return {"attempt": run.attempt}

    async with herd:
        await wait_for_event(done)

    (beat,) = herd.beats("poll")
    assert (beat.outcome, beat.source, herd.is_running) == ("ran", "first-run", False)
    assert [run.status for run in herd.runs("poll")] == ["succeeded"]


async def test_a_plain_function_runs_in_a_thread(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), threading.Event()
    threads: list[str] = []

    @herd.every("5m")
    def tidy() -> None:
        threads.append(threading.current_thread().name)
        done.set()

    async with herd:
        assert await asyncio.to_thread(done.wait, 10)

    assert threads[0] != threading.main_thread().name


async def test_a_restart_continues_where_it_stopped(tmp_path: Path) -> None:
    ended = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, RunFinished):
            ended.set()

    first, second = Herd(tmp_path, listener=listen), Herd(tmp_path)
    planned: list[datetime | None] = []
    for herd in (first, second):
        herd.every("1h", name="poll")(lambda: None)
        async with herd:
            await wait_for_event(ended)  # of the first herd alone: the second one has nothing to do yet
            planned.append(herd.next("poll"))

    assert planned[0] == planned[1] is not None
    assert len(second.beats("poll")) == 1


async def test_without_a_state_dir_nothing_is_left_behind() -> None:
    herd = Herd(None)
    herd.every("5m", name="poll")(lambda: None)

    async with herd:
        place = herd.state_dir
        was_there = (place / "herdbeat.db").exists()

    assert (was_there, place.exists()) == (True, False)
    with pytest.raises(UsageError, match="no ledger"):
        _ = herd.state_dir


async def test_functions_added_while_it_runs_are_active_after_apply(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()
    herd.every("1h", name="old")(lambda: None)

    async with herd:

        @herd.every("1h")
        async def new() -> None:
            done.set()

        herd.remove("old")
        await herd.apply()
        await wait_for_event(done)

    assert herd.labels == ["new"]


async def test_a_run_of_an_unregistered_function_is_explained(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="poll")(lambda: None)
    async with herd:
        call = next(iter(herd.functions))
        del herd.functions[call]

        await herd.trigger("poll", wait=True)

    (beat,) = herd.beats("poll")
    (run,) = herd.runs("poll")
    assert (beat.outcome, beat.reason) == ("skipped", "config_error")
    assert "has not registered it" in str(run.error)


async def test_a_beat_that_waits_for_a_function_of_an_older_program_is_settled(tmp_path: Path) -> None:
    older, newer = Herd(tmp_path), Herd(tmp_path)
    older.by_hand(name="poll")(lambda: None)
    newer.by_hand(name="other")(lambda: None)
    async with older:
        pass
    open_state_dir(tmp_path, older.timer).dispatcher.run(Actor(name="human:you"), TriggerSchedule(schedule=1))

    async with newer:
        await newer.trigger("other", wait=True)

    assert [(each.outcome, each.reason) for each in older.beats("poll")] == [("skipped", "expired")]


async def test_a_second_herd_in_the_same_state_directory_is_refused(tmp_path: Path) -> None:
    async with Herd(tmp_path):
        with pytest.raises(Conflict):
            await Herd(tmp_path).start()


async def test_run_returns_after_a_stop(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        done.set()

    running = asyncio.create_task(herd.run())
    await wait_for_event(done)
    await herd.stop()
    await running

    assert not herd.is_running


async def test_a_cancelled_run_call_stops_gracefully(tmp_path: Path) -> None:
    herd, begun, going = Herd(tmp_path), asyncio.Event(), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        begun.set()
        await going.wait()

    running = asyncio.create_task(herd.run())
    await wait_for_event(begun)
    running.cancel()
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [run.status for run in herd.runs("poll")] == ["succeeded"]


async def test_a_stop_that_times_out_reports_how_many_runs_were_cancelled(tmp_path: Path) -> None:
    herd, begun = Herd(tmp_path, stop_timeout=0), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        begun.set()
        await asyncio.Event().wait()

    with pytest.raises(SchedulerShutdownError) as caught:
        async with herd:
            await wait_for_event(begun)

    assert caught.value.running_job_count == 1
    assert [run.status for run in herd.runs("poll")] == ["interrupted"]


async def test_a_function_may_stop_its_own_herd_without_waiting_for_itself(tmp_path: Path) -> None:
    herd = Herd(tmp_path)

    @herd.every("1h")
    async def poll() -> str:
        await herd.stop()
        return "the last one"

    async with asyncio.timeout(10):
        await herd.run()

    assert [run.status for run in herd.runs("poll")] == ["succeeded"]


async def test_two_herds_in_one_process_are_independent(tmp_path: Path) -> None:
    calls: list[str] = []
    herds = [Herd(tmp_path / name) for name in ("a", "b")]
    for herd in herds:
        herd.by_hand(name="poll")(lambda herd=herd: calls.append(herd.state_dir.name))

    async with herds[0], herds[1]:
        results = [await herd.trigger("poll", wait=True) for herd in herds]

    assert calls == ["a", "b"]
    assert [(each.success, each.job_id) for each in results] == [(True, "0001"), (True, "0001")]


async def test_a_herd_can_be_stopped_and_started_again(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="poll")(lambda: None)

    for _ in range(2):
        async with herd:
            await herd.trigger("poll", wait=True)
    await herd.stop()  # there is nothing left to stop

    assert len(herd.runs("poll")) == 2


async def test_a_fatal_error_of_a_herd_is_logged_at_once_and_raised_by_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    herd = Herd(tmp_path)
    await herd.start()
    assert herd._engine is not None
    assert herd._engine.loop is not None

    herd._engine.loop.run_cycle = broken  # type: ignore[method-assign, assignment]
    herd._engine.loop.wake()
    with pytest.raises(ExceptionGroup):
        await herd._engine.wait_stopped()
    log_text = caplog.text

    with pytest.raises(ExceptionGroup):
        await herd.stop()
    assert "herdbeat has ended" in log_text
    assert "RuntimeError('a bug of ours')" in log_text
    assert "no new runs start" in log_text
    assert not herd.is_running


async def broken(_: object) -> ClaimResult:
    raise RuntimeError("a bug of ours")


async def test_a_herd_that_can_write_no_result_ends_and_logs_it_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a second run active, the node waited for ever for a writer that had ended."""
    herd, started, go_on = Herd(tmp_path), asyncio.Event(), asyncio.Event()

    @herd.every("5m")
    async def other() -> None:
        started.set()
        await asyncio.Event().wait()

    @herd.every("5m")
    async def poll() -> None:
        await go_on.wait()

    await herd.start()
    assert herd._engine is not None
    assert herd._engine.loop is not None
    herd._engine.loop.completer._write = broken  # type: ignore[method-assign, assignment]
    await wait_for_event(started)
    go_on.set()

    with pytest.raises(ExceptionGroup):
        async with asyncio.timeout(30):
            await herd._engine.wait_stopped()

    assert "node stops task=recorder error=RuntimeError('a bug of ours')" in caplog.text
    assert "no new runs start" in caplog.text
    with pytest.raises(ExceptionGroup):
        await herd.stop()


async def test_a_herd_whose_task_is_cancelled_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    herd = Herd(tmp_path)
    await herd.start()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await herd.stop()

    assert "herdbeat was cancelled instead of stopped; no new runs start" in caplog.text


async def test_a_task_that_a_function_has_started_can_stop_the_herd(tmp_path: Path) -> None:
    herd, stopped = Herd(tmp_path), asyncio.Event()

    @herd.every("5m")
    async def poll() -> None:
        await asyncio.create_task(herd.stop())
        stopped.set()

    await asyncio.wait_for(herd.run(), timeout=60)

    assert stopped.is_set()
    assert [run.status for run in herd.runs("poll")] == ["succeeded"]


async def test_a_file_in_place_of_the_state_dir_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("", encoding="utf-8")

    with pytest.raises(StoreUnavailable, match="cannot be used as the state directory"):
        await Herd(tmp_path / "state").start()


async def test_a_herd_that_could_not_start_has_nothing_to_stop(tmp_path: Path) -> None:
    herd = Herd(tmp_path)

    async with Herd(tmp_path):
        with pytest.raises(Conflict):
            await herd.start()
        await herd.stop()

    assert not herd.is_running


async def test_a_listener_that_fails_does_not_end_the_herd(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def listen(event: Event) -> None:
        raise ValueError("the screen is gone")

    herd = Herd(tmp_path, listener=listen)
    herd.by_hand(name="poll")(lambda: None)

    async with herd:
        result = await herd.trigger("poll", wait=True)

    assert result.success
    assert "event listener failed event=node_ready" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_concurrent": 0}, "max_concurrent cannot be 0"), ({"check_interval": 0}, "check_interval is zero")],
)
def test_invalid_options_of_a_herd_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Herd(None, **options)
