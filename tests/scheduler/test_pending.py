"""A waiting beat that is looked at again: how long it may wait."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.testing.herd import ScriptedRunner, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("waited", "fate"),
    [
        (5 * MINUTE - TICK, ("ran", "", 1)),
        (5 * MINUTE, ("ran", "", 1)),
        (5 * MINUTE + TICK, ("missed", "too_late", 1)),
    ],
)
async def test_a_beat_that_waited_exactly_max_late_still_runs(
    tmp_path: Path, waited: timedelta, fate: tuple[str, str, int]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        blocker = ScriptedRunner(holds=True)
        herd.schedule("worker/first", cron="10 * * * *", runner=blocker)
        herd.schedule("worker/second", cron="10 * * * *", max_late=5 * MINUTE)
        await herd.advance(10 * MINUTE)

        herd.clock.advance(waited)
        blocker.let_go()
        await herd.tick()

        assert herd.outcomes("worker/second") == [fate]


async def test_with_a_max_late_of_zero_a_beat_waits_for_nothing(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        blocker = ScriptedRunner(holds=True)
        herd.schedule("worker/first", cron="10 * * * *", runner=blocker)
        herd.schedule("worker/second", cron="10 * * * *", max_late=timedelta(0))

        await herd.advance(11 * MINUTE)

        assert herd.outcomes("worker/first") == [("running", "", 1)]
        assert herd.outcomes("worker/second") == [("missed", "too_late", 1)]
