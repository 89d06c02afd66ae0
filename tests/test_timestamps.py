"""Parsing and formatting of timestamps and zones."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import TimeParseError, TimezoneError
from herdbeat.timestamps import FIRST_YEAR, LAST_YEAR, format_timestamp, parse_timestamp, parse_zone

NINE = datetime(2026, 4, 1, 9, tzinfo=UTC)
ZONE_FORM = 'Write an IANA name such as "Europe/Berlin" or "UTC".'


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-04-01T09:00:00Z", NINE),
        ("2026-04-01t09:00:00z", NINE),
        ("2026-04-01 09:00:00Z", NINE),
        ("  2026-04-01T09:00:00Z ", NINE),
        ("2026-04-01T09:00:00+00:00", NINE),
        ("2026-04-01T09:00:00-00:00", NINE),
        ("2026-04-01T05:00:00-04:00", NINE),
        ("2026-04-01T14:30:00+05:30", NINE),
        ("2026-04-01T09:00:00.5Z", NINE + timedelta(milliseconds=500)),
        ("2026-04-01T09:00:00.123456789Z", NINE + timedelta(microseconds=123456)),
    ],
)
def test_rfc_3339_is_read_as_utc(written: str, meant: datetime) -> None:
    moment = parse_timestamp(written)

    assert moment == meant
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        (
            "2026-04-01T09:00:00",
            '"2026-04-01T09:00:00": the offset is missing.',
            'Write for example "2026-04-01T09:00:00Z" for UTC, or "2026-04-01T09:00:00+02:00".',
        ),
        (
            "2026-04-01",
            '"2026-04-01": the time of day and the offset are missing.',
            'Write for example "2026-04-01T09:00:00Z" for UTC, or "2026-04-01T09:00:00+02:00".',
        ),
        (
            "2026-04-01T08:15Z",
            '"2026-04-01T08:15Z": the seconds are missing.',
            'Write for example "2026-04-01T08:15:00Z".',
        ),
        (
            "tomorrow",
            '"tomorrow" is not a date and time.',
            'Write for example "2026-04-01T09:00:00Z", or "2026-04-01T09:00:00+02:00".',
        ),
    ],
)
def test_an_incomplete_timestamp_names_the_missing_part(written: str, message: str, hint: str) -> None:
    with pytest.raises(TimeParseError) as caught:
        parse_timestamp(written)

    assert str(caught.value) == message
    assert caught.value.hint == hint
    assert caught.value.value == written


@pytest.mark.parametrize(
    "written",
    [
        "",
        "2026-13-01T09:00:00Z",
        "2026-02-30T09:00:00Z",
        "2026-04-01T24:00:00Z",
        "2026-04-01T23:59:60Z",
        "2026-04-01T09:00:00+24:00",
        "2026-04-01T09:00:00+0200",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "٢٠٢٦-04-01T09:00:00Z",
        "2026-04-01T09:00:00Z\0",
        "2" * 10_000,
    ],
)
def test_an_invalid_timestamp_is_refused_with_the_format(written: str) -> None:
    with pytest.raises(TimeParseError) as caught:
        parse_timestamp(written)

    assert caught.value.hint
    assert len(str(caught.value)) < 200


@given(st.text(max_size=60))
def test_any_other_text_is_an_error_and_never_a_traceback(text: str) -> None:
    with pytest.raises(TimeParseError):
        parse_timestamp(text)


@given(
    st.datetimes(timezones=st.timezones(), allow_imaginary=False).filter(
        lambda moment: FIRST_YEAR < moment.year < LAST_YEAR
    )
)
def test_a_formatted_moment_is_read_back(moment: datetime) -> None:
    written = format_timestamp(moment)

    assert written.endswith("Z")
    assert parse_timestamp(written) == moment.astimezone(UTC)


def test_a_moment_shows_microseconds_only_when_it_has_some() -> None:
    eastern = timezone(timedelta(hours=-4))

    assert format_timestamp(datetime(2026, 4, 1, 5, tzinfo=eastern)) == "2026-04-01T09:00:00Z"
    assert format_timestamp(NINE + timedelta(microseconds=20)) == "2026-04-01T09:00:00.000020Z"


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"])
def test_an_iana_name_is_a_zone(name: str) -> None:
    zone = parse_zone(name)

    assert zone == ZoneInfo(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("europe/berlin", 'Did you mean "Europe/Berlin"?'),
        ("Berlin", 'Did you mean "Europe/Berlin"?'),
        ("New York", 'Did you mean "America/New_York"?'),
        ("Amercia/New_York", 'Did you mean "America/New_York"?'),
        ("CEST", ZONE_FORM),
        ("UTC+2", f"A fixed offset is not a time zone, because it has no daylight saving time. {ZONE_FORM}"),
        ("", ZONE_FORM),
    ],
)
def test_an_unknown_zone_gets_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(TimezoneError) as caught:
        parse_zone(name)

    assert str(caught.value) == f'"{name}" is not a time zone.'
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "Europe/../Europe/Berlin",
        "Europe",
        "Europe/",
        "Europe/Berlin\0",
        "tzdata.zi",
        "zone.tab",
        "localtime",
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "posixrules",
        "C:\\Windows",
        "~",
        "x" * 10_000,
        "a/" * 5_000,
        "Zürich",
    ],
)
def test_a_zone_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(TimezoneError) as caught:
        parse_zone(name)

    assert "\0" not in str(caught.value)
    assert len(str(caught.value)) < 100
