"""A run again, by hand: the same beat, one more attempt, and the schedule's own time stays as it was."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.oracle import check_runs
from tests.support.schedule_requests import check_against_oracle, list_runs, request_retry

from herdbeat.domain.policies import Retry
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE


async def test_a_failed_run_is_retried_under_the_same_beat_and_its_success_resets_the_failures(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(10 * MINUTE)
        assert herd.snapshot("report").failures == 1

        retried = request_retry(herd, 1)
        await herd.tick()

        assert retried.attempt == 2
        assert [(claim.attempt, claim.due_at) for claim in runner.runs] == [(1, TEN), (2, TEN)]
        assert len({claim.beat_id for claim in runner.runs}) == 1
        assert list_runs(herd, "report") == [(1, "failed", "baseline-cron"), (2, "succeeded", "retry")]
        assert herd.outcomes("report") == [("ran", "", 1)]
        assert (herd.snapshot("report").failures, herd.next_run("report")) == (0, TEN + HOUR)
        check_against_oracle(herd, "report", "0 * * * *", START)


async def test_a_retry_by_hand_that_fails_adds_nothing_and_is_not_repeated(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=9)
        herd.schedule("api", every="1h", runner=runner, retry=Retry(attempts=2, wait=MINUTE))
        await herd.advance(2 * MINUTE)
        before = herd.snapshot("api")

        request_retry(herd, 2)
        await herd.advance(10 * MINUTE)

        after = herd.snapshot("api")
        assert [attempt for attempt, _, _ in list_runs(herd, "api")] == [1, 2, 3]
        assert (after.failures, after.anchor_at, after.next_run_at, after.runs) == (
            before.failures,
            before.anchor_at,
            before.next_run_at,
            before.runs,
        )


async def test_an_interval_keeps_its_time_however_long_the_retry_takes(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="1h", runner=ScriptedRunner(fails=1))
        await herd.tick()
        planned = herd.next_run("api")

        herd.schedule("api", every="1h", runner=ScriptedRunner(fails=1, takes=20 * MINUTE))
        request_retry(herd, 1)
        await herd.tick()

        assert planned == TEN + 2 * HOUR
        assert herd.next_run("api") == planned


@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_all", "cancel"])
async def test_it_waits_for_the_run_of_its_own_schedule(tmp_path: Path, overlap: str) -> None:
    async with open_herd(tmp_path, START) as herd:
        herd.schedule("report", cron="0 * * * *", runner=ScriptedRunner(fails=1), max_concurrent=2, overlap=overlap)
        await herd.advance(2 * MINUTE)
        held = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=held, max_concurrent=2, overlap=overlap)
        await herd.advance(HOUR)

        request_retry(herd, 1)
        await herd.tick()
        waiting = len(held.runs)
        held.let_go()
        await herd.settle()
        await herd.tick()

        assert waiting == 1
        assert [claim.attempt for claim in held.runs] == [1, 2]
        assert herd.outcomes("report") == [("ran", "", 1), ("ran", "", 1)]


async def test_a_pause_does_not_skip_a_retry_by_hand(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("worker/report", cron="0 10 * * *", runner=ScriptedRunner(fails=1))
        herd.schedule("worker/busy", cron="5 10 * * *", runner=busy)
        await herd.advance(10 * MINUTE)
        request_retry(herd, 1)
        await herd.tick()

        herd.pause("worker/report")
        busy.let_go()
        await herd.settle()
        await herd.tick()

        assert list_runs(herd, "worker/report") == [(1, "failed", "baseline-cron"), (2, "succeeded", "retry")]


async def test_an_interrupted_retry_by_hand_stays_a_retry_by_hand(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        held = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=ScriptedRunner(fails=1), on_interrupt="retry")
        await herd.advance(2 * MINUTE)
        herd.schedule("report", cron="0 * * * *", runner=held, on_interrupt="retry")
        request_retry(herd, 1)
        await herd.tick()

        herd.store.write_now(lambda tx: register_node(tx, herd.now, NodeInfo(host="other", pid=2, version="test")))
        held.let_go()
        await herd.tick()

        assert list_runs(herd, "report") == [
            (1, "failed", "baseline-cron"),
            (2, "interrupted", "retry"),
            (3, "succeeded", "retry"),
        ]
        reader = SqliteReader(herd.store.path)
        check_runs(reader)
        reader.close()


@pytest.mark.parametrize(
    ("fails", "holds", "obstacle"),
    [(0, False, "it succeeded"), (0, True, "it is still running"), (1, False, "another attempt is already waiting")],
)
async def test_a_run_that_may_not_be_retried_is_refused(tmp_path: Path, fails: int, holds: bool, obstacle: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=fails, holds=holds)
        herd.schedule("api", every="1h", runner=runner, retry=Retry(attempts=2, wait=MINUTE))
        await herd.tick()

        refused = request_retry(herd, 1)

        assert (refused.attempt, refused.obstacle) == (None, obstacle)
        assert len(runner.runs) == 1


async def test_force_repeats_a_run_that_succeeded(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="1h", runner=runner)
        await herd.tick()

        request_retry(herd, 1, force=True)
        await herd.tick()

        assert [claim.attempt for claim in runner.runs] == [1, 2]


async def test_an_old_beat_is_never_too_late_for_a_retry(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("report", cron="0 10 * * *", runner=runner, max_late=MINUTE)
        await herd.advance(5 * HOUR)

        request_retry(herd, 1)
        await herd.tick()

        assert [status for _, status, _ in list_runs(herd, "report")] == ["failed", "succeeded"]
        assert herd.outcomes("report") == [("ran", "", 1)]


async def test_a_change_while_it_runs_by_hand_does_not_leave_an_interval_without_a_next_run(tmp_path: Path) -> None:
    """Once, the change left the next time to the completion, and the completion of a run by hand decides nothing."""
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="1h")
        await herd.tick()
        held = ScriptedRunner(holds=True)
        herd.schedule("api", every="1h", runner=held)
        request_retry(herd, 1, force=True)
        await herd.tick()

        herd.clear_hints("api")
        during = herd.next_run("api")
        herd.pause("api")
        herd.resume("api")
        held.let_go()
        await herd.settle()

        assert during == TEN + HOUR
        assert herd.next_run("api") == TEN + HOUR
