"""The instants of a past window, run now, beside what became of them at their time."""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.schedule_requests import backfill_range, check_against_oracle

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import ActiveHours, Bounds, Catchup, Policies
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import Conflict
from herdbeat.scheduler.backfill import BackfillWindow, count_instants, iterate_instants
from herdbeat.testing.herd import ScriptedRunner, open_herd
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.interval import Interval

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
START = TEN - MINUTE
UTC_ZONE = ZoneInfo("UTC")


def plan(expression: str = "0 * * * *", **policies: object) -> ScheduleSpec:
    usual = {"zone": UTC_ZONE, "timeout": HOUR, "catchup": Catchup.SKIP}
    return ScheduleSpec(trigger=Cron.parse(expression, UTC_ZONE), policies=Policies(**usual | policies))  # type: ignore[arg-type]


async def test_each_instant_is_a_beat_that_sees_its_own_time(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        before = herd.snapshot("report")

        filled = backfill_range(herd, "report", TEN - 3 * HOUR, TEN)
        await herd.advance(timedelta(seconds=30))

        assert filled.instants == tuple(TEN - back * HOUR for back in (3, 2, 1))
        assert [(claim.due_at, claim.source) for claim in runner.runs] == [
            (TEN - back * HOUR, Source.BACKFILL) for back in (3, 2, 1)
        ]
        assert [beat.dedup_id for beat in herd.beats("report")] == [
            f"backfill:2026-03-02T0{hour}:00:00Z#1" for hour in (7, 8, 9)
        ]
        after = herd.snapshot("report")
        assert (after.anchor_at, after.next_run_at, after.runs) == (before.anchor_at, TEN, 0)


async def test_they_start_no_faster_than_the_rate(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 9 * * *", runner=runner, max_concurrent=9, overlap="allow")

        backfill_range(herd, "report", TEN - 4 * DAY, TEN, rate=0.5)
        started = []
        for _ in range(4):
            await herd.tick()
            started.append(len(runner.runs))
            herd.clock.advance(timedelta(seconds=2))

        assert started == [1, 2, 3, 4]


async def test_a_window_backfilled_twice_runs_twice_under_another_number(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 9 * * *", runner=runner)

        numbers = []
        for _ in range(2):
            numbers.append(backfill_range(herd, "report", TEN - DAY, TEN).number)
            await herd.advance(MINUTE)

        assert numbers == [1, 2]
        assert [claim.dedup_id[-2:] for claim in runner.runs] == ["#1", "#2"]


async def test_its_failures_do_not_count_and_the_past_is_not_accounted_for_twice(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 * * * *", runner=runner)
        await herd.advance(3 * HOUR)
        herd.schedule("report", cron="0 * * * *", runner=ScriptedRunner(fails=9))

        backfill_range(herd, "report", TEN, TEN + 3 * HOUR)
        await herd.advance(MINUTE / 2)

        assert herd.snapshot("report").failures == 0
        assert len(herd.beats("report")) == 6
        check_against_oracle(herd, "report", "0 * * * *", START)


async def test_what_is_due_now_goes_before_the_past(tmp_path: Path) -> None:
    async with open_herd(tmp_path, START) as herd:
        busy, past, present = ScriptedRunner(holds=True), ScriptedRunner(holds=True), ScriptedRunner()
        herd.schedule("worker/busy", cron="0 10 * * *", runner=busy)
        herd.schedule("worker/past", cron="0 9 * * *", runner=past)
        herd.schedule("worker/present", cron="5 10 * * *", runner=present)
        await herd.advance(2 * MINUTE)
        backfill_range(herd, "worker/past", TEN - 2 * DAY, TEN)
        await herd.advance(10 * MINUTE)

        busy.let_go()
        await herd.settle()
        await herd._loop.run_cycle(herd._tasks)
        await herd.settle()

        assert (len(present.runs), len(past.runs)) == (1, 0)
        past.let_go()
        await herd.tick()
        assert len(past.runs) == 2


async def test_neither_max_late_nor_a_pause_stops_a_backfill(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        runner = ScriptedRunner()
        herd.schedule("report", cron="0 9 * * *", runner=runner, max_late=MINUTE)
        herd.pause("report")

        backfill_range(herd, "report", TEN - 2 * DAY, TEN)
        await herd.advance(MINUTE)

        assert len(runner.runs) == 2


def test_the_start_belongs_to_the_window_and_the_end_does_not() -> None:
    window = BackfillWindow(start=TEN, end=TEN + 2 * HOUR)

    assert list(iterate_instants(plan(), window)) == [TEN, TEN + HOUR]
    assert count_instants(plan(), window) == 2
    assert list(iterate_instants(plan(), BackfillWindow(start=TEN, end=TEN))) == []
    assert count_instants(plan(), BackfillWindow(start=TEN, end=TEN)) == 0


def test_only_instants_that_the_clock_would_have_run_are_backfilled() -> None:
    hours = ActiveHours(opens=time(9), closes=time(12), zone=UTC_ZONE)
    bounds = Bounds(starts_at=TEN, ends_at=TEN + DAY)
    chosen = plan(active_hours=hours, bounds=bounds)
    window = BackfillWindow(start=TEN - 10 * DAY, end=TEN + 10 * DAY)

    found = list(iterate_instants(chosen, window))

    assert [f"{each:%d %H}" for each in found] == ["02 10", "02 11", "03 09", "03 10"]
    assert count_instants(chosen, window) == 4


def test_ten_years_of_seconds_are_counted_without_iterating() -> None:
    window = BackfillWindow(start=TEN - 3_650 * DAY, end=TEN)

    assert count_instants(plan("* * * * * *"), window) == 3_650 * 86_400


@pytest.mark.parametrize(
    ("trigger", "said"),
    [(Interval(every=HOUR), "An interval schedule has no past instants"), (Delay(TEN), "A delay has only one instant")],
)
def test_a_schedule_without_past_instants_is_refused(trigger: object, said: str) -> None:
    policies = Policies(zone=UTC_ZONE, timeout=HOUR, catchup=Catchup.ONCE)
    other = ScheduleSpec(trigger=trigger, policies=policies)  # type: ignore[arg-type]

    with pytest.raises(Conflict, match=said):
        count_instants(other, BackfillWindow(start=TEN - DAY, end=TEN))


@given(
    expression=st.sampled_from(["0 * * * *", "*/7 * * * *", "30 2 * * *", "0 0 * * 1"]),
    start=st.integers(0, 50_000),
    length=st.integers(0, 5_000),
)
def test_counting_and_iterating_agree(expression: str, start: int, length: int) -> None:
    window = BackfillWindow(start=TEN + start * MINUTE, end=TEN + (start + length) * MINUTE)
    chosen = plan(expression)

    assert count_instants(chosen, window) == len(list(iterate_instants(chosen, window)))
