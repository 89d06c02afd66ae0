"""The documented timelines, as they stand on their pages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Catchup, FirstRun, Jitter, Limits, Overlap, Retry
from herdbeat.domain.run import Claim, Outcome
from herdbeat.testing.clock import FakeClock
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
        assert herd.outcomes("triage") == [("ran", "", 1)]


async def test_jitter_changes_neither_the_due_instant_nor_the_dedup_id(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *", jitter=Jitter(span=30 * MINUTE))
        herd.snapshot("report")
        planned = herd.next_run("report")

        await herd.advance(2 * HOUR)

        assert planned is not None
        assert TEN + HOUR < planned < TEN + HOUR + 30 * MINUTE
        first, *_ = herd.beats("report")
        assert (first.due_at, first.dedup_id) == (TEN + HOUR, "cron:2026-03-02T11:00:00Z")


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


async def test_a_cron_schedule_continues_while_an_earlier_run_is_active(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)

        await herd.advance(4 * HOUR)

        assert herd.outcomes("report") == [("running", "", 1), ("skipped", "already_running", 3)]
        runner.let_go()
        await herd.advance(HOUR)
        assert herd.outcomes("report") == [("ran", "", 1), ("skipped", "already_running", 3), ("ran", "", 1)]


async def test_beats_wait_for_a_full_target_and_start_in_order(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        first, second, third = (ScriptedRunner(holds=True) for _ in range(3))
        herd.schedule("worker/a", cron="0 10 * * *", runner=first, max_concurrent=2)
        herd.schedule("worker/b", cron="5 10 * * *", runner=second, max_concurrent=2)
        herd.schedule("worker/c", cron="5 10 * * *", runner=third, max_concurrent=2)

        await herd.advance(6 * MINUTE)

        assert [len(each.runs) for each in (first, second, third)] == [1, 1, 0]
        assert herd.outcomes("worker/c") == [("pending", "at_capacity", 1)]
        first.let_go()
        await herd.tick()
        assert len(third.runs) == 1
        assert herd.outcomes("worker/c") == [("running", "", 1)]


async def test_a_full_target_does_not_delay_another(tmp_path: Path) -> None:
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

        assert herd.outcomes("report") == [
            ("running", "", 1),
            ("pending", "already_running", 1),
            ("merged", "already_running", 2),
        ]


async def test_a_completion_right_after_the_hour_does_not_lose_that_hour(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - 61 * MINUTE) as herd:
        runner = ScriptedRunner(holds=True)
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(MINUTE)  # 09:00 starts, and stays active
        herd.clock.advance(HOUR + timedelta(milliseconds=500))

        runner.let_go()  # at 10:00:00.5, before anybody has looked at 10:00
        await herd.settle()
        await herd.tick()

        assert [beat.due_at.hour for beat in herd.beats("report")] == [9, 10]
        assert herd.outcomes("report") == [("ran", "", 1), ("ran", "", 1)]


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

        assert herd.outcomes("report") == [("missed", "scheduler_down", 5)]
        assert herd.next_run("report") == TEN + 6 * HOUR
        assert herd.outcomes("triage") == [("ran", "", 1), ("ran", "", 1)]
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
        assert herd.outcomes("launch") == [("ran", "", 1)]


async def test_a_retry_is_another_attempt_at_the_same_beat(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner(fails=2)
        herd.schedule("api", every="1h", runner=runner, retry=Retry(attempts=3, wait=MINUTE))

        await herd.advance(10 * MINUTE)

        assert [claim.attempt for claim in runner.runs] == [1, 2, 3]
        assert len({claim.beat_id for claim in runner.runs}) == 1
        assert herd.outcomes("api") == [("ran", "", 1)]
        assert herd.snapshot("api").failures == 0


async def test_an_instant_during_a_suspend_is_missed_with_its_reason(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        herd.clock.suspend(3 * HOUR + 10 * MINUTE)

        await herd.tick()

        assert herd.outcomes("report") == [("missed", "slept", 3)]
        assert herd.next_run("report") == TEN + 4 * HOUR


async def test_a_clock_set_forward_by_ten_years_costs_one_row(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("report", cron="0 * * * *")
        await herd.tick()
        herd.clock.jump(timedelta(days=3_650, minutes=10))

        await herd.tick()

        assert herd.outcomes("report") == [("missed", "clock_jumped", 87_600)]


async def test_a_clock_set_back_runs_nothing_twice_and_continues(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        herd.schedule("triage", every="5m")
        await herd.advance(2 * MINUTE)  # 10:00 has run
        herd.clock.jump(-HOUR)  # 09:01 again

        await herd.advance(2 * HOUR)

        assert [claim.due_at.hour for claim in runner.runs] == [10, 11]
        assert len(herd.beats("triage")) > 20


class Unsteady(ScriptedRunner):
    """Takes another time for each run."""

    def __init__(self, *minutes: int) -> None:
        super().__init__()
        self._minutes = list(minutes)
        self.spans: list[tuple[str, str]] = []

    async def __call__(self, claim: Claim, clock: FakeClock) -> Outcome:
        start = clock.now()
        clock.advance(self._minutes.pop(0) * MINUTE)
        self.spans.append((f"{start:%H:%M}", f"{clock.now():%H:%M}"))
        return await super().__call__(claim, clock)


async def test_the_page_s_timeline_of_a_five_minute_interval(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = Unsteady(3, 7, 0)
        herd.schedule("agent/check", every="5m", runner=runner)

        await herd.advance(21 * MINUTE)

        assert runner.spans == [("10:00", "10:03"), ("10:08", "10:15"), ("10:20", "10:20")]


async def test_a_new_agent_runs_at_once_and_then_five_minutes_after_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = Unsteady(2)
        herd.schedule("agent/check", every="5m", runner=runner)

        await herd.tick()

        assert runner.spans == [("10:00", "10:02")]
        assert herd.next_run("agent/check") == TEN + 7 * MINUTE


async def test_a_run_longer_than_its_interval_delays_the_next_one(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = Unsteady(10, 0)
        herd.schedule("agent/check", every="5m", runner=runner)

        await herd.advance(15 * MINUTE)

        assert [start for start, _ in runner.spans] == ["10:00", "10:15"]


async def test_a_machine_that_slept_until_half_past_ten_runs_the_overdue_one_once(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("agent/check", every="5m", runner=runner)
        await herd.tick()  # last completion: 10:00, expected next: 10:05
        herd.clock.suspend(30 * MINUTE)

        await herd.tick()

        assert herd.now == TEN + 30 * MINUTE
        assert len(runner.runs) == 2
        assert herd.next_run("agent/check") == TEN + 35 * MINUTE


async def test_two_of_two_running_the_third_waits_for_the_first_to_end(tmp_path: Path) -> None:
    """The page's third job starts at its next check, 10:10; here it starts when there is room, 10:07."""
    async with open_herd(tmp_path, TEN - MINUTE) as herd:
        first, second, third = ScriptedRunner(holds=True), ScriptedRunner(holds=True), ScriptedRunner(holds=True)
        herd.schedule("issue-processor/a", cron="0 10 * * *", runner=first, max_concurrent=2)
        herd.schedule("issue-processor/b", cron="5 10 * * *", runner=second, max_concurrent=2)
        herd.schedule("issue-processor/process-issues", cron="5 10 * * *", runner=third, max_concurrent=2)

        await herd.advance(8 * MINUTE)  # 10:07: job 1 and job 2 run, at capacity
        assert herd.outcomes("issue-processor/process-issues") == [("pending", "at_capacity", 1)]
        first.let_go()
        await herd.tick()

        assert [len(each.runs) for each in (first, second, third)] == [1, 1, 1]
        assert herd.now == TEN + 7 * MINUTE


