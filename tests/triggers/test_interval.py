"""`interval` triggers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import IntervalParseError
from herdbeat.triggers import FixedRate, Interval, load_trigger

NOW = datetime(2026, 4, 1, 9, tzinfo=UTC)


def test_an_interval_counts_from_the_last_beat() -> None:
    interval = Interval.parse("5m")

    next_time = interval.next_time(NOW, NOW + timedelta(seconds=10))

    assert next_time == NOW + timedelta(minutes=5)
    assert interval.interval == timedelta(minutes=5)


def test_an_interval_that_never_ran_is_due_now() -> None:
    assert Interval.parse("5m").next_time(None, NOW) == NOW


def test_the_next_time_of_an_overdue_interval_is_in_the_past() -> None:
    last = NOW - timedelta(days=3)

    assert Interval.parse("1h").next_time(last, NOW) == last + timedelta(hours=1)


def test_an_invalid_interval_is_rejected_by_parse() -> None:
    with pytest.raises(IntervalParseError, match="unit is missing"):
        Interval.parse("5")


def test_an_interval_beat_carries_its_due_instant() -> None:
    interval = Interval.parse("90s")

    assert interval.dedup_id(NOW, "scout/triage") == "interval:2026-04-01T09:00:00Z"
    assert interval.dedup_id(NOW.replace(microsecond=1), "scout/triage") == "interval:2026-04-01T09:00:00.000001Z"


def test_an_interval_provides_its_fire_time() -> None:
    variables = Interval.parse("60m").variables(NOW, "scout/triage")

    assert variables["fire_time"] == "2026-04-01T09:00:00Z"
    assert variables["source_id"] == "interval:2026-04-01T09:00:00Z"
    assert variables["title"] == "Interval trigger: 1h"


@given(st.integers(1, 36_500 * 86_400))
def test_an_interval_is_built_again_from_its_options(seconds: int) -> None:
    interval = Interval(timedelta(seconds=seconds))

    again = Interval.from_options(interval.options())

    assert again == interval
    assert again.kind is TriggerKind.INTERVAL
    assert again.describe() == f"every {interval.options()['every']}"


@given(st.integers(1, 1_000), st.integers(0, 1_000_000), st.integers(0, 2_000))
def test_the_instants_of_a_fixed_rate_are_counted_exactly(every: int, offset: int, span: int) -> None:
    rate, first = FixedRate(timedelta(seconds=every)), NOW + timedelta(microseconds=offset)
    until = first + timedelta(seconds=span)
    listed = [first + count * rate.every for count in range(1, span // every + 1)]

    assert rate.count(first, until) == len(listed)
    assert rate.latest(first, until) == (listed[-1] if listed else None)
    assert rate.next_time(first, until) == (listed[-1] if listed else first) + rate.every


def test_a_fixed_rate_is_built_again_and_differs_from_an_interval() -> None:
    rate = FixedRate.parse("5m")

    assert load_trigger(rate.kind, rate.options()) == rate != Interval.parse("5m")
    assert load_trigger("interval", {"every": "5m"}) == Interval.parse("5m")
    assert rate.describe() == "every 5m from start to start"
