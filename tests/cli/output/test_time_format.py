"""Parsing and formatting of times on the command line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from herdbeat.cli.output.time_format import format_clock, format_date, format_time_left, format_utc_clock
from herdbeat.errors import IntervalParseError, TimeParseError
from herdbeat.time_phrases import parse_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-28", datetime(2026, 3, 27, 23, tzinfo=UTC)),
        ("2026-03-30", datetime(2026, 3, 29, 22, tzinfo=UTC)),
        ("2026-03-28T09:00:00Z", datetime(2026, 3, 28, 9, tzinfo=UTC)),
        ("2026-03-28T09:00:00+05:30", datetime(2026, 3, 28, 3, 30, tzinfo=UTC)),
        ("2h", NOW + timedelta(hours=2)),
        ("+2h", NOW + timedelta(hours=2)),
        ("-1d", NOW - timedelta(days=1)),
    ],
)
def test_a_day_a_moment_and_a_distance_can_be_written(text: str, moment: datetime) -> None:
    assert parse_time(text, NOW, BERLIN) == moment


@pytest.mark.parametrize(
    "text", ["2026-02-30", "0000-01-01", "tomorrow", "", "2026-03-28T09:00:00", "0001-01-01", "9999-12-31"]
)
def test_an_invalid_time_is_rejected_with_a_hint(text: str) -> None:
    with pytest.raises(TimeParseError) as caught:
        parse_time(text, NOW, BERLIN)

    assert caught.value.hint


def test_a_duration_beyond_the_calendar_is_rejected() -> None:
    late = datetime(9990, 1, 1, tzinfo=UTC)

    with pytest.raises(TimeParseError):
        parse_time("36500d", late, BERLIN)
    with pytest.raises(TimeParseError):
        parse_time("-36500d", NOW, BERLIN)
    with pytest.raises(IntervalParseError):
        parse_time("5x", NOW, BERLIN)


def test_a_moment_is_shown_on_the_wall_clock_and_in_utc() -> None:
    moment = datetime(2026, 3, 29, 22, 30, 15, tzinfo=UTC)

    assert format_date(moment, BERLIN) == "Mon 30 Mar 2026"
    assert format_clock(moment, BERLIN) == "00:30 CEST"
    assert format_clock(moment, BERLIN, seconds=True) == "00:30:15 CEST"
    assert format_utc_clock(moment, BERLIN) == "Sun 22:30 UTC"
    assert format_utc_clock(moment + timedelta(hours=3), BERLIN) == "01:30 UTC"


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        (timedelta(0), "now"),
        (timedelta(hours=18, minutes=56), "in 18h 56m"),
        (timedelta(days=-3), "3d ago"),
        (timedelta(microseconds=900_000), "now"),
    ],
)
def test_a_relative_time_is_formatted_in_words(delta: timedelta, words: str) -> None:
    assert format_time_left(NOW + delta, NOW) == words


def test_the_distance_agrees_with_the_seconds_that_the_clock_shows() -> None:
    assert format_time_left(NOW + timedelta(seconds=48, microseconds=900_000), NOW) == "in 48s"
