"""Cancelled pending beats: settled as by_request, their slots free, and the schedule continues."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.scheduler.test_manual import enqueue_manual_run
from tests.support.schedule_requests import (
    backfill_range,
    cancel_pending_beats,
    check_against_oracle,
    list_runs,
    request_retry,
)

from herdbeat.domain.policies import Jitter, Overlap, Retry
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE


async def test_a_beat_that_waits_for_room_is_skipped_by_request(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy, waiting = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", every="1h", runner=busy)
        herd.schedule("worker/report", cron="0 * * * *", runner=waiting)
        await herd.advance(2 * MINUTE)

        called_off = cancel_pending_beats(herd, "worker/report")
        busy.let_go()
        await herd.advance(MINUTE)

        assert called_off == 1
        assert waiting.runs == []
        assert herd.outcomes("worker/report") == [("skipped", "by_request", 1)]
        assert (herd.snapshot("worker/report").waiting, herd.next_run("worker/report")) == (0, TEN + HOUR)
        check_against_oracle(herd, "worker/report", "0 * * * *", START)


async def test_an_interval_counts_from_the_moment_its_beat_was_cancelled(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("worker/busy", cron="* * * * *", runner=busy)
        herd.schedule("worker/five", every="5m", first_run="after_interval")
        await herd.advance(7 * MINUTE)
        assert herd.next_run("worker/five") is None

        cancel_pending_beats(herd, "worker/five")

        assert herd.outcomes("worker/five") == [("skipped", "by_request", 1)]
        assert herd.next_run("worker/five") == TEN + 12 * MINUTE
        busy.let_go()


async def test_an_instant_vanished_if_a_beat_was_cancelled_between_it_and_its_jittered_start(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("worker/busy", every="12h", runner=busy)
        herd.schedule("worker/report", cron="0 * * * *", jitter=Jitter(span=50 * MINUTE), overlap=Overlap.QUEUE_ALL)
        await herd.advance(HOUR)
        standing = herd.snapshot("worker/report")
        assert (standing.waiting, standing.next_due_at) == (1, TEN + HOUR)
        assert standing.next_run_at is not None
        herd.clock.advance(TEN + HOUR + (standing.next_run_at - TEN - HOUR) / 2 - herd.now)

        cancel_pending_beats(herd, "worker/report")
        busy.let_go()
        await herd.advance(TEN + 2 * HOUR + 55 * MINUTE - herd.now)

        assert herd.outcomes("worker/report") == [("skipped", "by_request", 1), ("ran", "", 1), ("ran", "", 1)]
        check_against_oracle(herd, "worker/report", "0 * * * *", START)


async def test_all_pending_beats_of_a_schedule_are_cancelled_whatever_their_origin(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="*/10 * * * *", runner=runner, overlap=Overlap.QUEUE_ALL)
        await herd.advance(22 * MINUTE)
        enqueue_manual_run(herd, "report", queue=True)
        backfill_range(herd, "report", TEN - HOUR, TEN)
        await herd.tick()

        called_off = cancel_pending_beats(herd, "report")
        runner.let_go()
        await herd.advance(MINUTE)

        assert called_off == 2 + 1 + 6
        assert len(runner.runs) == 1
        assert [fate for fate, _, _ in herd.outcomes("report")] == ["ran"] + ["skipped"] * 9
        assert herd.snapshot("report").waiting == 0


async def test_a_cancelled_retry_leaves_a_beat_that_ran(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m", runner=ScriptedRunner(fails=5), retry=Retry(attempts=3, wait=MINUTE))
        await herd.tick()
        assert herd.outcomes("api") == [("pending", "retry", 1)]

        cancel_pending_beats(herd, "api")

        assert herd.outcomes("api") == [("ran", "", 1)]
        assert herd.next_run("api") == TEN + 5 * MINUTE
        await herd.advance(4 * MINUTE)
        assert list_runs(herd, "api") == [(1, "failed", "first-run")]


async def test_a_cancelled_beat_can_be_retried(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="1h", runner=ScriptedRunner(fails=1), retry=Retry(attempts=3, wait=MINUTE))
        await herd.tick()
        cancel_pending_beats(herd, "api")

        request_retry(herd, 1)
        await herd.tick()

        assert list_runs(herd, "api") == [(1, "failed", "first-run"), (2, "succeeded", "retry")]
        assert herd.outcomes("api") == [("ran", "", 1)]
