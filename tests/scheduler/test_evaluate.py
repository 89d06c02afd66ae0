"""Several instants are due in one cycle, and no time was lost: the store was locked, or the clock jumped.

A beat that runs is one instant. What it stands for besides is merged, and the target confirms how many have started.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import CronExpectation, check_cron, check_reasons, check_runs, check_starts

from herdbeat.domain.policies import Budget, Overlap
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

MINUTE = timedelta(minutes=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
Rows = list[tuple[str, str, int]]


def check_against_oracle(herd: SimulatedHerd, runner: ScriptedRunner) -> None:
    reader = SqliteReader(herd.store.path)
    try:
        check_cron(reader, CronExpectation("report", "* * * * *", TEN, herd.now))
        check_reasons(reader, "report")
        check_runs(reader)
        check_starts(reader, "report", [f"{run.label}:{run.dedup_id} {run.attempt}" for run in runner.runs])
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("overlap", "rows"),
    [
        (Overlap.SKIP, [("ran", "", 1), ("skipped", "already_running", 9)]),
        (Overlap.QUEUE, [("ran", "", 1), ("ran", "", 1), ("merged", "already_running", 8)]),
        (Overlap.CANCEL, [("merged", "cancel", 9), ("ran", "", 1)]),
        (Overlap.QUEUE_ALL, [("merged", "catchup_max", 7), *[("ran", "", 1)] * 3]),
        (Overlap.ALLOW, [("merged", "catchup_max", 7), *[("ran", "", 1)] * 3]),
    ],
)
async def test_instants_that_were_late_together_are_not_all_called_ran_for_one_run(
    tmp_path: Path, overlap: Overlap, rows: Rows
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=overlap, catchup_max=3, max_concurrent=5)
        herd.snapshot("report")

        herd.clock.advance(10 * MINUTE)
        await herd.tick()

        assert herd.outcomes("report") == rows
        assert len(runner.runs) == rows.count(("ran", "", 1))
        check_against_oracle(herd, runner)


@pytest.mark.parametrize(
    ("overlap", "rows"),
    [
        (Overlap.SKIP, [("ran", "", 1), ("skipped", "already_running", 5)]),
        (Overlap.QUEUE, [("ran", "", 1), ("ran", "", 1), ("merged", "already_running", 4)]),
        (Overlap.CANCEL, [("ran", "", 1), ("merged", "cancel", 4), ("ran", "", 1)]),
        (Overlap.QUEUE_ALL, [("ran", "", 1), ("merged", "catchup_max", 2), *[("ran", "", 1)] * 3]),
        (Overlap.ALLOW, [("ran", "", 1), ("merged", "catchup_max", 2), *[("ran", "", 1)] * 3]),
    ],
)
async def test_instants_that_were_late_behind_a_run_are_not_all_called_ran_for_one_run(
    tmp_path: Path, overlap: Overlap, rows: Rows
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=overlap, catchup_max=3, max_concurrent=5)
        await herd.advance(MINUTE)  # 10:01 starts, and stays active

        herd.clock.advance(5 * MINUTE)
        await herd.tick()
        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("report") == rows
        check_against_oracle(herd, runner)


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_instants_that_wait_for_room_together_are_not_all_called_ran_for_one_run(
    tmp_path: Path, overlap: Overlap
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        other, runner = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("report/other", at="2026-03-02T10:00:30Z", runner=other)
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=overlap, catchup_max=3)
        await herd.advance(MINUTE / 2)

        herd.clock.advance(6 * MINUTE)
        await herd.tick()
        other.let_go()
        await herd.settle()
        await herd.tick()

        assert sum(beat.count for beat in herd.beats("report")) == 6
        check_against_oracle(herd, runner)


async def test_a_jump_of_the_clock_without_a_gap_is_not_called_ran_for_one_run(tmp_path: Path) -> None:
    """A node that shares its ledger records no gap of its own. It once wrote `ran x1731`."""
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=Overlap.QUEUE)
        herd.snapshot("report")

        herd.clock.advance(1_731 * MINUTE)
        await herd.tick()

        assert herd.outcomes("report") == [("ran", "", 1), ("ran", "", 1), ("merged", "already_running", 1_729)]
        assert len(runner.runs) == 2


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_late_instants_that_a_gate_rejects_are_skipped_and_not_merged_into_nothing(
    tmp_path: Path, overlap: Overlap
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        budget = Budget(runs_per_day=1)
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=overlap, catchup_max=3, budget=budget)
        await herd.advance(MINUTE)

        herd.clock.advance(9 * MINUTE)
        await herd.tick()

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "budget_exceeded", 9)]
        check_against_oracle(herd, runner)


async def test_a_beat_replaced_before_it_started_is_merged_and_not_called_ran(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        other, runner = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("report/other", at="2026-03-02T10:00:30Z", runner=other)
        herd.schedule("report", cron="* * * * *", runner=runner, overlap=Overlap.CANCEL)
        await herd.advance(MINUTE)  # 10:01 waits for room

        herd.clock.advance(MINUTE)
        other.let_go()  # at 10:02: 10:01 could start now, and 10:02 takes its place
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("report") == [("merged", "cancel", 1), ("ran", "", 1)]
        assert [run.due_at for run in runner.runs] == [TEN + 2 * MINUTE]
        check_against_oracle(herd, runner)
