from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from herdbeat.errors import IntervalParseError, SchedulerError, TimeParseError
from herdbeat.time_phrases import parse_past_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)  # 14:04 in Berlin


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-03-26T13:04"),
        ("5m", "2026-03-26T12:59"),
        ("-2h", "2026-03-26T11:04"),
        ("1d ago", "2026-03-25T13:04"),
        ("09:00", "2026-03-26T08:00"),
        ("9:00", "2026-03-26T08:00"),
        ("15:00", "2026-03-25T14:00"),
        ("today", "2026-03-25T23:00"),
        ("today 09:00", "2026-03-26T08:00"),
        ("today 15:00", "2026-03-26T14:00"),
        ("Yesterday 09:00", "2026-03-25T08:00"),
        ("2026-03-20", "2026-03-19T23:00"),
        ("2026-03-20 09:00", "2026-03-20T08:00"),
        ("2026-03-20T09:00", "2026-03-20T08:00"),
        ("2026-03-20T09:00:00Z", "2026-03-20T09:00"),
    ],
)
def test_a_past_time_is_parsed_in_every_supported_form(text: str, moment: str) -> None:
    assert parse_past_time(text, NOW, BERLIN) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "2026-02-30", "today at nine", "99999999d", "5", "٣m", "0001-01-01"]
)
def test_an_invalid_time_is_an_error_with_a_message(text: str) -> None:
    with pytest.raises(SchedulerError) as raised:
        parse_past_time(text, NOW, BERLIN)

    assert isinstance(raised.value, TimeParseError | IntervalParseError)
    assert raised.value.hint
