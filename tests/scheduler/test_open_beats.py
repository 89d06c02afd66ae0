"""A beat that runs or waits for its next attempt while its schedule is paused, disabled, removed or hinted at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Bounds, Limits, OnInterrupt, Overlap, Retry
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.control import restart_interval
from herdbeat.scheduler.manual import enqueue_manual, retry_run
from herdbeat.scheduler.repair.consistency import inspect
from herdbeat.store.audit import SqliteAudit
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
TWICE = Retry(attempts=2, wait=10 * MINUTE)


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, TEN) as herd:
        yield herd


async def start_held(herd: SimulatedHerd, runner: ScriptedRunner, **options: object) -> None:
    """Start the first run of `report`, which lasts until the runner lets go."""
    herd.schedule("report", runner=runner, **options)  # type: ignore[arg-type]
    await herd.advance(MINUTE)
    assert len(runner.runs) == 1


HOLDS: dict[str, Callable[[SimulatedHerd], None]] = {
    "paused": lambda herd: herd.pause("report"),
    "disabled": lambda herd: herd.disable("report"),
}


@pytest.mark.parametrize("hold", HOLDS)
async def test_a_run_that_fails_during_a_pause_is_not_tried_again_in_it(herd: SimulatedHerd, hold: str) -> None:
    runner = ScriptedRunner(holds=True, fails=1)
    await start_held(herd, runner, every="1h", retry=TWICE)

    HOLDS[hold](herd)
    runner.let_go()
    await herd.advance(3 * HOUR)

    assert len(runner.runs) == 1
    assert herd.outcomes("report") == [("ran", "", 1)]


@pytest.mark.parametrize("hold", HOLDS)
async def test_a_run_that_is_interrupted_during_a_pause_is_not_repeated_in_it(herd: SimulatedHerd, hold: str) -> None:
    interrupted = Outcome(status=RunStatus.INTERRUPTED)
    runner = ScriptedRunner(holds=True, outcomes=[interrupted])
    await start_held(herd, runner, every="1h", on_interrupt=OnInterrupt.RETRY)

    HOLDS[hold](herd)
    runner.let_go()
    await herd.advance(3 * HOUR)

    assert len(runner.runs) == 1


async def test_a_schedule_that_is_removed_while_it_runs_does_not_run_again(herd: SimulatedHerd) -> None:
    """Once it went on for ever, and no screen showed it."""
    runner = ScriptedRunner(holds=True)
    herd.schedule("other", every="1h")
    await start_held(herd, runner, every="1m")

    herd.remove("report")
    await herd.tick()
    runner.let_go()
    await herd.advance(HOUR)

    assert len(runner.runs) == 1
    assert herd.outcomes("report") == [("ran", "", 1)]


@pytest.mark.parametrize("trigger", [{"every": "1h"}, {"cron": "* * * * *"}], ids=["interval", "cron"])
async def test_a_schedule_that_is_removed_while_it_runs_is_not_tried_again(
    herd: SimulatedHerd, trigger: dict[str, str]
) -> None:
    runner = ScriptedRunner(holds=True, fails=9)
    herd.schedule("other", every="1h")
    await start_held(herd, runner, retry=Retry(attempts=3, wait=SECOND), **trigger)

    herd.remove("report")
    await herd.tick()
    runner.let_go()
    await herd.advance(HOUR)
    asked = herd.store.write_now(lambda tx: retry_run(tx, herd.now, runner.runs[0].run_id, by="human:you"))

    assert len(runner.runs) == 1
    assert asked is not None
    assert asked.obstacle == "its schedule was removed"


async def test_a_schedule_that_the_files_disable_starts_no_queued_beat(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(holds=True)
    await start_held(herd, runner, cron="* * * * *", overlap=Overlap.QUEUE)
    await herd.advance(MINUTE)

    herd.schedule("report", cron="* * * * *", overlap=Overlap.QUEUE, runner=runner, enabled=False)
    await herd.tick()
    runner.let_go()
    await herd.advance(HOUR)

    assert len(runner.runs) == 1
    assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "disabled", 1)]


async def test_instants_that_passed_before_the_files_disabled_their_schedule_have_an_outcome(
    herd: SimulatedHerd,
) -> None:
    herd.schedule("report", cron="* * * * *")
    await herd.advance(2 * MINUTE)

    herd.clock.advance(5 * MINUTE)
    herd.schedule("report", cron="* * * * *", enabled=False)
    await herd.tick()

    assert sum(count for _, _, count in herd.outcomes("report")) == 7


CHANGES: dict[str, Callable[[SimulatedHerd], None]] = {
    "hint": lambda herd: herd.hint(
        "report", Hint(origin="human:you", every=20 * MINUTE, expires_at=herd.now + HOUR, created_at=herd.now)
    ),
    "resume": lambda herd: herd.resume("report"),
    "run --reset": lambda herd: herd._change("report", lambda tx, number: restart_interval(tx, herd.now, number)),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_starts_no_second_beat_of_an_interval_beside_its_retry(herd: SimulatedHerd, change: str) -> None:
    runner = ScriptedRunner(fails=1)
    herd.schedule("report", every="1h", runner=runner, retry=TWICE)
    await herd.advance(MINUTE)

    CHANGES[change](herd)
    await herd.tick()

    assert herd.next_run("report") is None
    await herd.advance(10 * MINUTE)
    assert [claim.attempt for claim in runner.runs] == [1, 2]
    assert herd.next_run("report") is not None


async def test_a_planned_pause_during_a_run_gives_an_interval_no_second_beat(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(holds=True)
    await start_held(herd, runner, every="5m")

    herd.plan_pause("report", start=TEN + 10 * MINUTE, until=TEN + 20 * MINUTE)
    await herd.advance(HOUR)

    assert herd.outcomes("report") == [("running", "", 1)]
    assert herd.next_run("report") is None
    runner.let_go()
    await herd.tick()
    assert herd.next_run("report") == herd.now + 5 * MINUTE


async def test_a_retry_waits_while_another_run_of_its_schedule_is_active(herd: SimulatedHerd) -> None:
    runner = ScriptedRunner(fails=1)
    herd.schedule("report", cron="0 11 * * *", runner=runner, retry=TWICE, max_concurrent=5)
    await herd.advance(HOUR)
    runner.hold()
    number = herd.snapshot("report").id

    herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="1"))
    await herd.advance(HOUR)

    assert [claim.attempt for claim in runner.runs] == [1, 1]
    runner.let_go()
    await herd.tick()
    assert [claim.attempt for claim in runner.runs] == [1, 1, 2]


async def test_a_schedule_that_has_ended_misses_no_run_when_its_pause_is_over(herd: SimulatedHerd) -> None:
    herd.schedule("report", every="5m", fixed_rate=True, bounds=Bounds(ends_at=TEN + 30 * MINUTE))
    herd.schedule("table", cron="*/5 * * * *", bounds=Bounds(ends_at=TEN + 30 * MINUTE))
    await herd.advance(40 * MINUTE)
    herd.pause("report", until=TEN + 50 * MINUTE)
    herd.plan_pause("table", start=TEN + 45 * MINUTE, until=TEN + 50 * MINUTE)

    await herd.advance(HOUR)

    suspects = SqliteAudit(herd.store.path).find_inconsistencies(herd.now)
    assert herd.store.write_now(lambda tx: inspect(tx, herd.now, suspects)).findings == []


@pytest.mark.parametrize("overlap", [Overlap.QUEUE, Overlap.QUEUE_ALL, Overlap.ALLOW, Overlap.CANCEL])
async def test_a_calendar_does_not_spin_when_a_run_takes_longer_than_max_interval(
    herd: SimulatedHerd, overlap: Overlap
) -> None:
    """Once it was due again at the instant that had just started, and the node did nothing else any more."""
    runner = ScriptedRunner(holds=True)
    limits = Limits(at_most=5 * MINUTE)
    herd.schedule("report", cron="*/10 * * * *", overlap=overlap, limits=limits, runner=runner)

    async with asyncio.timeout(20):
        await herd.advance(HOUR)

    due_times = [beat.due_at for beat in herd.beats("report")]
    assert len(set(due_times)) == len(due_times)
    assert herd.next_run("report") > herd.now  # type: ignore[operator]


@pytest.mark.parametrize("hold", HOLDS)
async def test_a_pause_skips_no_instants_before_the_start_or_after_the_end_of_a_schedule(
    herd: SimulatedHerd, hold: str
) -> None:
    bounds = Bounds(starts_at=TEN + 20 * MINUTE, ends_at=TEN + 40 * MINUTE)
    herd.schedule("report", cron="*/10 * * * *", bounds=bounds)
    await herd.advance(MINUTE)

    HOLDS[hold](herd)
    await herd.advance(2 * HOUR)
    herd.resume("report")
    herd.enable("report")

    assert herd.outcomes("report") == [("skipped", hold, 3)]


async def test_a_late_pause_skips_no_instants_after_the_end_of_a_schedule(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *", bounds=Bounds(ends_at=TEN + 40 * MINUTE))
    await herd.advance(MINUTE)

    herd.clock.advance(2 * HOUR)
    herd.pause("report")

    assert herd.outcomes("report") == [("skipped", "paused", 4)]


async def test_a_resume_of_what_is_disabled_skips_nothing_as_paused(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="*/10 * * * *")
    await herd.advance(MINUTE)
    herd.disable("report")
    await herd.advance(30 * MINUTE)

    herd.resume("report")

    assert herd.outcomes("report") == [("skipped", "disabled", 3)]


async def test_a_fixed_rate_that_ended_while_it_was_disabled_misses_no_run(herd: SimulatedHerd) -> None:
    herd.schedule("report", every="5m", fixed_rate=True, bounds=Bounds(ends_at=TEN + 30 * MINUTE))
    await herd.advance(MINUTE)
    herd.disable("report")
    await herd.advance(HOUR)

    herd.enable("report")

    suspects = SqliteAudit(herd.store.path).find_inconsistencies(herd.now)
    assert herd.store.write_now(lambda tx: inspect(tx, herd.now, suspects)).findings == []
