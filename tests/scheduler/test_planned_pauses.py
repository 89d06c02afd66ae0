"""Planned pauses: instants inside are skipped, the rest of the calendar is not touched, whoever is down meanwhile."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Jitter, Retry
from herdbeat.scheduler.evaluate import skip_pending
from herdbeat.scheduler.instants import InstantRange
from herdbeat.scheduler.misfires import InstantOutcome
from herdbeat.scheduler.planned_pauses import cancel_pause
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE


def consult_the_oracle(herd: SimulatedHerd, label: str, until: datetime) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation(label, "0 * * * *", START, until))
        check_reasons(reader, label)
        check_runs(reader)
    finally:
        reader.close()


async def test_instants_from_its_beginning_up_to_its_end_are_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")

        herd.plan_pause("report", start=TEN + HOUR, until=TEN + 3 * HOUR)
        await herd.advance(4 * HOUR)

        # The instant at its beginning is skipped, the one at its end runs.
        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "paused", 2), ("ran", "", 1)]
        consult_the_oracle(herd, "report", herd.now)


async def test_before_it_begins_nothing_changes(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        before = herd.next_run("report"), herd.why("report")

        herd.plan_pause("report", start=TEN + 30 * MINUTE, until=TEN + 90 * MINUTE)

        assert (herd.next_run("report"), herd.why("report")) == before
        await herd.advance(20 * MINUTE)
        assert herd.next_run("report") == TEN + HOUR
        await herd.advance(20 * MINUTE)
        assert (herd.next_run("report"), herd.why("report")) == (TEN + 90 * MINUTE, Source.PAUSED)


async def test_several_planned_pauses_hold_one_after_the_other(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")

        herd.plan_pause("report", start=TEN + HOUR, until=TEN + 2 * HOUR)
        herd.plan_pause("rep*", start=TEN + 2 * HOUR, until=TEN + 3 * HOUR)
        herd.plan_pause(start=TEN + 150 * MINUTE, until=TEN + 4 * HOUR)
        await herd.advance(6 * HOUR)

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "paused", 3), ("ran", "", 1), ("ran", "", 1)]
        consult_the_oracle(herd, "report", herd.now)


async def test_an_interval_and_a_delay_run_at_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("poll", every="10m")
        herd.schedule("launch", at="2026-03-02T10:20:00Z")
        await herd.tick()

        herd.plan_pause(start=TEN + 15 * MINUTE, until=TEN + 40 * MINUTE)
        await herd.advance(45 * MINUTE)

        assert [beat.due_at for beat in herd.beats("poll")] == [TEN, TEN + 10 * MINUTE, TEN + 40 * MINUTE]
        assert [(beat.outcome, beat.settled_at) for beat in herd.beats("launch")] == [("ran", TEN + 40 * MINUTE)]


async def test_a_fixed_rate_continues_on_its_grid(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("poll", every="10m", fixed_rate=True)
        await herd.tick()

        herd.plan_pause(start=TEN + 10 * MINUTE, until=TEN + 35 * MINUTE)
        await herd.advance(41 * MINUTE)

        ran = [beat.due_at for beat in herd.beats("poll") if beat.outcome == "ran"]
        assert ran == [TEN, TEN + 40 * MINUTE]


@pytest.mark.parametrize("catchup", list(Catchup))
async def test_a_window_that_passed_while_nobody_lived_is_no_gap(tmp_path: Path, catchup: Catchup) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *", catchup=catchup, grace=timedelta(0))
        await herd.advance(2 * MINUTE)
        herd.plan_pause("report", start=TEN + 2 * HOUR, until=TEN + 5 * HOUR)

    async with open_herd(tmp_path, TEN + 6 * HOUR + 30 * MINUTE) as herd:
        herd.schedule("report", cron="0 * * * *", catchup=catchup, grace=timedelta(0))
        await herd.advance(HOUR)

        paused = [beat for beat in herd.beats("report") if beat.reason == "paused"]
        assert [(beat.due_at, beat.count) for beat in paused] == [(TEN + 2 * HOUR, 3)]
        consult_the_oracle(herd, "report", herd.now)


async def test_a_node_that_comes_back_inside_a_window_catches_nothing_up_in_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *", catchup=Catchup.ALL)
        await herd.advance(2 * MINUTE)
        herd.plan_pause("report", start=TEN + 2 * HOUR + 30 * MINUTE, until=TEN + 5 * HOUR)

    async with open_herd(tmp_path, TEN + 3 * HOUR + MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", catchup=Catchup.ALL, runner=runner)
        await herd.advance(HOUR)

        assert herd.why("report") is Source.PAUSED
        assert not runner.runs
        await herd.advance(HOUR)
        assert len(runner.runs) == 1
        consult_the_oracle(herd, "report", herd.now)


async def test_a_retry_does_not_run_inside(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("report", cron="0 * * * *", runner=runner, retry=Retry(attempts=3, wait=10 * MINUTE))

        herd.plan_pause("report", start=TEN + 5 * MINUTE, until=TEN + 30 * MINUTE)
        await herd.advance(40 * MINUTE)

        assert len(runner.runs) == 1
        assert herd.outcomes("report") == [("ran", "", 1)]


async def test_resume_ends_the_window_of_one_schedule(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.schedule("other", cron="0 * * * *")
        herd.plan_pause(start=TEN + 30 * MINUTE, until=TEN + 4 * HOUR)
        await herd.advance(92 * MINUTE)

        herd.resume("report")
        await herd.advance(HOUR)

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "paused", 1), ("ran", "", 1)]
        assert herd.outcomes("other") == [("ran", "", 1)]
        assert herd.why("other") is Source.PAUSED


@pytest.mark.parametrize(
    ("cancelled_after", "expected"),
    [
        (2 * MINUTE, [("ran", "", 1)] * 4),
        (92 * MINUTE, [("ran", "", 1), ("skipped", "paused", 1), ("ran", "", 1), ("ran", "", 1)]),
    ],
)
async def test_a_cancelled_one_ends_at_that_moment(
    tmp_path: Path, cancelled_after: timedelta, expected: list[tuple[str, str, int]]
) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *")
        pause = herd.plan_pause("report", start=TEN + 30 * MINUTE, until=TEN + 9 * HOUR)
        await herd.advance(cancelled_after)

        herd.store.write_now(lambda tx: cancel_pause(tx, herd.now, pause, "human:you"))
        await herd.advance(TEN + 3 * HOUR - herd.now)

        assert herd.outcomes("report") == expected
        consult_the_oracle(herd, "report", herd.now)


async def test_a_schedule_that_is_created_later_is_held_too(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("first", cron="0 * * * *")
        herd.plan_pause("sec*", start=TEN - 30 * MINUTE, until=TEN + 90 * MINUTE)

        herd.schedule("second", every="10m")
        await herd.advance(2 * HOUR)

        assert herd.beats("second")[0].due_at == TEN + 90 * MINUTE


async def test_a_beat_with_jitter_that_is_between_its_instant_and_its_start_is_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *", jitter=Jitter(span=30 * MINUTE))
        await herd.tick()
        starts_at = herd.next_run("report")
        assert starts_at is not None

        herd.plan_pause("report", start=TEN + (starts_at - TEN) / 2, until=TEN + 40 * MINUTE)
        await herd.advance(45 * MINUTE)

        assert herd.outcomes("report") == [("skipped", "paused", 1)]


def test_a_one_shot_that_a_planned_pause_skips_is_in_no_row_of_the_calendar() -> None:
    moment = InstantRange.single(datetime(2026, 3, 2, 5, 30, tzinfo=UTC))
    pending = InstantOutcome(moment, BeatOutcome.PENDING, source=Source.AI_ONESHOT, origin="human:you")

    (skipped,) = skip_pending([pending])

    assert (skipped.outcome, skipped.reason) == (BeatOutcome.SKIPPED, SkipReason.PAUSED)
    assert (skipped.source, skipped.origin) == (Source.AI_ONESHOT, "human:you")
