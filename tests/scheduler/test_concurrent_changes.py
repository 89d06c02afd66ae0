"""Pause, hint, edit, disable at the very instant of a beat, many times each, in both orders. `make soak`: for a week.

Nothing is lost, nothing happens twice, and nothing of the past is played again: the oracle counts every instant.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, all_beats, check_cron, check_reasons, check_runs

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Jitter
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

START = datetime(2026, 3, 2, 9, 59, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MANY, FEW = 150, 60
CRON = "* * * * *"
ACTS = ["pause", "disable", "hint", "edit"]
ORDERS = ["change first", "beat first"]


@contextmanager
def reading(herd: SimulatedHerd) -> Iterator[SqliteReader]:
    reader = SqliteReader(herd.store.path)
    try:
        yield reader
    finally:
        reader.close()


Edit = Callable[[int], None]


def disturb(herd: SimulatedHerd, label: str, act: str, number: int, edit: Edit) -> Callable[[], None]:
    """Do it; what is handed back undoes it."""
    match act:
        case "pause":
            herd.pause(label)
            return lambda: herd.resume(label)
        case "disable":
            herd.disable(label)
            return lambda: herd.enable(label)
        case "hint":
            # Far away, so that the change itself disturbs, and not the run it leads to.
            wish = Hint(origin="human:you", at=herd.now + 9 * MINUTE, expires_at=herd.now + 10 * MINUTE)
            herd.hint(label, wish)
            return lambda: herd.clear_hints(label)
        case _:
            edit(number % 2)
            return lambda: None


async def disturb_calendar(folder: Path, act: str, order: str, many: int) -> None:
    async with open_herd(folder, START) as herd:
        runner = ScriptedRunner()

        def edit(priority: int) -> None:
            herd.schedule("report", cron=CRON, runner=runner, priority=priority)

        edit(0)
        await herd.tick()
        herd.clock.advance(timedelta(seconds=30))  # on the minute: the clock stands at an instant from now on

        for number in range(many):
            if order == "beat first":
                await herd.tick()
            undo = disturb(herd, "report", act, number, edit)
            await herd.tick()
            undo()
            await herd.tick()
            herd.clock.advance(MINUTE)
        await herd.tick()

        with reading(herd) as reader:
            check_cron(reader, CronExpectation("report", CRON, START, herd.now))
            check_reasons(reader, "report")
            check_runs(reader)
            ran = sum(beat.count for beat in all_beats(reader, "report") if beat.outcome is BeatOutcome.RAN)
        assert len(runner.runs) == ran
        stops = act in ("pause", "disable") and order == "change first"
        assert ran == (1 if stops else many + 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("act", ACTS)
async def test_a_calendar_disturbed_at_every_instant(tmp_path: Path, act: str, order: str) -> None:
    await disturb_calendar(tmp_path, act, order, MANY)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("act", ACTS)
async def test_an_interval_disturbed_at_every_instant(tmp_path: Path, act: str, order: str) -> None:
    """Ten side by side, so that the disturbances share their turns."""
    labels = [f"queue-{number}" for number in range(10)]
    rounds = MANY // len(labels)
    async with open_herd(tmp_path, START) as herd:

        def edit(priority: int) -> None:
            for label in labels:
                herd.schedule(label, every="1m", priority=priority)

        edit(0)
        await herd.tick()

        for number in range(rounds):
            next_run = herd.next_run(labels[0])
            assert next_run is not None
            herd.clock.advance(next_run - herd.now)
            if order == "beat first":
                await herd.tick()
            undone = [disturb(herd, label, act, number, edit) for label in labels]
            await herd.tick()
            for undo in undone:
                undo()
            await herd.tick()

        with reading(herd) as reader:
            check_runs(reader)
            for label in labels:
                found = all_beats(reader, label)
                assert [beat.due_at for beat in found] == [START + number * MINUTE for number in range(len(found))]
                assert len({beat.dedup_id for beat in found}) == len(found)
                assert sum(beat.count for beat in found) == rounds + 1


@pytest.mark.parametrize("act", ACTS)
async def test_a_change_between_an_instant_and_its_jittered_start_loses_nothing(tmp_path: Path, act: str) -> None:
    async with open_herd(tmp_path, START) as herd:

        def edit(priority: int) -> None:
            herd.schedule("report", cron=CRON, jitter=Jitter(span=timedelta(seconds=50)), priority=priority)

        edit(0)
        await herd.tick()
        herd.clock.advance(timedelta(seconds=31))

        for number in range(FEW):
            undo = disturb(herd, "report", act, number, edit)
            undo()
            await herd.advance(MINUTE)

        with reading(herd) as reader:
            check_cron(reader, CronExpectation("report", CRON, START, herd.now - MINUTE))
            check_reasons(reader, "report")


@pytest.mark.parametrize("act", ["hint", "pause", "resume", "edit"])
async def test_a_change_after_the_end_of_a_pause_and_before_its_evaluation(tmp_path: Path, act: str) -> None:
    async with open_herd(tmp_path, START) as herd:

        def edit(priority: int) -> None:
            herd.schedule("report", cron=CRON, priority=priority)

        edit(0)
        await herd.tick()
        herd.pause("report", until=START + 5 * MINUTE)
        herd.clock.advance(5 * MINUTE + timedelta(seconds=1))

        if act == "resume":
            herd.resume("report")
        else:
            disturb(herd, "report", act, 1, edit)()
        await herd.advance(5 * MINUTE)

        with reading(herd) as reader:
            check_cron(reader, CronExpectation("report", CRON, START, herd.now))
            check_reasons(reader, "report")
        assert herd.outcomes("report")[0] == ("skipped", "paused", 5)


async def test_a_long_run_is_disturbed_and_its_completion_decides_with_what_was_changed(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(holds=True)

        def edit(priority: int) -> None:
            herd.schedule("queue", every="1h", runner=runner, priority=priority)

        edit(0)
        await herd.tick()
        for number in range(20):
            for act in ACTS:
                disturb(herd, "queue", act, number, edit)()
        herd.hint("queue", Hint(origin="human:you", every=MINUTE, expires_at=herd.now + 10 * MINUTE))
        assert herd.next_run("queue") is None

        runner.let_go()
        await herd.tick()

        assert len(runner.runs) == 1
        assert herd.next_run("queue") == herd.now + MINUTE


async def test_a_hint_that_ends_between_an_instant_and_its_jittered_start_loses_nothing(tmp_path: Path) -> None:
    """Once the schedule was decided anew at the end of the hint, from the instant after: that one was in no row."""
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron=CRON, jitter=Jitter(span=timedelta(seconds=50)))
        await herd.tick()
        due_at, run_at = herd.snapshot("report").next_due_at, herd.next_run("report")
        assert due_at is not None
        assert run_at is not None
        assert due_at < run_at
        ends = due_at + (run_at - due_at) / 2
        herd.hint("report", Hint(origin="human:you", at=run_at + timedelta(hours=1), expires_at=ends))

        await herd.advance(run_at - herd.now)

        assert [(beat.due_at, beat.outcome) for beat in herd.beats("report")] == [(due_at, "ran")]
