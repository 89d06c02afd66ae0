"""The documented timelines, as they stand on their pages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Overlap, Retry
from herdbeat.testing.herd import ScriptedRunner, open_herd

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


async def test_an_interval_counts_from_the_end_of_a_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("triage", every="5m", runner=ScriptedRunner(takes=3 * MINUTE))

        await herd.tick()  # 10:00 starts, 10:03 ends

        assert herd.next_run("triage") == TEN + 8 * MINUTE
        assert herd.why("triage") is Source.BASELINE_INTERVAL
        assert herd.fates("triage") == [("ran", "", 1)]


async def test_a_failing_schedule_waits_twice_as_long(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("triage", every="5m", runner=ScriptedRunner(fails=1))

        await herd.tick()

        assert herd.next_run("triage") == herd.now + 10 * MINUTE


async def test_backoff_doubles_up_to_thirty_two_times_and_one_success_ends_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("api", every="1m", runner=ScriptedRunner(fails=7))
        waits = []

        for _ in range(8):
            await herd.tick()
            next_run = herd.next_run("api")
            assert next_run is not None
            waits.append((next_run - herd.now) // MINUTE)
            herd.clock.advance(next_run - herd.now)

        assert waits == [2, 4, 8, 16, 32, 32, 32, 1]


async def test_cron_goes_on_while_an_earlier_run_is_going(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)

        await herd.advance(4 * HOUR)

        assert herd.fates("report") == [("running", "", 1), ("skipped", "already_running", 3)]
        runner.let_go()
        await herd.advance(HOUR)
        assert herd.fates("report") == [("ran", "", 1), ("skipped", "already_running", 3), ("ran", "", 1)]


async def test_a_target_without_room_lets_its_beats_wait_and_takes_them_up_in_turn(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        first, second, third = (ScriptedRunner(holds=True) for _ in range(3))
        herd.schedule("worker/a", cron="0 10 * * *", runner=first, max_concurrent=2)
        herd.schedule("worker/b", cron="5 10 * * *", runner=second, max_concurrent=2)
        herd.schedule("worker/c", cron="5 10 * * *", runner=third, max_concurrent=2)

        await herd.advance(6 * MINUTE)

        assert [len(each.runs) for each in (first, second, third)] == [1, 1, 0]
        assert herd.fates("worker/c") == [("pending", "at_capacity", 1)]
        first.let_go()
        await herd.tick()
        assert len(third.runs) == 1
        assert herd.fates("worker/c") == [("running", "", 1)]


async def test_one_full_target_does_not_hold_up_another(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        busy, free = ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("busy/a", every="1m", runner=busy)
        herd.schedule("busy/b", every="1m", runner=busy)
        herd.schedule("free", every="1m", runner=free)

        await herd.advance(10 * MINUTE)

        assert len(busy.runs) == 1
        assert len(free.runs) == 11


async def test_a_queue_holds_one_beat_and_merges_the_rest(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner, overlap=Overlap.QUEUE)

        await herd.advance(4 * HOUR)

        assert herd.fates("report") == [
            ("running", "", 1),
            ("pending", "already_running", 1),
            ("merged", "at_capacity", 2),
        ]


async def test_a_finish_right_after_the_hour_does_not_lose_that_hour(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - 61 * MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(MINUTE)  # 09:00 starts, and goes on
        herd.clock.advance(HOUR + timedelta(milliseconds=500))

        runner.let_go()  # at 10:00:00.5, before anybody has looked at 10:00
        await herd.settle()
        await herd.tick()

        assert [beat.due_at.hour for beat in herd.beats("report")] == [9, 10]
        assert herd.fates("report") == [("ran", "", 1), ("ran", "", 1)]


async def test_cron_is_not_caught_up_and_an_interval_runs_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.schedule("triage", every="5m")
        await herd.tick()
    back = TEN + 5 * HOUR + 30 * MINUTE

    async with open_herd(tmp_path, back) as herd:
        herd.schedule("report", cron="0 * * * *")
        herd.schedule("triage", every="5m")
        await herd.tick()

        assert herd.fates("report") == [("missed", "scheduler_down", 5)]
        assert herd.next_run("report") == TEN + 6 * HOUR
        assert herd.fates("triage") == [("ran", "", 1), ("ran", "", 1)]
        assert herd.beats("triage")[-1].source is Source.CATCH_UP


async def test_catching_up_all_of_them_is_paced(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *", catchup=Catchup.ALL, overlap=Overlap.QUEUE_ALL)
        await herd.tick()
    back = TEN + 5 * HOUR + 30 * MINUTE

    async with open_herd(tmp_path, back, catchup_rate=2.0) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", catchup=Catchup.ALL, overlap=Overlap.QUEUE_ALL, runner=runner)
        await herd.tick()
        assert len(runner.runs) == 1

        await herd.advance(MINUTE)

        assert [claim.due_at.hour for claim in runner.runs] == [11, 12, 13, 14, 15]


async def test_a_delay_fires_once_and_is_done(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("launch", at="2026-03-02T10:30:00Z", runner=runner)

        await herd.advance(3 * HOUR)

        assert len(runner.runs) == 1
        assert herd.next_run("launch") is None
        assert herd.fates("launch") == [("ran", "", 1)]


async def test_a_retry_is_another_attempt_at_the_same_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=2)
        herd.schedule("api", every="1h", runner=runner, retry=Retry(attempts=3, wait=MINUTE))

        await herd.advance(10 * MINUTE)

        assert [claim.attempt for claim in runner.runs] == [1, 2, 3]
        assert len({claim.beat_id for claim in runner.runs}) == 1
        assert herd.fates("api") == [("ran", "", 1)]
        assert herd.standing("api").failures == 0


async def test_a_lid_closed_over_nine_o_clock_is_a_missed_beat_that_says_so(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        herd.clock.suspend(3 * HOUR + 10 * MINUTE)

        await herd.tick()

        assert herd.fates("report") == [("missed", "slept", 3)]
        assert herd.next_run("report") == TEN + 4 * HOUR


async def test_a_clock_put_forward_by_ten_years_costs_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        herd.clock.jump(timedelta(days=3_650, minutes=10))

        await herd.tick()

        assert herd.fates("report") == [("missed", "clock_jumped", 87_600)]


async def test_a_clock_put_back_runs_nothing_twice_and_goes_on(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        herd.schedule("triage", every="5m")
        await herd.advance(2 * MINUTE)  # 10:00 has run
        herd.clock.jump(-HOUR)  # 09:01 again

        await herd.advance(2 * HOUR)

        assert [claim.due_at.hour for claim in runner.runs] == [10, 11]
        assert len(herd.beats("triage")) > 20
