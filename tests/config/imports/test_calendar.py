"""OnCalendar= expressions, compared with the instants that `systemd-analyze calendar` 252 prints for them."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.imports.calendar import CannotCarry, parse_calendar, parse_span
from herdbeat.triggers import Cron

BASE = datetime(2026, 3, 1, tzinfo=UTC)
CASES = [
    ("Sat,Thu,Mon..Wed,Sat..Sun", "0 0 * * MON,TUE,WED,THU,SAT,SUN", "2026-03-02 00:00, 2026-03-03 00:00"),
    ("Wed *-1", "0 0 1 * +WED", "2026-04-01 00:00, 2026-07-01 00:00"),
    ("Wed, 17:48", "48 17 * * WED", "2026-03-04 17:48, 2026-03-11 17:48"),
    ("10-15", "0 0 15 10 *", "2026-10-15 00:00, 2027-10-15 00:00"),
    ("Mon,Fri *-*-3,1,2 *:30:45", "45 30 * 1-3 * +MON,FRI", "2026-03-02 00:30, 2026-03-02 01:30"),
    ("12,14,13,12:20,10,30", "10,20,30 12-14 * * *", "2026-03-01 12:10, 2026-03-01 12:20"),
    ("mon,fri *-1/2-1,3 *:30:45", "45 30 * 1,3 1,3,5,7,9,11 +MON,FRI", "2026-05-01 00:30, 2026-05-01 01:30"),
    ("*-*-* 02..04:00/15", "*/15 2-4 * * *", "2026-03-01 02:00, 2026-03-01 02:15"),
    ("*:2/3", "2,5,8,11,14,17,20,23,26,29,32,35,38,41,44,47,50,53,56,59 * * * *", "2026-03-01 00:02, 2026-03-01 00:05"),
    ("Mon..Fri", "0 0 * * MON-FRI", "2026-03-02 00:00, 2026-03-03 00:00"),
    ("Mon-Fri 10:00", "0 10 * * MON-FRI", "2026-03-02 10:00, 2026-03-03 10:00"),
    ("Tuesday 10:00", "0 10 * * TUE", "2026-03-03 10:00, 2026-03-10 10:00"),
    ("Mon *-*-1..7 04:00", "0 4 1-7 * +MON", "2026-03-02 04:00, 2026-04-06 04:00"),
    ("*-*~01", "0 0 L * *", "2026-03-31 00:00, 2026-04-30 00:00"),
    ("Mon *-05~07/1", "0 0 * 5 MON#L", "2026-05-25 00:00, 2027-05-31 00:00"),
    ("*:*:0/10", "*/10 * * * * *", "2026-03-01 00:00, 2026-03-01 00:00"),
    ("hourly", "0 * * * *", "2026-03-01 01:00, 2026-03-01 02:00"),
    ("weekly", "0 0 * * MON", "2026-03-02 00:00, 2026-03-09 00:00"),
    ("quarterly", "0 0 1 1,4,7,10 *", "2026-04-01 00:00, 2026-07-01 00:00"),
    ("semiannually", "0 0 1 1,7 *", "2026-07-01 00:00, 2027-01-01 00:00"),
]


@pytest.mark.parametrize(("text", "cron", "instants"), CASES)
def test_an_expression_is_due_when_systemd_says_so(text: str, cron: str, instants: str) -> None:
    schedule = parse_calendar(text, "UTC")

    trigger = Cron.parse(schedule.cron, ZoneInfo("UTC"))
    assert schedule.to_keys() == {"cron": cron}
    assert ", ".join(f"{each:%Y-%m-%d %H:%M}" for each in islice(trigger.upcoming(BASE), 2)) == instants


def test_zone_year_and_single_instants_are_carried() -> None:
    assert parse_calendar("weekly Pacific/Auckland", "UTC").to_keys() == {
        "cron": "0 0 * * MON",
        "timezone": "Pacific/Auckland",
    }
    assert parse_calendar("2030-06-01 09:00 Europe/Berlin", "UTC").to_keys() == {"at": "2030-06-01T07:00:00Z"}
    assert parse_calendar("2026..2027-*-* 06:00", "UTC").to_keys() == {
        "cron": "0 6 * * *",
        "starts_at": "2026-01-01T00:00:00Z",
        "ends_at": "2027-12-31T23:59:59Z",
    }


@pytest.mark.parametrize(
    "text", ["Fri..Mon", "*-*-* *:*/5", "*-*-* 25:00", "foo", "*-02~03", "05:40:23.42", "2026,2028-*-* 06:00", "@1"]
)
def test_what_has_no_equivalent_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(CannotCarry) as caught:
        parse_calendar(text, "UTC")

    assert caught.value.message
    assert caught.value.hint


@given(st.text(alphabet="0123456789*-:,./~ MonFriUTC"))
def test_any_text_is_carried_or_refused(text: str) -> None:
    try:
        schedule = parse_calendar(text, "UTC")
    except CannotCarry:
        return

    assert schedule.at or len(schedule.cron.split()) in (5, 6)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("15min", timedelta(minutes=15)),
        ("1h 30min", timedelta(minutes=90)),
        ("2", timedelta(seconds=2)),
        ("1.5h", timedelta(minutes=90)),
        ("1w 2d", timedelta(days=9)),
        ("500ms", timedelta(milliseconds=500)),
        ("infinity", None),
    ],
)
def test_a_time_span_is_read(text: str, span: timedelta | None) -> None:
    assert parse_span(text) == span
