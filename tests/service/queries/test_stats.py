"""Statistics of a schedule, compared with the standard library over a ledger that the real engine wrote."""

import statistics
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.policies import Jitter
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.service.queries.stats import ScheduleStats, read_stats
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def stats_of(herd: SimulatedHerd, label: str) -> ScheduleStats:
    with closing(SqliteReader(herd.store.path)) as reader:
        return read_stats(reader, find_schedule(reader, label), "24h", herd.now)


@pytest.mark.parametrize("seconds", [[1], [1, 3], [1, 2, 3, 10], list(range(1, 19)), list(range(40, 0, -2))])
async def test_percentiles_are_those_of_the_standard_library(tmp_path: Path, seconds: list[int]) -> None:
    """The median of 1 s and 3 s was 1 s, that of four values the third."""
    runner = ScriptedRunner()
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", every="5m", runner=runner)
        for each in seconds:
            runner.takes = timedelta(seconds=each)
            await herd.tick()
            herd.clock.advance(timedelta(minutes=5))

        found = stats_of(herd, "report").duration_s

    twentieths = statistics.quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=20, method="inclusive")
    assert found["p50"] == pytest.approx(statistics.median(seconds))
    assert found["p95"] == pytest.approx(twentieths[18], abs=0.001)


async def test_beats_that_start_at_the_jitter_of_their_own_are_not_late(tmp_path: Path) -> None:
    """The jitter of the next beat was taken for that of all: one that was never late was late by half a minute."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="*/5 * * * *", jitter=Jitter(span=timedelta(minutes=2)))
        await herd.advance(timedelta(hours=4))

        stats = stats_of(herd, "report")

    assert stats.wait_s["p95"] is not None
    assert stats.wait_s["p95"] > 60
    assert stats.lateness_s == {"p50": 0.0, "p95": 0.0}
