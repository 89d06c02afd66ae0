from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.durations import MAX_DURATION, format_duration, humanize, parse_duration
from herdbeat.errors import IntervalParseError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("30s", 30),
        ("5m", 300),
        ("1h", 3_600),
        ("2d", 172_800),
        ("30d", 2_592_000),
        ("5M", 300),
        ("1H", 3_600),
        (" 5m ", 300),
        ("90 m", 5_400),
        ("007s", 7),
        ("36500d", 36_500 * 86_400),
    ],
)
def test_a_whole_number_and_a_unit_is_a_duration(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "The duration is empty.", "whole number and a unit"),
        ("   ", "The duration is empty.", "whole number and a unit"),
        ("5", '"5": the time unit is missing.', '"5s" for seconds'),
        ("5.5m", '"5.5m": decimals are not supported.', '"330s"'),
        ("1.5h", '"1.5h": decimals are not supported.', '"90m"'),
        ("0,5d", '"0,5d": decimals are not supported.', '"12h"'),
        ("0.1s", '"0.1s": decimals are not supported.', '"5m"'),
        (".5m", '".5m": decimals are not supported.', '"30s"'),
        ("0m", '"0m": zero is not allowed.', '"1s"'),
        ("000s", '"000s": zero is not allowed.', '"1s"'),
        ("-5m", '"-5m": negative durations are not allowed.', "whole number"),
        ("+5m", '"+5m" is not a duration.', "whole number"),
        ("5x", '"5x": "x" is not a time unit.', "s, m, h, d"),
        ("5 minutes", '"5 minutes": "minutes" is not a time unit.', "s, m, h, d"),
        ("1h30m", '"1h30m": only one unit is allowed.', '"90m"'),
        ("five", '"five" is not a duration.', "whole number"),
        ("m5", '"m5" is not a duration.', "whole number"),
        ("36501d", '"36501d" is longer than 100 years.', '"36500d"'),
        ("٥m", '"٥m" is not a duration.', "whole number"),
        ("5\x00m", None, None),
    ],
)
def test_an_invalid_duration_is_explained(text: str, message: str | None, hint: str | None) -> None:
    with pytest.raises(IntervalParseError) as caught:
        parse_duration(text)

    assert caught.value.interval == text
    assert message is None or caught.value.message == message
    assert hint is None or hint in caught.value.hint


def test_a_number_of_a_million_digits_is_refused_at_once() -> None:
    with pytest.raises(IntervalParseError, match="longer than 100 years") as caught:
        parse_duration("9" * 1_000_000 + "s")

    assert len(caught.value.message) < 100


@given(st.integers(1, int(MAX_DURATION.total_seconds())))
def test_a_formatted_duration_parses_back(seconds: int) -> None:
    duration = timedelta(seconds=seconds)

    assert parse_duration(format_duration(duration)) == duration


@given(st.text())
def test_any_text_is_a_duration_or_an_interval_parse_error(text: str) -> None:
    try:
        duration = parse_duration(text)
    except IntervalParseError as error:
        is_valid = bool(error.message and error.hint)
    else:
        is_valid = timedelta(0) < duration <= MAX_DURATION

    assert is_valid


@pytest.mark.parametrize(
    ("seconds", "spoken"),
    [
        (0, "0s"),
        (18, "18s"),
        (242, "4m 2s"),
        (300, "5m"),
        (25_920, "7h 12m"),
        (68_160, "18h 56m"),
        (320_400, "3d 17h"),
        (-60, "1m"),
        (3_601, "1h"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: int, spoken: str) -> None:
    assert humanize(timedelta(seconds=seconds)) == spoken


def test_a_duration_that_cannot_be_written_shows_its_exact_seconds() -> None:
    assert format_duration(timedelta(milliseconds=1_500)) == "1.5s"
