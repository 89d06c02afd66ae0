"""A herd in a lifespan, in a thread, in a script."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.event_wait import wait_for_event

from herdbeat import Herd
from herdbeat.errors import UsageError

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


async def test_a_herd_runs_for_the_lifespan_of_an_asgi_application(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), asyncio.Event()
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    sent: asyncio.Queue[Message] = asyncio.Queue()

    @herd.every("5m")
    async def poll() -> None:
        done.set()

    application = asyncio.create_task(lifespan(herd, inbox.get, sent.put))
    await inbox.put({"type": "lifespan.startup"})
    started = await sent.get()
    await wait_for_event(done)
    during = herd.is_running
    await inbox.put({"type": "lifespan.shutdown"})
    await application

    assert (started["type"], during, herd.is_running) == ("lifespan.startup.complete", True, False)


def test_a_program_without_an_event_loop_runs_a_herd_in_the_background(tmp_path: Path) -> None:
    herd, done = Herd(tmp_path), threading.Event()

    @herd.every("5m")
    async def poll() -> None:
        done.set()

    with herd.in_background():
        assert done.wait(60)
        by_hand = asyncio.run(herd.trigger("poll", wait=True))

    assert by_hand.success
    assert not herd.is_running


def test_an_error_at_a_start_in_the_background_is_raised(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.db").write_bytes(b"no database" * 1000)

    with pytest.raises(Exception, match="not a database"), Herd(tmp_path).in_background():
        pass


def test_run_forever_outside_the_main_thread_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread, pytest.raises(UsageError, match="in the main thread") as caught:
        thread.submit(Herd(tmp_path).run_forever).result(60)

    assert "in_background" in caught.value.hint


async def test_run_forever_inside_an_event_loop_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="while an event loop is running") as caught:
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
    """Return the output of a script before and after a signal, and its exit status. Its warnings are errors."""
    code = textwrap.dedent(SCRIPT.format(place=place))
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as script:
        assert script.stdout is not None
        first = script.stdout.readline()
        os.kill(script.pid, number)
        rest = script.stdout.read()
        return first, rest, script.wait(60)


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
    """Run a script and kill it after two ticks."""
    code = textwrap.dedent(TICKING.format(place=str(place)))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert [script.stdout.readline() for _ in range(2)] == ["tick\n", "tick\n"]
        os.kill(script.pid, number)


def test_every_second_of_a_killed_script_is_accounted_for(tmp_path: Path) -> None:
    ticking(tmp_path, signal.SIGKILL)
    ticking(tmp_path, signal.SIGINT)

    herd = Herd(tmp_path)
    herd.cron("* * * * * *", name="tick")(lambda: None)
    beats = herd.beats("tick", most=1000)[::-1]

    covered = [beat.due_at + timedelta(seconds=each) for beat in beats for each in range(beat.count)]
    seconds = int((beats[-1].last_due_at - beats[0].due_at).total_seconds()) + 1
    assert covered == [beats[0].due_at + timedelta(seconds=each) for each in range(seconds)]
    # On a busy machine several instants are due at once: the first of them runs, and `overlap: skip` has the others.
    assert {beat.reason for beat in beats if beat.outcome != "ran"} <= {"scheduler_down", "already_running"}


def test_a_script_without_a_state_dir_cleans_up_after_a_signal() -> None:
    first, rest, status = signalled("None", signal.SIGINT)

    assert (rest, status) == ("stopped\n", 0)
    assert not Path(first.split()[1]).exists()


FAILING_SCRIPT = """
import os, signal
from herdbeat import Herd
from herdbeat.events import RunFinished

def stop(event):
    if isinstance(event, RunFinished):
        os.kill(os.getpid(), signal.SIGTERM)

herd = Herd(listener=stop)

@herd.every("1h")
def broken():
    print("before")
    raise ValueError("broken thing")

herd.run_forever()
"""


def test_the_traceback_of_a_function_is_logged_once_and_begins_in_the_function(tmp_path: Path) -> None:
    """It was twice in the log of the run, each time with two frames of herdbeat above it."""
    (tmp_path / "script.py").write_text(FAILING_SCRIPT, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    (log,) = tmp_path.glob(".herdbeat/logs/*/*.jsonl")
    in_run = log.read_text(encoding="utf-8")

    assert done.returncode == 0, done.stderr
    assert (in_run.count("Traceback"), done.stderr.count("Traceback")) == (1, 1)
    assert "in broken" in in_run
    assert "thread_pool" not in in_run + done.stderr
    assert done.stdout == "before\n"
