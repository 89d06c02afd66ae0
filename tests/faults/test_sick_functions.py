"""Functions that raise what ends a task, or do not let themselves be ended: a run fails alone, a stop ends in time."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from herdbeat import Herd
from herdbeat.domain.records import RunRecord
from herdbeat.store.location import PostgresLocation

PROGRAM = """
import asyncio, sys, time
from herdbeat import Herd

class Own(BaseException):
    pass

async def raise_own(): raise Own("mine")
async def raise_generator_exit(): raise GeneratorExit
async def raise_keyboard_interrupt(): raise KeyboardInterrupt
async def leave(): sys.exit(3)

async def swallow():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def swallow_everything():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

def block():
    time.sleep(3600)

kind = sys.argv[1]
herd = Herd(sys.argv[2], stop_timeout=0.5)

def count(name):
    with open(f"{sys.argv[2]}/{name}.starts", "a") as file:
        file.write("x")

if kind in ("block", "block_past_timeout"):
    @herd.every("1s", backoff={"factor": 1}, timeout="1s" if kind == "block_past_timeout" else "1h")
    def sick():
        count("sick")
        block()
else:
    @herd.every("1s", backoff={"factor": 1})
    async def sick():
        count("sick")
        await asyncio.sleep(0)
        await globals()[kind]()

@herd.every("1s")
async def healthy():
    count("healthy")

herd.run_forever()
"""


class SickProgram:
    """A program with a sick and a healthy function, and how often each has started by its own count."""

    def __init__(self, kind: str, folder: Path, program: str = PROGRAM, *more: str) -> None:
        self._folder = folder
        arguments = [sys.executable, "-c", program, kind, str(folder), *more]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=folder)

    def starts(self, name: str) -> int:
        file = self._folder / f"{name}.starts"
        return file.stat().st_size if file.exists() else 0

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, "the program has ended"
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> str:
        """End it as a service manager does, and return what it has logged."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=60)[1]

    def runs(self, name: str) -> list[RunRecord]:
        herd = Herd(self._folder)
        herd.by_hand(name=name)(lambda: None)
        return herd.runs(name)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("raise_own", "RuntimeError: the function raised Own: mine"),
        ("raise_generator_exit", "RuntimeError: the function raised GeneratorExit"),
        ("raise_keyboard_interrupt", "RuntimeError: the function raised KeyboardInterrupt"),
        ("leave", "the function called sys.exit(3)"),
    ],
)
def test_a_function_that_raises_a_base_exception_fails_alone(tmp_path: Path, kind: str, error: str) -> None:
    program = SickProgram(kind, tmp_path)

    program.wait_until(lambda: program.starts("sick") >= 3)
    healthy_before = program.starts("healthy")
    program.wait_until(lambda: program.starts("healthy") > healthy_before)
    logged = program.stop()

    assert program.process.returncode == 0
    assert len(program.runs("sick")) == program.starts("sick")
    assert len(program.runs("healthy")) == program.starts("healthy")
    assert {(run.status, run.error) for run in program.runs("sick")} == {("failed", error)}
    assert "function failed schedule=sick/default" in logged
    assert "Traceback" in logged


@pytest.mark.parametrize("kind", ["swallow", "swallow_everything", "block"])
def test_a_function_that_swallows_its_cancellation_does_not_keep_stop_waiting(tmp_path: Path, kind: str) -> None:
    program = SickProgram(kind, tmp_path)

    program.wait_until(lambda: program.starts("healthy") >= 2 and program.starts("sick") == 1)
    asked_at = time.monotonic()
    logged = program.stop()

    assert time.monotonic() - asked_at < 60  # 0.5 s for runs to finish and 5 s to end them, on a slow machine
    assert program.process.returncode == 0
    assert "1 run still active and interrupted" in logged
    assert [run.status for run in program.runs("sick")] == ["interrupted"]
    assert program.starts("sick") == 1
    assert len(program.runs("healthy")) == program.starts("healthy")


def test_a_function_that_outlived_its_timeout_is_timed_out_and_not_interrupted_by_a_stop(tmp_path: Path) -> None:
    program = SickProgram("block_past_timeout", tmp_path)

    program.wait_until(lambda: program.starts("sick") == 1)
    healthy_before = program.starts("healthy")
    program.wait_until(lambda: program.starts("healthy") >= healthy_before + 3)  # a second after each other
    program.stop()

    assert [(run.status, run.error) for run in program.runs("sick")] == [("timed_out", "exceeded its timeout of 1s")]
    assert program.starts("sick") == 1


IN_THE_THREADS_OF_THE_LOOP = """
import asyncio, sys, time
from herdbeat import Herd

herd = Herd(sys.argv[2], store=sys.argv[3], stop_timeout=0.5)

def count(name):
    with open(f"{sys.argv[2]}/{name}.starts", "a") as file:
        file.write("x")

for number in range(40):
    async def sleep():
        count("sick")
        await asyncio.to_thread(time.sleep, 3600)
    herd.every("1h", name=f"sick{number}")(sleep)

@herd.every("1s")
async def healthy():
    count("healthy")

asyncio.run(herd.run())
"""


def test_functions_that_sleep_in_the_threads_of_the_loop_stop_no_schedule_on_postgresql(
    tmp_path: Path, database: PostgresLocation
) -> None:
    program = SickProgram("", tmp_path, IN_THE_THREADS_OF_THE_LOOP, database.url)

    try:
        program.wait_until(lambda: program.starts("sick") == 40)
        healthy_before = program.starts("healthy")
        program.wait_until(lambda: program.starts("healthy") >= healthy_before + 3)
    finally:
        program.process.kill()
        logged = program.process.communicate()[1]

    assert "lease lost" not in logged


def test_functions_that_sleep_in_the_threads_of_the_loop_do_not_keep_stop_waiting(tmp_path: Path) -> None:
    text = IN_THE_THREADS_OF_THE_LOOP.replace("store=sys.argv[3], ", "").replace("asyncio.run(herd.run())", "")
    program = SickProgram("", tmp_path, f"{text}herd.run_forever()")

    program.wait_until(lambda: program.starts("sick") == 40 and program.starts("healthy") >= 2)
    logged = program.stop()

    assert program.process.returncode == 0
    assert "40 runs still active and interrupted" in logged
