"""Instants on the wall clock of a zone, above all where the clocks change."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.timestamps import format_timestamp, parse_timestamp, parse_zone
from herdbeat.triggers import Cron, load_trigger

BERLIN = "Europe/Berlin"
NOW = parse_timestamp("2026-04-01T09:00:00Z")


def times(expression: str, zone: str, after: str, count: int) -> list[str]:
    """Return the next instants in local time, with their offset."""
    where = parse_zone(zone)
    upcoming = Cron.parse(expression, where).upcoming(parse_timestamp(after))
    return [f"{each.astimezone(where):%m-%dT%H:%M:%S%z}" for each in islice(upcoming, count)]


def test_the_next_time_is_strictly_after_now() -> None:
    cron = Cron.parse("0 9 * * *", parse_zone("UTC"))

    assert cron.next_time(None, NOW) == NOW + timedelta(days=1)
    assert cron.next_time(None, NOW - timedelta(microseconds=1)) == NOW


def test_the_next_time_is_in_whole_seconds_utc() -> None:
    cron = Cron.parse("* * * * * *", parse_zone(BERLIN))

    found = cron.next_time(None, NOW.replace(microsecond=999_999).astimezone(ZoneInfo("Asia/Tokyo")))

    assert found == NOW + timedelta(seconds=1)
    assert found is not None
    assert found.tzinfo is UTC


def test_the_last_beat_does_not_matter_to_the_calendar() -> None:
    cron = Cron.parse("0 9 * * *", parse_zone(BERLIN))

    assert cron.next_time(NOW - timedelta(days=9), NOW) == cron.next_time(None, NOW)
    assert cron.interval is None


def test_a_local_time_keeps_its_hour_when_the_offset_changes() -> None:
    assert times("0 9 * * 1-5", BERLIN, "2026-03-26T12:00:00Z", 3) == [
        "03-27T09:00:00+0100",
        "03-30T09:00:00+0200",
        "03-31T09:00:00+0200",
    ]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # a fixed time in the gap runs once, right after it
        ("30 2 * * *", BERLIN, "2026-03-28T02:00:00Z", ["03-29T03:00:00+0200", "03-30T02:30:00+0200"]),
        ("0 2,3 * * *", BERLIN, "2026-03-28T12:00:00Z", ["03-29T03:00:00+0200", "03-30T02:00:00+0200"]),
        ("0,30 2 * * *", BERLIN, "2026-03-28T12:00:00Z", ["03-29T03:00:00+0200", "03-30T02:00:00+0200"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", ["04-24T01:00:00+0300", "04-25T00:00:00+0300"]),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", ["03-29T01:00:00+0300", "03-30T00:00:00+0300"]),
        ("5 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", ["11-04T01:00:00-0200", "11-05T00:05:00-0200"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", ["10-04T02:30:00+1100", "10-05T02:15:00+1100"]),
        ("30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", ["03-29T03:00:00+0200", "03-30T01:30:00+0200"]),
        ("30 2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", ["03-29T03:00:00+0200", "03-30T02:30:00+0200"]),
        # Samoa had no 30 December 2011 at all
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T20:00:00Z", ["12-31T00:00:00+1400", "12-31T09:00:00+1400"]),
        # a fixed time that comes twice runs the first time
        ("30 2 * * *", BERLIN, "2026-10-24T12:00:00Z", ["10-25T02:30:00+0200", "10-26T02:30:00+0100"]),
        ("0 0-5 * * *", BERLIN, "2026-10-24T23:30:00Z", ["10-25T02:00:00+0200", "10-25T03:00:00+0100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", ["04-05T01:45:00+1100", "04-06T01:45:00+1030"]),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29T12:00:00Z", ["10-29T23:30:00+0300", "10-30T23:30:00+0200"]),
        ("30 0 * * *", "America/Havana", "2026-10-31T12:00:00Z", ["11-01T00:30:00-0400", "11-02T00:30:00-0500"]),
        # searched from inside the second pass, it has run already
        ("30 2 * * *", BERLIN, "2026-10-25T01:10:00Z", ["10-26T02:30:00+0100"]),
        ("30 2 * * *", BERLIN, "2026-10-25T01:30:00Z", ["10-26T02:30:00+0100"]),
        ("30 1 * * *", "Antarctica/Troll", "2026-10-25T02:10:00Z", ["10-26T01:30:00+0000"]),
        # a base offset that changed permanently: Kazakhstan in 2024
        ("30 23 * * *", "Asia/Almaty", "2024-02-29T12:00:00Z", ["02-29T23:30:00+0600", "03-01T23:30:00+0500"]),
    ],
)
def test_a_fixed_time_runs_once_whatever_the_clocks_do(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    assert times(expression, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # nothing in the gap, both passes of the repeated hour
        ("*/30 * * * *", BERLIN, "2026-03-29T00:15:00Z", ["03-29T01:30:00+0100", "03-29T03:00:00+0200"]),
        ("30 * * * *", BERLIN, "2026-03-29T00:15:00Z", ["03-29T01:30:00+0100", "03-29T03:30:00+0200"]),
        (
            "30 * * * *",
            BERLIN,
            "2026-10-24T23:45:00Z",
            ["10-25T02:30:00+0200", "10-25T02:30:00+0100", "10-25T03:30:00+0100"],
        ),
        ("*/30 2 29 3 *", BERLIN, "2026-03-01T00:00:00Z", ["03-29T02:00:00+0200"]),  # of 2027: 2026 has no 02:xx
        (
            "*/30 2 25 10 *",
            BERLIN,
            "2026-10-25T00:15:00Z",
            ["10-25T02:30:00+0200", "10-25T02:00:00+0100", "10-25T02:30:00+0100", "10-25T02:00:00+0200"],
        ),
        ("*/15 0 24 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", ["04-24T00:00:00+0200"]),  # of 2027
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:40:00Z",
            ["04-05T01:45:00+1100", "04-05T01:30:00+1030", "04-05T01:45:00+1030", "04-05T02:00:00+1030"],
        ),
    ],
)
def test_a_frequent_expression_follows_real_time(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert times(expression, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        # one second in the seconds field: the five-field times, plus that second
        ("15 30 2 * * *", "2026-03-28T12:00:00Z", ["03-29T03:00:15+0200", "03-30T02:30:15+0200"]),
        ("15 0,30 2,3 * * *", "2026-03-29T01:00:07Z", ["03-29T03:00:15+0200", "03-29T03:30:15+0200"]),
        ("15 30 2 * * *", "2026-10-24T12:00:00Z", ["10-25T02:30:15+0200", "10-26T02:30:15+0100"]),
        ("15 30 2 * * *", "2026-10-25T01:10:00Z", ["10-26T02:30:15+0100"]),
        # many seconds are fixed times as well: once after the gap, once in the repeated hour
        ("0,30 30 2 * * *", "2026-03-28T12:00:00Z", ["03-29T03:00:00+0200", "03-30T02:30:00+0200"]),
        ("15,45 30 2 * * *", "2026-03-28T12:00:00Z", ["03-29T03:00:15+0200", "03-30T02:30:15+0200"]),
        (
            "0,30 30 2 * * *",
            "2026-10-24T12:00:00Z",
            ["10-25T02:30:00+0200", "10-25T02:30:30+0200", "10-26T02:30:00+0100"],
        ),
        ("* 30 2 * * *", "2026-10-25T00:30:58Z", ["10-25T02:30:59+0200", "10-26T02:30:00+0100"]),
        # frequent ones continue through both passes
        ("30 59 * * * *", "2026-10-25T00:00:00Z", ["10-25T02:59:30+0200", "10-25T02:59:30+0100"]),
    ],
)
def test_six_fields_meet_clock_changes_as_five_do(expression: str, after: str, expected: list[str]) -> None:
    assert times(expression, BERLIN, after, len(expected)) == expected


def test_the_calendar_ends_after_year_9999_without_an_error() -> None:
    yearly = Cron.parse("0 0 1 1 *", parse_zone("Pacific/Kiritimati"))

    assert yearly.next_time(None, datetime(9999, 12, 31, 23, tzinfo=UTC)) is None
    assert list(yearly.upcoming(datetime(9998, 6, 1, tzinfo=UTC))) == [datetime(9998, 12, 31, 10, tzinfo=UTC)]


EXPRESSIONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0,30 0-3 * * *",
        "15 30 1-3 * * *",
        "*/20 0 0-4 * * *",
        "0 0 L * *",
        "0 1 15W * *",
        "30 1 * * SUN#1,SUNL",
        "* 2 * 3,10 SUN",
        "10,50 * * * * *",
    ]
)
ZONES = st.sampled_from(
    [BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo", "America/Nuuk"]
)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


@given(EXPRESSIONS, ZONES, MOMENTS)
def test_instants_are_strictly_increasing_and_in_whole_seconds(expression: str, zone: str, after: datetime) -> None:
    upcoming = list(islice(Cron.parse(expression, parse_zone(zone)).upcoming(after), 20))

    assert all(earlier < later for earlier, later in zip([after, *upcoming], upcoming, strict=False))
    assert not any(each.microsecond for each in upcoming)


@given(EXPRESSIONS, ZONES, MOMENTS, st.floats(0, 1))
def test_a_later_call_never_skips_or_repeats_an_instant(
    expression: str, zone: str, after: datetime, part: float
) -> None:
    cron = Cron.parse(expression, parse_zone(zone))
    found = cron.next_time(None, after)
    assert found is not None

    between = after + (found - after) * part

    assert between == found or cron.next_time(None, min(between, found - timedelta(microseconds=1))) == found


@given(EXPRESSIONS, ZONES)
def test_a_cron_is_built_again_from_its_options(expression: str, zone: str) -> None:
    cron = Cron.parse(expression, parse_zone(zone))

    assert load_trigger(cron.kind, cron.options()) == cron


def test_two_crons_are_equal_by_expression_and_zone() -> None:
    one = Cron.parse("0  9 * * *", parse_zone(BERLIN))

    assert one == Cron.parse("0 9 * * *", parse_zone(BERLIN))
    assert one != Cron.parse("0 9 * * *", parse_zone("UTC"))
    assert len({one, Cron.parse("0 9 * * *", parse_zone(BERLIN))}) == 1


def test_many_threads_can_use_one_cron() -> None:
    cron = Cron.parse("*/5 1-3 * * 1-5", parse_zone(BERLIN))
    starts = [NOW + timedelta(hours=hour) for hour in range(400)]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda start: cron.next_time(None, start), starts))

    assert together == [cron.next_time(None, start) for start in starts]


def test_a_cron_beat_carries_whole_seconds() -> None:
    cron = Cron.parse("0 9 * * MON-FRI", parse_zone(BERLIN))

    assert cron.dedup_id(NOW.replace(microsecond=7), "scout/standup") == "cron:2026-04-01T09:00:00Z"


def test_a_cron_provides_the_documented_variables() -> None:
    variables = Cron.parse("0 9 * * MON-FRI", parse_zone("UTC")).variables(NOW, "scout/standup")

    assert variables["fire_time"] == format_timestamp(NOW)
    assert variables["cron_expression"] == "0 9 * * MON-FRI"
    assert variables["source_id"] == "cron:2026-04-01T09:00:00Z"
    assert variables["title"] == "Cron trigger: 0 9 * * MON-FRI"
