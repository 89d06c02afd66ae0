"""A fixed rate (`anchor: start`): every instant is counted from the last due one, and has exactly one outcome."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Backoff, Catchup, Overlap
from herdbeat.domain.records import BeatRecord
from herdbeat.testing import ScriptedRunner, open_herd
from herdbeat.testing.herd import MONDAY, SimulatedHerd

MINUTE = timedelta(minutes=1)


def minutes(*numbers: float) -> list[datetime]:
    return [MONDAY + number * MINUTE for number in numbers]


def covered(beats: Sequence[BeatRecord]) -> list[datetime]:
    """Every instant that a row stands for, one by one."""
    return sorted(beat.due_at + index * MINUTE for beat in beats for index in range(beat.count))


async def run_for(herd: SimulatedHerd, seconds: int) -> None:
    await herd.advance(timedelta(seconds=seconds))


async def test_runs_are_due_every_interval_however_long_they_take(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(takes=timedelta(seconds=20))
        herd.schedule("poll", every="1m", fixed_rate=True, runner=runner)

        await herd.advance(5 * MINUTE)

        assert [claim.due_at for claim in runner.runs] == minutes(0, 1, 2, 3, 4, 5)
        assert herd.next_run("poll") == MONDAY + 6 * MINUTE


async def test_without_it_the_time_of_the_run_is_added(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(takes=timedelta(seconds=20))
        herd.schedule("poll", every="1m", runner=runner)

        await herd.advance(5 * MINUTE)

        assert [claim.due_at - MONDAY for claim in runner.runs][:3] == [
            index * timedelta(seconds=80) for index in range(3)
        ]


@pytest.mark.parametrize(
    ("overlap", "outcomes"),
    [
        (Overlap.SKIP, [("ran", "", 1), ("skipped", "already_running", 2)]),
        (Overlap.QUEUE, [("ran", "", 1), ("ran", "", 1), ("merged", "already_running", 1)]),
        (Overlap.QUEUE_ALL, [("ran", "", 1), ("ran", "", 1), ("ran", "", 1)]),
    ],
)
async def test_instants_during_a_long_run_meet_the_overlap_policy(
    tmp_path: Path, overlap: Overlap, outcomes: list[tuple[str, str, int]]
) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("poll", every="1m", fixed_rate=True, overlap=overlap, runner=runner)
        for _ in range(3):
            await herd.tick()
            herd.clock.advance(MINUTE - timedelta(seconds=10))
            await herd.tick()
            herd.clock.advance(timedelta(seconds=10))
        herd.clock.advance(timedelta(seconds=-5))

        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("poll") == outcomes
        assert covered(herd.beats("poll")) == minutes(0, 1, 2)
        assert herd.next_run("poll") == MONDAY + 3 * MINUTE


@pytest.mark.parametrize(
    ("catchup", "outcomes"),
    [
        (Catchup.ONCE, [("merged", "once", 57), ("ran", "", 1)]),
        (Catchup.SKIP, [("missed", "scheduler_down", 58)]),
    ],
)
async def test_instants_of_an_outage_meet_the_catchup_policy_and_the_rate_stays(
    tmp_path: Path, catchup: Catchup, outcomes: list[tuple[str, str, int]]
) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("poll", every="1m", fixed_rate=True, catchup=catchup, grace=timedelta(seconds=5))
        await herd.advance(MINUTE + timedelta(seconds=10))

    back = MONDAY + 59 * MINUTE + timedelta(seconds=40)
    async with open_herd(tmp_path, back) as herd:
        herd.schedule("poll", every="1m", fixed_rate=True, catchup=catchup, grace=timedelta(seconds=5))
        await herd.advance(timedelta(seconds=15))

        assert herd.outcomes("poll")[2:] == outcomes
        assert covered(herd.beats("poll")) == minutes(*range(60))
        assert herd.next_run("poll") == MONDAY + 60 * MINUTE


async def test_backoff_counts_from_the_due_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(fails=2, takes=timedelta(seconds=20))
        herd.schedule("poll", every="1m", fixed_rate=True, backoff=Backoff(factor=2), runner=runner)

        await herd.advance(10 * MINUTE)

        assert [claim.due_at for claim in runner.runs][:5] == minutes(0, 2, 6, 7, 8)


async def test_a_hint_counts_from_the_due_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(takes=timedelta(seconds=7))
        herd.schedule("poll", every="10m", fixed_rate=True, runner=runner)
        await herd.tick()
        every = timedelta(minutes=2)
        hint = Hint(origin="human:you", every=every, expires_at=MONDAY + 7 * MINUTE, created_at=herd.now)
        herd.hint("poll", hint)

        await herd.advance(20 * MINUTE)

        assert [claim.due_at for claim in runner.runs] == minutes(0, 2, 4, 6, 16)


async def test_after_a_pause_the_rate_goes_on_with_its_next_instant(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(takes=timedelta(seconds=7))
        herd.schedule("poll", every="1m", fixed_rate=True, runner=runner)
        await run_for(herd, 90)

        herd.pause("poll")
        await run_for(herd, 200)
        herd.resume("poll")
        await run_for(herd, 70)

        assert [claim.due_at for claim in runner.runs] == minutes(0, 1, 5, 6)


async def test_an_edit_during_an_outage_counts_the_instants_by_the_old_rate(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("poll", every="1m", fixed_rate=True, catchup=Catchup.SKIP)
        await run_for(herd, 70)

    async with open_herd(tmp_path, MONDAY + timedelta(minutes=10, seconds=40)) as herd:
        herd.schedule("poll", every="5m", fixed_rate=True, catchup=Catchup.SKIP)
        await herd.tick()

        missed = [beat for beat in herd.beats("poll") if beat.outcome is not BeatOutcome.RAN]
        assert covered(missed) == minutes(*range(2, 11))


async def test_an_edit_does_not_move_the_rate(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner()
        herd.schedule("poll", every="1m", fixed_rate=True, runner=runner, max_concurrent=1)
        await run_for(herd, 30)

        herd.schedule("poll", every="1m", fixed_rate=True, runner=runner, priority=3)
        await run_for(herd, 60)

        assert [claim.due_at for claim in runner.runs] == minutes(0, 1)
        assert herd.next_run("poll") == MONDAY + 2 * MINUTE
