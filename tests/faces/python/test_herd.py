"""A herd at work: in an event loop, in a lifespan, in a thread, in a script."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from herdbeat import Herd, RunContext, ScheduleSkipReason, ScheduleTriggerError
from herdbeat.errors import Conflict, NotFound, SchedulerShutdownError, UsageError
from herdbeat.events import Event, RunFinished
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


SCRIPT = """
    from herdbeat import Herd

    herd = Herd({place!r})

    @herd.every("1h")
    def poll():
        print("polled", flush=True)

    herd.run_forever()
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_runs_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    code = textwrap.dedent(SCRIPT.format(place=str(tmp_path)))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        first = script.stdout.readline()
        os.kill(script.pid, number)
        rest = script.stdout.read()
        status = script.wait(10)

    assert (first, rest, status) == ("polled\n", "stopped\n", 0)
