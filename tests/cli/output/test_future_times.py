"""Parsing of future times. It is Thursday 26 March 2026, 14:04 in Berlin; the clocks change on Sunday."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from herdbeat.errors import IntervalParseError, TimeParseError
from herdbeat.time_phrases import parse_future_time

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-03-26T13:04:00+00:00"),
        ("2h", "2026-03-26T15:04:00+00:00"),
        ("in 2h", "2026-03-26T15:04:00+00:00"),
        ("In  2 s", "2026-03-26T13:04:02+00:00"),
        ("18:00", "2026-03-26T17:00:00+00:00"),
        ("9:00", "2026-03-27T08:00:00+00:00"),
        ("14:04", "2026-03-27T13:04:00+00:00"),
        ("14:04:01", "2026-03-26T13:04:01+00:00"),
        ("9:30:15", "2026-03-27T08:30:15+00:00"),
        ("today 18:00", "2026-03-26T17:00:00+00:00"),
        ("Tomorrow 09:00", "2026-03-27T08:00:00+00:00"),
        ("2026-03-30 09:00", "2026-03-30T07:00:00+00:00"),
        ("2026-03-30T09:00", "2026-03-30T07:00:00+00:00"),
        ("2026-03-30", "2026-03-29T22:00:00+00:00"),
        ("2026-03-30T09:00:00Z", "2026-03-30T09:00:00+00:00"),
    ],
)
def test_a_future_time_is_parsed_in_every_supported_form(text: str, moment: str) -> None:
    assert parse_future_time(text, NOW, BERLIN) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "text", ["25:00", "18:60", "2026-02-30 09:00", "soon", "", "99:99:99", "in", "in 18:00", "in two hours", "in -2h"]
)
def test_an_invalid_time_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises((TimeParseError, IntervalParseError)) as caught:
        parse_future_time(text, NOW, BERLIN)

    assert "or" in caught.value.hint


def test_a_time_that_is_not_understood_is_answered_with_the_short_forms_too() -> None:
    with pytest.raises(TimeParseError) as caught:
        parse_future_time("soon", NOW, BERLIN)

    assert "18:00" in caught.value.hint
