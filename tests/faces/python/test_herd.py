"""A herd at work: in an event loop, in a lifespan, in a thread, in a script."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat import Herd, RunContext, ScheduleSkipReason, ScheduleTriggerError
from herdbeat.errors import Conflict, NotFound, SchedulerShutdownError, StoreUnavailable, UsageError
from herdbeat.events import Event, RunFinished
from herdbeat.scheduler.turn import Claimed
from herdbeat.service.firing import fire_for_later


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


async def test_an_async_function_runs_at_once_and_its_answer_is_kept(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()

    @herd.every("5m")
    async def poll(run: RunContext) -> dict[str, int]:
        done.set()
        return {"attempt": run.attempt}

    async with herd:
        await soon(done)

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


async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    ended = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, RunFinished):
            ended.set()

    first, second = Herd(tmp_path, listener=listen), Herd(tmp_path)
    planned: list[datetime | None] = []
    for herd in (first, second):
        herd.every("1h", name="poll")(lambda: None)
        async with herd:
            await soon(ended)  # of the first herd alone: the second one has nothing to do yet
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


async def test_trigger_starts_it_and_with_wait_tells_how_it_ended(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="good")(lambda: {"n": 1})
    herd.by_hand(name="bad")(lambda: 1 / 0)

    async with herd:
        good, bad = await herd.trigger("good"), await herd.trigger("bad", wait=True)

    assert (good.success, good.job_id) == (True, "0001")
    assert (bad.success, bad.job_id, bad.error) == (False, "0002", "ZeroDivisionError: division by zero")


async def test_trigger_at_capacity_is_skipped_unless_it_may_queue(tmp_path: Path) -> None:
    herd, going = Herd(tmp_path), asyncio.Event()

    @herd.by_hand(overlap="skip")
    async def slow() -> None:
        await going.wait()

    async with herd:
        await herd.trigger("slow")
        refused = await herd.trigger("slow")
        queued = await herd.trigger("slow", queue=True)
        going.set()

    assert (refused.success, refused.skip_reason) == (False, ScheduleSkipReason.AT_CAPACITY)
    assert (queued.success, queued.job_id) == (True, None)


async def test_what_the_herd_does_not_have_cannot_be_asked_for(tmp_path: Path) -> None:
    herd = Herd(tmp_path)

    with pytest.raises(NotFound, match='no schedule "poll"'):
        herd.next("poll")


async def test_a_herd_that_does_not_run_cannot_be_triggered(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.by_hand(name="poll")(lambda: None)

    with pytest.raises(ScheduleTriggerError, match="does not run"):
        await herd.trigger("poll")


async def test_next_is_known_before_the_first_start_and_while_it_runs(tmp_path: Path) -> None:
    herd = Herd(tmp_path, timezone="Europe/Berlin")
    herd.cron("0 9 1 1 *", name="newyear")(lambda: None)

    before = herd.next("newyear")
    async with herd:
        during = herd.next("newyear")

    assert before == during
    assert before is not None
    assert (before.month, before.day, before.hour, before.tzinfo) == (1, 1, 8, UTC)


async def test_pause_resume_and_hint_are_explained(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.cron("0 9 1 1 *", name="newyear")(lambda: None)

    async with herd:
        await herd.pause("newyear", lasts="1h", reason="quiet", by="human:anna")
        paused = herd.explain("newyear").text
        await herd.resume("newyear", by="human:anna")
        await herd.hint("newyear", every="10m", lasts="1h", by="agent:scout")
        hinted = herd.explain("newyear")

    assert "paused" in paused
    assert "human:anna" in paused
    assert (hinted.source, hinted.origin) == ("ai-interval", "agent:scout")


async def test_explain_says_as_much_as_the_command_does(tmp_path: Path) -> None:
    """It used to look neither at the budget nor at the hints that stand."""
    herd = Herd(tmp_path)
    herd.every("1h", name="poll", budget={"runs_per_day": 1})(lambda: None)

    async with herd:
        await herd.trigger("poll", wait=True, by="human:you")
        await herd.hint("poll", every="30m", lasts="2h", reason="the queue grows")
        explanation = herd.explain("poll")

    assert "its budget is used up" in explanation.text
    assert [each.record.reason for each in explanation.hints] == ["the queue grows"]
    assert "budget" in [each.gate for each in explanation.gates]


async def test_what_a_person_paused_a_machine_does_not_resume(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)
    async with herd:
        await herd.pause("poll", by="human:anna")

        with pytest.raises(Conflict, match="paused by human:anna"):
            await herd.resume("poll", by="agent:scout")


async def test_a_pause_has_an_end_or_a_length(tmp_path: Path) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)

    with pytest.raises(UsageError, match="not both"):
        await herd.pause("poll", until=datetime(2100, 1, 1, tzinfo=UTC), lasts="1h")


@pytest.mark.parametrize(
    ("lasts", "message"),
    [
        (float("inf"), "no length of time: inf"),
        (float("nan"), "no length of time: nan"),
        (1e300, "no length of time"),
        (timedelta.max, "past the end of the calendar"),
        (-1, "lasts is negative"),
    ],
)
async def test_a_length_that_is_none_is_refused(tmp_path: Path, lasts: Any, message: str) -> None:
    herd = Herd(tmp_path)
    herd.every("1h", name="poll")(lambda: None)

    with pytest.raises(UsageError, match=message):
        await herd.pause("poll", lasts=lasts)


async def test_functions_added_while_it_runs_count_after_apply(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()
    herd.every("1h", name="old")(lambda: None)

    async with herd:

        @herd.every("1h")
        async def new() -> None:
            done.set()

        herd.remove("old")
        await herd.apply()
        await soon(done)

    assert herd.labels == ["new"]


async def test_a_function_that_is_no_longer_registered_is_explained_not_silent(tmp_path: Path) -> None:
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
    fire_for_later(tmp_path / "herdbeat.db", older.timer.now(), "poll", origin="human:you")

    async with newer:
        await newer.trigger("other", wait=True)

    assert [(each.outcome, each.reason) for each in older.beats("poll")] == [("skipped", "expired")]


async def test_a_second_herd_in_the_same_place_is_refused(tmp_path: Path) -> None:
    async with Herd(tmp_path):
        with pytest.raises(Conflict):
            await Herd(tmp_path).start()


async def test_run_ends_when_somebody_stops_it(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        done.set()

    running = asyncio.create_task(herd.run())
    await soon(done)
    await herd.stop()
    await running

    assert not herd.is_running


async def test_run_that_is_cancelled_stops_softly(tmp_path: Path) -> None:
    herd, begun, going = Herd(tmp_path), asyncio.Event(), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        begun.set()
        await going.wait()

    running = asyncio.create_task(herd.run())
    await soon(begun)
    running.cancel()
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [run.status for run in herd.runs("poll")] == ["succeeded"]


async def test_a_stop_that_takes_too_long_says_how_many_were_cut_off(tmp_path: Path) -> None:
    herd, begun = Herd(tmp_path, stop_timeout=0), asyncio.Event()

    @herd.every("1h")
    async def poll() -> None:
        begun.set()
        await asyncio.Event().wait()

    with pytest.raises(SchedulerShutdownError) as caught:
        async with herd:
            await soon(begun)

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


async def test_two_herds_in_one_process_do_not_know_of_each_other(tmp_path: Path) -> None:
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


async def test_what_ends_a_herd_from_within_is_told_at_once_and_raised_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    herd = Herd(tmp_path)
    await herd.start()
    assert herd._engine is not None
    assert herd._engine.loop is not None

    herd._engine.loop.turn = broken  # type: ignore[method-assign]
    herd._engine.loop.wake()
    with pytest.raises(ExceptionGroup):
        await herd._engine.ended()
    told = caplog.text

    with pytest.raises(ExceptionGroup):
        await herd.stop()
    assert "herdbeat has ended" in told
    assert "RuntimeError('a bug of ours')" in told
    assert "nothing is started any more" in told
    assert not herd.is_running


async def broken(tasks: asyncio.TaskGroup) -> Claimed:
    raise RuntimeError("a bug of ours")


async def test_a_file_in_place_of_the_state_dir_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("", encoding="utf-8")

    with pytest.raises(StoreUnavailable, match="cannot be the state directory"):
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
    assert "a listener failed event=NodeReady" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_concurrent": 0}, "max_concurrent cannot be 0"), ({"check_interval": 0}, "check_interval is zero")],
)
def test_what_would_keep_a_herd_from_working_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Herd(None, **options)


# ── in other programs ──

Message = dict[str, Any]


async def lifespan(
    herd: Herd, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """What every ASGI server does around an application: Starlette's and FastAPI's `lifespan=` end up here."""
    await receive()
    async with herd:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def test_it_lives_as_long_as_an_asgi_application(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    sent: asyncio.Queue[Message] = asyncio.Queue()

    @herd.every("5m")
    async def poll() -> None:
        done.set()

    application = asyncio.create_task(lifespan(herd, inbox.get, sent.put))
    await inbox.put({"type": "lifespan.startup"})
    started = await sent.get()
    await soon(done)
    during = herd.is_running
    await inbox.put({"type": "lifespan.shutdown"})
    await application

    assert (started["type"], during, herd.is_running) == ("lifespan.startup.complete", True, False)


def test_a_program_without_an_event_loop_has_it_in_the_background(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), threading.Event()

    @herd.every("5m")
    async def poll() -> None:
        done.set()

    with herd.in_background():
        assert done.wait(10)
        by_hand = asyncio.run(herd.trigger("poll", wait=True))

    assert by_hand.success
    assert not herd.is_running


def test_what_keeps_it_from_starting_in_the_background_is_raised(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.db").write_bytes(b"no database" * 1000)

    with pytest.raises(Exception, match="not a database"), Herd(tmp_path).in_background():
        pass


def test_run_forever_outside_of_the_main_thread_says_what_to_use(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread, pytest.raises(UsageError, match="only the main thread") as caught:
        thread.submit(Herd(tmp_path).run_forever).result(10)

    assert "in_background" in caught.value.hint


async def test_run_forever_inside_an_event_loop_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a loop of its own") as caught:
        Herd(tmp_path).run_forever()

    assert "await herd.run()" in caught.value.hint


SCRIPT = """
    from herdbeat import Herd

    herd = Herd({place})

    @herd.every("1h")
    def poll():
        print("polled", herd.state_dir, flush=True)

    herd.run_forever()
    print("stopped", flush=True)
