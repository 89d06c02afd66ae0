"""Retry-After of an endpoint: no run of its schedule before that, and the trace says so."""

from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Limits, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)


def busy(until: datetime) -> Outcome:
    return Outcome(status=RunStatus.FAILED, code=429, error="429 Too Many Requests", not_before=until)


def read_trace(herd: SimulatedHerd, label: str) -> str:
    reader = SqliteReader(herd.store.path)
    try:
        record = reader.schedule(herd.snapshot(label).id)
    finally:
        reader.close()
    assert record is not None
    return record.next_trace or ""


async def test_the_next_run_is_not_before_the_time_that_the_target_asks_for(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[busy(MONDAY + 50 * MINUTE)])
        limits = Limits(at_most=10 * MINUTE)
        herd.schedule("api", every="5m", runner=runner, limits=limits)

        await herd.tick()

        assert herd.next_run("api") == MONDAY + 50 * MINUTE
        assert herd.why("api") is Source.CLAMPED_MIN
        assert "Retry-After of its target moves it later" in read_trace(herd, "api")
        await herd.advance(49 * MINUTE)
        assert len(runner.runs) == 1


async def test_the_floor_is_gone_after_the_next_answer(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[busy(MONDAY + 50 * MINUTE)])
        herd.schedule("api", every="5m", runner=runner)

        await herd.advance(50 * MINUTE)

        assert len(runner.runs) == 2
        assert herd.snapshot("api").not_before is None
        assert herd.next_run("api") == MONDAY + 55 * MINUTE


async def test_a_calendar_waits_too_and_then_follows_its_times_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[busy(MONDAY + 12 * MINUTE)])
        herd.schedule("api", cron="*/5 * * * *", runner=runner)

        await herd.advance(21 * MINUTE)

        times = [claim.due_at - MONDAY for claim in runner.runs]
        assert times == [5 * MINUTE, 12 * MINUTE, 15 * MINUTE, 20 * MINUTE]


async def test_no_target_can_ask_for_more_than_a_day(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("api", every="5m", runner=ScriptedRunner(outcomes=[busy(MONDAY + timedelta(days=400))]))

        await herd.tick()

        assert herd.next_run("api") == MONDAY + timedelta(days=1)


async def test_a_retry_waits_as_well(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(outcomes=[busy(MONDAY + 30 * MINUTE)])
        herd.schedule("api", every="2h", runner=runner, retry=Retry(attempts=2, wait=MINUTE))

        await herd.advance(29 * MINUTE)
        before = len(runner.runs)
        await herd.advance(MINUTE)

        assert (before, len(runner.runs)) == (1, 2)
