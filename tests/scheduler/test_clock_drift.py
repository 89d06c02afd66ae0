from datetime import UTC, datetime, timedelta

import pytest

from herdbeat.domain.beat import MissedReason
from herdbeat.scheduler.timers import ClockReading, SystemTimer, detect_gap, step_back

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SILENCE = timedelta(seconds=10)


def reading(wall: float, monotonic: float, boottime: float) -> ClockReading:
    return ClockReading(NINE + timedelta(seconds=wall), 100 + monotonic, 500 + boottime)


@pytest.mark.parametrize(
    ("what", "after", "reason"),
    [
        ("a second has passed", reading(1, 1, 1), None),
        ("a slow second", reading(3, 3, 3), None),
        ("a clock being disciplined", reading(1.5, 1, 1), None),
        ("the lid was closed for an hour", reading(3_600, 1, 3_600), MissedReason.SLEPT),
        ("the process was stopped for a minute", reading(60, 60, 60), MissedReason.SLEPT),
        ("the clock was put forward by an hour", reading(3_601, 1, 1), MissedReason.CLOCK_JUMPED),
        ("put forward by ten years", reading(315_360_001, 1, 1), MissedReason.CLOCK_JUMPED),
        ("asleep, and put forward meanwhile", reading(7_200, 1, 3_600), MissedReason.CLOCK_JUMPED),
        ("put back by an hour", reading(-3_599, 1, 1), None),
    ],
)
def test_three_clocks_distinguish_a_suspend_a_jump_and_a_silence(
    what: str, after: ClockReading, reason: MissedReason | None
) -> None:
    gap = detect_gap(reading(0, 0, 0), after, SILENCE)

    assert (gap.reason if gap else None) is reason, what
    assert gap is None or (gap.from_at, gap.until) == (NINE, after.wall)


@pytest.mark.parametrize(("wall", "seconds"), [(1, 0), (0, 0), (-3_599, 3_600), (3_601, 0)])
def test_a_clock_that_was_set_back_is_detected(wall: float, seconds: float) -> None:
    assert step_back(reading(0, 0, 0), reading(wall, 1, 1)) == timedelta(seconds=seconds)


def test_the_clocks_of_this_machine_agree_that_nothing_is_lost() -> None:
    before, after = SystemTimer().pulse(), SystemTimer().pulse()

    assert after.monotonic >= before.monotonic
    assert detect_gap(before, after, SILENCE) is None
