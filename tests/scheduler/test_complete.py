"""What a completion does beside closing its run: a schedule may pause itself, and a run may have declined."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Jitter, Overlap, Retry
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


async def test_the_third_failure_in_a_row_pauses_it_without_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=9)
        herd.schedule("api", every="1m", pause_after_failures=3, runner=runner)

        await herd.advance(5 * HOUR)

        assert len(runner.runs) == 3
        pause = herd.snapshot("api").pause
        assert pause is not None
        assert (pause.by, pause.until) == ("policy", None)
        assert pause.reason == "3 consecutive failures: it was told to fail"
        assert (herd.next_run("api"), herd.why("api")) == (None, Source.PAUSED)


async def test_a_success_in_between_starts_the_count_again(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=2)
        herd.schedule("api", every="1m", pause_after_failures=3, runner=runner)

        await herd.advance(HOUR)

        assert herd.snapshot("api").pause is None
        assert len(runner.runs) > 40


async def test_attempts_at_one_beat_are_one_failure(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=4)
        herd.schedule("api", every="1h", pause_after_failures=2, retry=Retry(attempts=4, wait=MINUTE), runner=runner)

        await herd.advance(40 * MINUTE)

        assert len(runner.runs) == 4
        assert (herd.snapshot("api").failures, herd.snapshot("api").pause) == (1, None)


async def test_resumed_it_tries_once_and_pauses_again_at_the_next_failure(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=3)
        herd.schedule("api", every="1m", pause_after_failures=2, runner=runner)
        await herd.advance(HOUR)
        assert len(runner.runs) == 2

        herd.resume("api")
        await herd.advance(HOUR)

        assert len(runner.runs) == 3
        pause = herd.snapshot("api").pause
        assert pause is not None
        assert pause.reason.startswith("3 consecutive failures")
        herd.resume("api")
        await herd.advance(HOUR)
        assert herd.snapshot("api").pause is None
        assert herd.snapshot("api").failures == 0


async def test_what_waits_when_it_pauses_itself_is_skipped(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True, fails=1)
        herd.schedule("report", cron="0 * * * *", pause_after_failures=1, overlap=Overlap.QUEUE, runner=runner)
        await herd.advance(2 * HOUR)

        runner.let_go()
        await herd.settle()
        await herd.tick()

        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "paused", 1)]
        assert herd.snapshot("report").waiting == 0
        pause = herd.snapshot("report").pause
        assert pause is not None
        assert pause.reason == "1 failure: it was told to fail"


async def test_a_pause_by_a_person_is_left_as_it_is(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(holds=True, fails=1)
        herd.schedule("api", every="1m", pause_after_failures=1, runner=runner)
        await herd.tick()
        herd.pause("api", until=TEN + HOUR)

        runner.let_go()
        await herd.settle()

        pause = herd.snapshot("api").pause
        assert pause is not None
        assert (pause.by, pause.until) == ("human:you", TEN + HOUR)


async def test_a_declined_beat_is_skipped_and_moves_the_next_time_but_not_the_last_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="10m", runner=ScriptedRunner(declines=1))

        await herd.tick()

        assert herd.outcomes("scribe") == [("skipped", "precheck", 1)]
        assert herd.next_run("scribe") == TEN + 10 * MINUTE
        reader = SqliteReader(herd.store.path)
        (record,) = reader.schedules(Filter(target="scribe"))
        assert (record.last_run_at, record.last_status, record.failures, record.running) == (None, None, 0, 0)
        reader.close()


async def test_a_listing_may_leave_out_runs_that_declined(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("scribe", every="10m", runner=ScriptedRunner(declines=2))
        await herd.advance(20 * MINUTE)
        reader = SqliteReader(herd.store.path)

        shown = reader.runs(Filter(target="scribe", include_declined=False))

        assert [run.status for run in shown] == ["succeeded"]
        assert [run.status for run in reader.runs(Filter(target="scribe"))] == ["succeeded", "skipped", "skipped"]
        assert [run.status for run in reader.runs(Filter(include_declined=False))] == ["succeeded"]
        reader.close()


async def test_a_declined_beat_frees_its_slot_and_keeps_the_failures(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=1)
        herd.schedule("api", every="10m", runner=runner)
        await herd.tick()
        runner.declines = 1

        await herd.advance(20 * MINUTE)

        assert len(runner.runs) == 2
        assert herd.snapshot("api").failures == 1
        assert herd.next_run("api") == herd.now + 20 * MINUTE  # the backoff continues


async def test_a_completion_between_an_instant_and_its_jittered_start_does_not_lose_that_instant(
    tmp_path: Path,
) -> None:
    async with open_herd(tmp_path, TEN - 61 * MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", jitter=Jitter(span=50 * MINUTE), overlap=Overlap.ALLOW, runner=runner)
        await herd.advance(60 * MINUTE)
        standing = herd.snapshot("report")
        assert standing.next_due_at == TEN
        assert standing.next_run_at is not None
        herd.clock.advance(TEN + (standing.next_run_at - TEN) / 2 - herd.now)

        runner.let_go()
        await herd.settle()
        await herd.advance(HOUR)

        assert [claim.due_at.hour for claim in runner.runs] == [9, 10]


@pytest.mark.parametrize(("wait", "fate"), [(10, ("ran", "", 1)), (9, ("pending", "retry", 1))])
async def test_a_retry_at_the_very_next_instant_is_dropped_and_one_before_it_waits(
    tmp_path: Path, wait: int, fate: tuple[str, str, int]
) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        retry = Retry(attempts=2, wait=timedelta(minutes=wait))
        herd.schedule("report", cron="*/10 * * * *", retry=retry, runner=ScriptedRunner(fails=1))

        await herd.advance(timedelta(minutes=15))

        assert herd.outcomes("report") == [fate]


async def test_a_retry_that_would_wait_longer_than_the_calendar_waits_a_hundred_years(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        retry = Retry(attempts=9, wait=timedelta(days=36_500), factor=10)
        herd.schedule("report", every="5m", retry=retry, runner=ScriptedRunner(fails=3))

        for _ in range(3):
            await herd.tick()
            herd.clock.advance(timedelta(days=36_500))
        await herd.tick()

        assert herd.outcomes("report")[0] == ("ran", "", 1)
        assert herd.snapshot("report").quarantine is None


async def test_a_completion_after_the_end_of_a_pause_does_not_lose_the_instants_inside_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(2 * MINUTE)
        herd.pause("report", until=TEN + HOUR + 30 * MINUTE)
        herd.clock.advance(3 * HOUR)  # nobody looks: the pause is over, and two instants have come due since

        runner.let_go()
        await herd.settle()
        await herd.tick()

        fates = herd.outcomes("report")
        assert fates[:2] == [("ran", "", 1), ("skipped", "paused", 1)]  # eleven o'clock alone was the pause's
        assert sum(count for _, _, count in fates) == 4
