"""The number of instants, and the newest one, without visiting them all."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herdbeat.timestamps import parse_timestamp, parse_zone
from herdbeat.triggers import Cron

EXPRESSIONS = st.sampled_from(
    [
        "*/7 * * * *",
        "30 2 * * *",
        "0,30 0-3 * * *",
        "15 30 1-3 * * *",
        "*/20 0 0-4 * * *",
        "10,50 */30 2 * * *",
        "0 0 L * *",
        "0 1 15W * *",
        "30 1 * * SUN#1,SUNL",
        "*/10 2 * 3,10 SUN",
        "0 0 13 * FRI",
    ]
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo", "America/Nuuk"]
)
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
SPANS = st.timedeltas(timedelta(0), timedelta(days=20))
GAP_NIGHT = parse_timestamp("2026-03-28T22:00:00Z")
SECOND_PASS = parse_timestamp("2026-10-25T01:10:00Z")


@settings(max_examples=400)
@given(EXPRESSIONS, ZONES, MOMENTS, SPANS)
@example("30 2 * * *", "Europe/Berlin", GAP_NIGHT, timedelta(hours=3))
@example("0,30 0-3 * * *", "Europe/Berlin", GAP_NIGHT, timedelta(hours=9))
@example("15 30 1-3 * * *", "Europe/Berlin", GAP_NIGHT, timedelta(hours=3, seconds=14))
@example("15 30 1-3 * * *", "Europe/Berlin", GAP_NIGHT, timedelta(hours=3, seconds=15))
@example("30 2 * * *", "Europe/Berlin", SECOND_PASS, timedelta(hours=9))
@example("0,30 0-3 * * *", "Europe/Berlin", SECOND_PASS - timedelta(hours=4), timedelta(hours=4))
@example("*/7 * * * *", "Europe/Berlin", SECOND_PASS - timedelta(hours=1), timedelta(hours=1, minutes=30))
def test_count_and_latest_agree_with_visiting_every_instant(
    expression: str, zone: str, after: datetime, span: timedelta
) -> None:
    cron = Cron.parse(expression, parse_zone(zone))
    until = after + span
    visited = list(takewhile(lambda instant: instant <= until, cron.upcoming(after)))

    assert cron.count(after, until) == len(visited)
    assert cron.latest(after, until) == (visited[-1] if visited else None)


@given(
    st.sampled_from(["* * * * * *", "5,6 * * * * *", "59 * * * * *"]),
    MOMENTS,
    st.integers(0, 180).map(lambda seconds: timedelta(seconds=seconds)),
)
@example("* * * * * *", GAP_NIGHT, timedelta(seconds=1))
@example("* * * * * *", GAP_NIGHT, timedelta(seconds=61))
def test_seconds_are_counted_one_by_one(expression: str, after: datetime, span: timedelta) -> None:
    cron = Cron.parse(expression, parse_zone("Europe/Berlin"))
    until = after + span
    visited = list(takewhile(lambda instant: instant <= until, cron.upcoming(after)))

    assert cron.count(after, until) == len(visited)
    assert cron.latest(after, until) == (visited[-1] if visited else None)


@given(EXPRESSIONS, ZONES, MOMENTS, SPANS, SPANS)
def test_counts_of_neighbouring_spans_add_up(
    expression: str, zone: str, after: datetime, one: timedelta, other: timedelta
) -> None:
    cron = Cron.parse(expression, parse_zone(zone))
    middle = after + one

    assert cron.count(after, middle) + cron.count(middle, middle + other) == cron.count(after, middle + other)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_ten_years_of_seconds_are_counted_exactly(zone: str) -> None:
    start, end = parse_timestamp("2026-01-01T00:00:00Z"), parse_timestamp("2036-01-01T00:00:00Z")

    assert Cron.parse("* * * * * *", parse_zone(zone)).count(start, end) == (end - start).total_seconds()


def test_an_empty_or_backward_span_has_no_instant() -> None:
    cron = Cron.parse("* * * * *", parse_zone("Europe/Berlin"))
    nine = parse_timestamp("2026-04-01T09:00:00Z")

    assert cron.count(nine, nine) == 0
    assert cron.count(nine, nine - timedelta(days=1)) == 0
    assert cron.latest(nine, nine) is None
    assert cron.latest(nine, nine - timedelta(days=1)) is None


def test_the_span_excludes_its_start_and_includes_its_end() -> None:
    cron = Cron.parse("0 9 * * *", parse_zone("UTC"))
    nine = parse_timestamp("2026-04-01T09:00:00Z")

    assert cron.count(nine, nine + timedelta(days=1)) == 1
    assert cron.latest(nine - timedelta(seconds=1), nine) == nine
    assert cron.latest(nine - timedelta(days=900), nine - timedelta(microseconds=1)) == nine - timedelta(days=1)