"""


def signalled(place: str, number: signal.Signals) -> tuple[str, str, int]:
    """What a script says before and after a signal, and how it ends. Its warnings are errors."""
    code = textwrap.dedent(SCRIPT.format(place=place))
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as script:
        assert script.stdout is not None
        first = script.stdout.readline()
        os.kill(script.pid, number)
        rest = script.stdout.read()
        return first, rest, script.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_runs_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    assert signalled(repr(str(tmp_path)), number) == (f"polled {tmp_path}\n", "stopped\n", 0)


TICKING = """
    from herdbeat import Herd

    herd = Herd({place!r})

    @herd.cron("* * * * * *")
    async def tick():
        print("tick", flush=True)

    herd.run_forever()
"""


def ticking(place: Path, number: signal.Signals) -> None:
    """A script that is ended after two ticks."""
    code = textwrap.dedent(TICKING.format(place=str(place)))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert [script.stdout.readline() for _ in range(2)] == ["tick\n", "tick\n"]
        os.kill(script.pid, number)


def test_of_a_script_that_was_killed_every_second_is_accounted_for(tmp_path: Path) -> None:
    ticking(tmp_path, signal.SIGKILL)
    ticking(tmp_path, signal.SIGINT)

    herd = Herd(tmp_path)
    herd.cron("* * * * * *", name="tick")(lambda: None)
    beats = herd.beats("tick", most=1000)[::-1]

    covered = [beat.due_at + timedelta(seconds=each) for beat in beats for each in range(beat.count)]
    seconds = int((beats[-1].last_due_at - beats[0].due_at).total_seconds()) + 1
    assert covered == [beats[0].due_at + timedelta(seconds=each) for each in range(seconds)]
    assert all(beat.outcome == "ran" or beat.reason == "scheduler_down" for beat in beats)


def test_a_script_without_a_state_dir_cleans_up_after_a_signal() -> None:
    first, rest, status = signalled("None", signal.SIGINT)

    assert (rest, status) == ("stopped\n", 0)
    assert not Path(first.split()[1]).exists()
