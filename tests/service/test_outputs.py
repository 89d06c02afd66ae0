from pathlib import Path
from typing import cast

from herdbeat.domain.claim import Claim
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.runners.log import RunLog, Stream
from herdbeat.runners.log_reader import end_of_log, find_log, read_kept
from herdbeat.service.outputs import with_output
from herdbeat.store.base import FinishedRun
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

CLOCK = FakeClock(MONDAY)
DONE = FinishedRun(7, MONDAY, Outcome(status=RunStatus.SUCCEEDED))


class OfRunSeven:
    run_id = 7


def claim() -> Claim:
    return cast("Claim", OfRunSeven())


async def test_what_a_run_has_printed_comes_with_its_end(tmp_path: Path) -> None:
    async def perform(_: Claim) -> FinishedRun:
        log = RunLog(tmp_path, 7, CLOCK, 1_000)
        log.write(Stream.OUT, "one\ntwo")
        log.close()
        return DONE

    finished = await with_output(perform)(claim())

    assert finished.output is not None
    assert [line.text for line in read_kept(finished.output)] == ["one", "two"]


async def test_a_run_that_says_nothing_costs_nothing(tmp_path: Path) -> None:
    async def perform(_: Claim) -> FinishedRun:
        return DONE

    assert await with_output(perform)(claim()) is DONE


def test_of_a_long_log_the_end_is_kept_in_whole_records(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 7, CLOCK, 1_000_000)
    for number in range(1_000):
        log.write(Stream.OUT, f"line {number}\n")
    log.close()
    path = find_log(tmp_path, 7)
    assert path is not None

    lines = read_kept(end_of_log(path, 1_000))

    assert lines[-1].text == "line 999"
    assert 5 < len(lines) < 20
