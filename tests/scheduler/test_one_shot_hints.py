"""One-shot hints between the instants of a calendar: each is a beat of its own, however close and however late."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs, check_starts

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Overlap
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

SECOND = timedelta(seconds=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
EVERY_SECOND = "* * * * * *"


def give_hints(herd: SimulatedHerd, *offsets: float) -> None:
    for offset in offsets:
        at = TEN + offset * SECOND
        herd.hint("report", Hint(origin="agent:report", at=at, expires_at=at + timedelta(hours=1), created_at=herd.now))


def check_against_oracle(herd: SimulatedHerd, runner: ScriptedRunner) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation("report", EVERY_SECOND, TEN, herd.now))
        check_reasons(reader, "report")
        check_runs(reader)
        check_starts(reader, "report", [f"{run.label}:{run.dedup_id} {run.attempt}" for run in runner.runs])
    finally:
        reader.close()


def list_hint_rows(herd: SimulatedHerd) -> list[tuple[float, str, str]]:
    beats = [beat for beat in herd.beats("report") if beat.source is Source.AI_ONESHOT]
    assert {beat.origin for beat in beats} <= {"agent:report"}
    return [((beat.due_at - TEN) / SECOND, beat.outcome.value, beat.reason) for beat in beats]


def ran(offsets: Iterable[float]) -> list[tuple[float, str, str]]:
    return [(offset, "ran", "") for offset in offsets]


async def test_a_one_shot_in_a_second_that_has_a_beat_does_not_vanish(tmp_path: Path) -> None:
    """It had the dedup id of that second, so it was taken for the beat that was there: used up, and in no row."""
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner)
        herd.snapshot("report")

        give_hints(herd, 1.4, 2.000001, 2.999999, 3.2, 3.6)
        await herd.advance(5 * SECOND)

        assert list_hint_rows(herd) == ran([1.4, 2.000001, 2.999999, 3.2, 3.6])
        assert len(runner.runs) == 5 + 5
        assert herd.snapshot("report").hints == ()
        check_against_oracle(herd, runner)


async def test_a_one_shot_that_is_asked_for_right_after_the_beat_of_its_second_does_not_vanish(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner)
        await herd.advance(1.3 * SECOND)

        give_hints(herd, 1.3)  # now, as for a moment that has passed
        await herd.tick()

        assert list_hint_rows(herd) == ran([1.3])
        assert [run.due_at for run in runner.runs] == [TEN + SECOND, TEN + 1.3 * SECOND]


async def test_a_one_shot_for_an_instant_of_the_calendar_is_served_by_its_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner)
        herd.snapshot("report")

        give_hints(herd, 2)
        await herd.advance(3 * SECOND)

        assert herd.outcomes("report") == [("ran", "", 1)] * 3
        assert herd.snapshot("report").hints == ()


@pytest.mark.parametrize(
    ("overlap", "rows"),
    [
        (Overlap.SKIP, [(0.5, "ran", ""), (2.5, "skipped", "already_running"), (2.7, "skipped", "already_running")]),
        (Overlap.QUEUE, [(0.5, "ran", ""), (2.5, "merged", "already_running"), (2.7, "merged", "already_running")]),
        (
            Overlap.CANCEL,
            [(0.5, "merged", "cancel"), (2.5, "merged", "already_running"), (2.7, "merged", "already_running")],
        ),
        (Overlap.QUEUE_ALL, ran([0.5, 2.5, 2.7])),
        (Overlap.ALLOW, ran([0.5, 2.5, 2.7])),
    ],
)
async def test_one_shots_among_late_instants_do_not_vanish(
    tmp_path: Path, overlap: Overlap, rows: list[tuple[float, str, str]]
) -> None:
    """The claim of the first used up the others without a row."""
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner, overlap=overlap, max_concurrent=20)
        herd.snapshot("report")

        give_hints(herd, 0.5, 2.5, 2.7, 4)
        herd.clock.advance(5 * SECOND)
        await herd.tick()

        assert list_hint_rows(herd) == rows
        assert herd.snapshot("report").hints == ()
        check_against_oracle(herd, runner)


async def test_one_shots_that_are_late_when_a_pause_begins_are_skipped_and_do_not_vanish(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner)
        herd.snapshot("report")
        give_hints(herd, 0.5, 2.5)

        herd.clock.advance(4 * SECOND)
        herd.pause("report")

        assert list_hint_rows(herd) == [(0.5, "skipped", "paused"), (2.5, "skipped", "paused")]
        check_against_oracle(herd, runner)


async def test_one_shots_in_a_gap_are_missed_and_do_not_vanish(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron=EVERY_SECOND)
        herd.snapshot("report")
        give_hints(herd, 0.5, 2.5)
    async with open_herd(tmp_path, TEN + timedelta(hours=1)) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron=EVERY_SECOND, runner=runner, grace=timedelta(0))
        await herd.tick()

        assert list_hint_rows(herd) == [(0.5, "missed", "scheduler_down"), (2.5, "missed", "scheduler_down")]
        check_against_oracle(herd, runner)