async def test_a_hint_acts_within_the_hard_limits_and_ends_with_its_time(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        limits = Limits(at_least=timedelta(seconds=15), at_most=15 * MINUTE)
        herd.schedule("queue-depth", every="5m", limits=limits)
        await herd.tick()

        herd.hint("queue-depth", Hint(origin="agent:x", every=timedelta(seconds=5), expires_at=TEN + MINUTE * 0.9))
        hinted = herd.next_run("queue-depth"), herd.why("queue-depth")
        await herd.advance(MINUTE)

        assert hinted == (TEN + timedelta(seconds=15), Source.CLAMPED_MIN)
        assert herd.why("queue-depth") is Source.BASELINE_INTERVAL
        assert herd.next_run("queue-depth") == TEN + 5 * MINUTE + timedelta(seconds=45)


async def test_max_interval_limits_the_backoff(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m", limits=Limits(at_most=15 * MINUTE), runner=ScriptedRunner(fails=9))
        waits = []

        for _ in range(4):
            await herd.tick()
            next_run = herd.next_run("api")
            assert next_run is not None
            waits.append(((next_run - herd.now) // MINUTE, herd.why("api")))
            herd.clock.advance(next_run - herd.now)

        assert waits == [(10, Source.BASELINE_INTERVAL), *[(15, Source.CLAMPED_MAX)] * 3]


async def test_a_pause_wins_over_everything_and_is_decided_again_at_its_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="5m", limits=Limits(at_most=MINUTE), runner=runner)
        await herd.tick()
        herd.hint("api", Hint(origin="agent:x", every=timedelta(seconds=5), expires_at=TEN + 9 * HOUR))

        herd.pause("api", until=TEN + 2 * HOUR)

        assert (herd.next_run("api"), herd.why("api")) == (TEN + 2 * HOUR, Source.PAUSED)
        await herd.advance(2 * HOUR - timedelta(seconds=1))
        assert len(runner.runs) == 1
        await herd.advance(timedelta(seconds=1))
        assert len(runner.runs) == 2


async def test_a_one_shot_before_the_baseline_runs_then_and_is_used_up(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("api", every="1h", runner=runner)
        await herd.tick()
        herd.hint("api", Hint(origin="agent:x", at=TEN + 20 * MINUTE, expires_at=TEN + 2 * HOUR))

        await herd.advance(HOUR)

        assert [claim.source for claim in runner.runs] == [Source.FIRST_RUN, Source.AI_ONESHOT]
        assert herd.next_run("api") == TEN + 80 * MINUTE


async def test_first_run_after_interval_waits_its_interval(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("agent/check", every="5m", first_run=FirstRun.AFTER_INTERVAL, runner=runner)

        await herd.advance(5 * MINUTE)

        assert [claim.due_at for claim in runner.runs] == [TEN + 5 * MINUTE]
