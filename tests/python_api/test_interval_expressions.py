from datetime import UTC, datetime, timedelta, timezone

import pytest

from herdbeat import IntervalParseError, calculate_next_trigger, is_schedule_due, parse_interval
from herdbeat.errors import TimeParseError, UsageError


class Stopped:
    """A clock with a fixed time."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


NOW = datetime(2025, 1, 19, 10, 0, tzinfo=UTC)
CLOCK = Stopped(NOW)


@pytest.mark.parametrize(
    ("interval", "milliseconds"), [("5s", 5_000), ("10m", 600_000), ("1h", 3_600_000), ("2d", 172_800_000)]
)
def test_documented_intervals_are_parsed(interval: str, milliseconds: int) -> None:
    assert parse_interval(interval) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("interval", ["", "5", "5x", "-5m", "5.5m", "0m"])
def test_documented_errors_carry_the_interval(interval: str) -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_interval(interval)

    assert caught.value.interval == interval


@pytest.mark.parametrize("interval", [None, 5, b"5m"])
def test_a_value_that_is_not_text_is_no_interval(interval: object) -> None:
    with pytest.raises(IntervalParseError, match="is not a string"):
        parse_interval(interval)  # type: ignore[arg-type]


def test_a_schedule_that_never_ran_is_due_now() -> None:
    assert calculate_next_trigger(None, "5m", clock=CLOCK) == NOW


def test_the_next_run_counts_from_the_completion() -> None:
    assert calculate_next_trigger(NOW, "5m", clock=CLOCK) == NOW + timedelta(minutes=5)


def test_an_overdue_schedule_is_due_now() -> None:
    assert calculate_next_trigger(NOW - timedelta(hours=2), "5m", clock=CLOCK) == NOW


def test_jitter_stays_in_its_share_and_is_stable() -> None:
    instants = [calculate_next_trigger(NOW, "1h", 5, schedule=f"agent/{number}", clock=CLOCK) for number in range(50)]

    assert all(timedelta(hours=1) <= each - NOW < timedelta(hours=1, minutes=3) for each in instants)
    assert len(set(instants)) > 40
    assert instants[0] == calculate_next_trigger(NOW, "1h", 5, schedule="agent/0", clock=CLOCK)


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_a_jitter_outside_its_range_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match="0 to 100"):
        calculate_next_trigger(NOW, "1h", percent, clock=CLOCK)


@pytest.mark.parametrize(("seconds", "due"), [(-1, True), (0, True), (1, False)])
def test_a_schedule_is_due_from_its_instant_on(seconds: int, due: bool) -> None:
    next_run_at = NOW + timedelta(seconds=seconds)

    assert is_schedule_due(next_run_at, NOW) is due
    assert is_schedule_due(next_run_at, clock=CLOCK) is due


def test_moments_in_other_zones_are_the_same_instant() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))

    assert is_schedule_due(elsewhere, NOW)
    assert calculate_next_trigger(elsewhere, "5m", clock=CLOCK) == NOW + timedelta(minutes=5)


def test_a_naive_datetime_is_rejected_as_ambiguous() -> None:
    with pytest.raises(TimeParseError, match="has no time zone"):
        is_schedule_due(datetime(2025, 1, 19, 10, 0), NOW)
