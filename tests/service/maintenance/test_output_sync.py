import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.runners.run_log import LogStream, RunLog, find_log, read_log_tail, read_stored_log
from herdbeat.service.maintenance.output_sync import OutputSync
from herdbeat.store.base import FinishedRun, SharedStore
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

CLOCK = FakeClock(MONDAY)
DONE = FinishedRun(7, MONDAY, Outcome(status=RunStatus.SUCCEEDED))


class OfRunSeven:
    run_id = 7


class Told:
    """The ledger that others read, as far as it is told."""

    def __init__(self) -> None:
        self.texts: list[dict[int, list[str]]] = []

    def publish_output(self, texts: Mapping[int, str]) -> None:
        self.texts.append({run_id: [line.text for line in read_stored_log(text)] for run_id, text in texts.items()})


def outputs(perform: Any, told: Told | None = None) -> OutputSync:
    return OutputSync(perform, cast("SharedStore", told or Told()), CLOCK)


class Talker:
    """A run that says what it is given, until that is nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._words = asyncio.Queue[str]()

    async def __call__(self, _: Claim) -> FinishedRun:
        log = RunLog(self._folder, 7, CLOCK, 1_000_000)
        while text := await self._words.get():
            log.write(LogStream.OUT, text)
            self._words.task_done()
        return DONE

    async def say(self, text: str) -> None:
        """Return once it is said."""
        await self._words.put(text)
        await self._words.join()

    def end(self) -> None:
        self._words.put_nowait("")


def claim() -> Claim:
    return cast("Claim", OfRunSeven())


async def test_what_a_run_has_printed_comes_with_its_end(tmp_path: Path) -> None:
    async def perform(_: Claim) -> FinishedRun:
        log = RunLog(tmp_path, 7, CLOCK, 1_000)
        log.write(LogStream.OUT, "one\ntwo")
        log.close()
        return DONE

    finished = await outputs(perform).execute_run(claim())

    assert finished.output is not None
    assert [line.text for line in read_stored_log(finished.output)] == ["one", "two"]


async def test_a_run_that_says_nothing_costs_nothing(tmp_path: Path) -> None:
    async def perform(_: Claim) -> FinishedRun:
        return DONE

    assert await outputs(perform).execute_run(claim()) is DONE


def test_of_a_long_log_the_end_is_kept_in_whole_records(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 7, CLOCK, 1_000_000)
    for number in range(1_000):
        log.write(LogStream.OUT, f"line {number}\n")
    log.close()
    path = find_log(tmp_path, 7)
    assert path is not None

    lines = read_stored_log(read_log_tail(path, 1_000))

    assert lines[-1].text == "line 999"
    assert 5 < len(lines) < 20


async def test_output_of_an_active_run_is_published_only_when_it_is_new(tmp_path: Path) -> None:
    told, run = Told(), Talker(tmp_path)
    sharing = outputs(run, told)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sharing.execute_run(claim()), name="run")
        await sharing.sync()  # nothing was said yet
        await run.say("one\n")
        await sharing.sync()
        await sharing.sync()
        await run.say("two\n")
        await sharing.sync()
        run.end()

    assert told.texts == [{7: ["one"]}, {7: ["one", "two"]}]


async def test_the_last_words_of_a_cancelled_run_can_be_read_elsewhere(tmp_path: Path) -> None:
    told, run = Told(), Talker(tmp_path)
    sharing = outputs(run, told)
    task = asyncio.create_task(sharing.execute_run(claim()), name="run")
    await run.say("row 9\n")

    task.cancel()
    await asyncio.wait([task])
    for _ in range(3):
        await sharing.sync()

    assert told.texts == [{7: ["row 9"]}]
