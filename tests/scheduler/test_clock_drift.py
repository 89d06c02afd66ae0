from datetime import UTC, datetime, timedelta

import pytest

from herdbeat.domain.beat import MissedReason
from herdbeat.scheduler.timers import ClockReading, StallWatch, SystemTimer, detect_gap, detect_step_back

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NONE, MINUTE = timedelta(0), timedelta(minutes=1)


def reading(wall: float, monotonic: float, boottime: float) -> ClockReading:
    return ClockReading(NINE + timedelta(seconds=wall), 100 + monotonic, 500 + boottime)


@pytest.mark.parametrize(
    ("what", "after", "stalled", "reason"),
    [
        ("a second has passed", reading(1, 1, 1), NONE, None),
        ("a slow second", reading(3, 3, 3), NONE, None),
        ("a clock being disciplined", reading(1.5, 1, 1), NONE, None),
        ("the lid was closed for an hour", reading(3_600, 1, 3_600), NONE, MissedReason.SLEPT),
        ("the process was stopped for a minute", reading(60, 60, 60), MINUTE, MissedReason.SLEPT),
        ("the loop waited a minute for a locked ledger", reading(60, 60, 60), NONE, None),
        ("the clock was put forward by an hour", reading(3_601, 1, 1), NONE, MissedReason.CLOCK_JUMPED),
        ("put forward by ten years", reading(315_360_001, 1, 1), NONE, MissedReason.CLOCK_JUMPED),
        ("asleep, and put forward meanwhile", reading(7_200, 1, 3_600), NONE, MissedReason.CLOCK_JUMPED),
        ("put back by an hour", reading(-3_599, 1, 1), NONE, None),
    ],
)
def test_a_suspend_a_jump_and_a_stopped_process_are_distinguished_from_a_wait(
    what: str, after: ClockReading, stalled: timedelta, reason: MissedReason | None
) -> None:
    gap = detect_gap(reading(0, 0, 0), after, stalled)

    assert (gap.reason if gap else None) is reason, what
    assert gap is None or (gap.from_at, gap.until) == (NINE, after.wall)


@pytest.mark.parametrize(("wall", "seconds"), [(1, 0), (0, 0), (-3_599, 3_600), (3_601, 0)])
def test_a_clock_that_was_set_back_is_detected(wall: float, seconds: float) -> None:
    assert detect_step_back(reading(0, 0, 0), reading(wall, 1, 1)) == timedelta(seconds=seconds)


def test_the_clocks_of_this_machine_agree_that_nothing_is_lost() -> None:
    before, after = SystemTimer().read_clocks(), SystemTimer().read_clocks()

    assert after.monotonic >= before.monotonic
    assert detect_gap(before, after) is None


def test_only_a_process_that_stood_still_for_longer_than_the_tolerance_has_stalled() -> None:
    readings = iter([0.0, 9.0, 18.0, 48.0, 49.0])
    watch = StallWatch(timedelta(seconds=10), lambda: next(readings))

    stalled_s = [watch.take().total_seconds() for _ in range(4)]

    assert stalled_s == [0, 0, 30, 0]
