"""Which expressions are accepted, which are rejected, and with which messages."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdbeat.errors import CronNeverFires, CronParseError
from herdbeat.timestamps import parse_zone
from herdbeat.triggers import Cron
from herdbeat.triggers.cron.parser import MAX_EXPRESSION_LENGTH, NICKNAMES

ZONE = parse_zone("UTC")
START = datetime(2026, 1, 1, tzinfo=UTC)


def first_days(expression: str, count: int = 4) -> list[str]:
    upcoming = Cron.parse(expression, ZONE).upcoming(START)
    return [f"{next(upcoming):%m-%d}" for _ in range(count)]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("0 9 * * MON-FRI", "0 9 * * 1-5"),
        ("0 9 * jan,Jul mon", "0 9 * 1,7 1"),
        ("0 9 * * 7", "0 9 * * 0"),
        ("0 9 * * SAT-SUN", "0 9 * * 0,6"),
        ("0 9 * * TUE-SUN/2", "0 9 * * 2,4,6"),
        ("0 9 * * FRI#L", "0 9 * * 5L"),
        ("0 9 * * FRIL", "0 9 * * 5L"),
        ("0 9 * * 7L", "0 9 * * 0L"),
        ("0 9 * * MON-TUEL", "0 9 * * 1L,2L"),
        ("0 9 ? * SUN-SUN", "0 9 * * 0"),
        ("0 9 * * 7-SUN", "0 9 * * 0"),
        ("0 9 * * MON-WED#2", "0 9 * * 1#2,2#2,3#2"),
        ("0 9 ? * ?", "0 9 * * *"),
        ("0 9 ? * MON", "0 9 * * MON"),
        ("0 9 1 * ?", "0 9 1 * *"),
        ("00 09 01 * *", "0 9 1 * *"),
        ("0 9 1,,15, * *", "0 9 1,15 * *"),
        ("  0\t9 *  * * ", "0 9 * * *"),
        ("0 0 9 * * *", "0 9 * * *"),
        ("0 0 9 * * * *", "0 9 * * *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("*/100 * * * *", "0 * * * *"),
        ("@hourly", "0 * * * *"),
        ("@DAILY", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_two_notations_have_the_same_instants(one: str, same: str) -> None:
    written, plain = (Cron.parse(each, ZONE).upcoming(START) for each in (one, same))

    assert [next(written) for _ in range(30)] == [next(plain) for _ in range(30)]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 LW * *", ["01-30", "02-27", "03-31", "04-30"]),
        ("0 0 15W * *", ["01-15", "02-16", "03-16", "04-15"]),  # two Sundays
        ("0 0 1W * *", ["02-02", "03-02", "04-01", "05-01"]),  # a Saturday or Sunday the 1st stays in its month
        ("0 0 31W * *", ["01-30", "03-31", "05-29", "07-31"]),  # Sunday 31 May goes back, not into June
        ("0 0 1,15W * *", ["01-15", "02-01", "02-16", "03-01"]),
        ("0 0 * * FRI#2", ["01-09", "02-13", "03-13", "04-10"]),
        ("0 0 * * 5L", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 * * MON#1,5L", ["01-05", "01-30", "02-02", "02-27"]),
        ("0 0 13 * FRI", ["01-02", "01-09", "01-13", "01-16"]),  # either
        ("0 0 13 * +FRI", ["02-13", "03-13", "11-13", "08-13"]),  # both, in agentd's dialect
        ("0 0 */15 * FRI", ["01-16", "05-01", "07-31", "10-16"]),  # both: it begins with a star
    ],
)
def test_every_notation_of_days_matches_its_days(expression: str, days: list[str]) -> None:
    assert first_days(expression) == days


@pytest.mark.parametrize(
    ("expression", "problem", "hint"),
    [
        ("0 25 * * *", "hour must be 0-23, got 25", "Use a number in that range."),
        ("0 24 * * *", "hour must be 0-23, got 24", "Midnight is hour 0."),
        ("61 * * * *", "minute must be 0-59, got 61", "Use a number in that range."),
        ("60 0 0 * * *", "second must be 0-59, got 60", "Use a number in that range."),
        ("0 0 0 * *", "day of month must be 1-31, got 0", "Use a number in that range."),
        ("0 0 * 13 *", "month must be 1-12 or JAN-DEC, got 13", "Use a number in that range or a name such as JAN."),
        (
            "0 0 * * 8",
            "day of week must be 0-7 or SUN-SAT, got 8",
            "Use a number in that range or a name such as SUN.",
        ),
        ("0 0 * * FIR", "day of week must be 0-7 or SUN-SAT, got FIR", "Did you mean FRI?"),
        ("0 0 * * monday", "day of week must be 0-7 or SUN-SAT, got MONDAY", "Did you mean MON?"),
        ("0 0 * SEPT *", "month must be 1-12 or JAN-DEC, got SEPT", "Did you mean SEP?"),
        ("0 0 MON * *", "day of month must be 1-31, got MON", "Use a number in that range."),
        ("*/0 * * * *", "minute step must be a whole number from 1, got 0", 'Write for example "*/5".'),
        ("*/ * * * *", "minute step must be a whole number from 1, got nothing", 'Write for example "*/5".'),
        ("0 1-5/x * * *", "hour step must be a whole number from 1, got X", 'Write for example "1-5/5".'),
        ("0 22-2 * * *", "hour range 22-2 is reversed", 'Write it as "22-23,0-2".'),
        ("0 0 * NOV-FEB *", "month range NOV-FEB is reversed", 'Write it as "NOV-DEC,JAN-FEB".'),
        ("0 0 * * FRI-MON", "day of week range FRI-MON is reversed", 'Write it as "FRI-SUN,MON".'),
        ("0 0 * * 5-0", "day of week range 5-0 is reversed", 'Write it as "5-7".'),
        ("0 0 * * 6-2", "day of week range 6-2 is reversed", 'Write it as "6-7,1-2".'),
        ("1-5 25 * * *", "hour must be 0-23, got 25", "Use a number in that range."),
        ("0 0 * * FIR#2", "day of week must be 0-7 or SUN-SAT, got FIR", "Did you mean FRI?"),
        ("0 0 * * FRI-MON#2", "day of week range FRI-MON is reversed", 'Write it as "FRI-SUN,MON".'),
        (
            "0 0 * * 5L/2",
            "day of week cannot have a step there, got 5L/2",
            'A step goes with * or a range: "*/5", "9-17/2".',
        ),
        ("0 0 ?,5 * *", "day of month: ? must stand alone, got ?,5", ""),
        ("0 0 ,, * *", "day of month must be 1-31, got nothing", "Use a number in that range."),
        ("- * * * *", "minute must be 0-59, got nothing", "Use a number in that range."),
        ("L * * * *", "minute must be 0-59, got L", "L is not supported in this field."),
        ("0 0 * * 15W", "day of week must be 0-7 or SUN-SAT, got 15W", "15W is not supported in this field."),
        ("0 0 32W * *", "day of month must be 1-31, got 32W", "32W is not supported in this field."),
        (
            "0 0 * * L",
            "day of week needs a weekday before L",
            "FRIL is the last Friday; for the last day of the month, use L as the day of month.",
        ),
        (
            "0 0 * * FRI#6",
            "day of week: the number after # must be 1-5 or L, got 6",
            "FRI#2 is the second Friday.",
        ),
        (
            "0 0 5#2 * *",
            "day of month cannot have a #, got 5#2",
            "Use FRI#2 in the last field, the day of week.",
        ),
        (
            "* * *",
            "expected 5 or 6 fields, got 3",
            'Write minute, hour, day of month, month and day of week, for example "0 9 * * MON-FRI".',
        ),
        (
            "0 0 9 * * * 2026",
            "expected 5 or 6 fields, got 7",
            "The seventh field is the year; only * is supported.",
        ),
        ("@reboot", "@reboot is not a known name", f"The known names are {', '.join(NICKNAMES)}."),
        (
            "@every 5m",
            "@every is not a known name",
            'For a fixed interval, use a duration: "5m".',
        ),
        ("0 9 * * \N{EN DASH}", "only plain ASCII characters are allowed", "Type it instead of pasting it."),
        (
            "0 9 * * \N{LATIN SMALL LETTER LONG S}un",
            "only plain ASCII characters are allowed",
            "Type it instead of pasting it.",
        ),
    ],
)
def test_an_error_names_field_token_and_range(expression: str, problem: str, hint: str) -> None:
    with pytest.raises(CronParseError) as caught:
        Cron.parse(expression, ZONE)

    assert str(caught.value) == f'Invalid cron expression "{expression}": {problem}.'
    assert caught.value.hint == hint
    assert caught.value.expression == expression


def test_an_error_has_its_field_and_token_as_data() -> None:
    with pytest.raises(CronParseError) as caught:
        Cron.parse("0 9,25 * * *", ZONE)

    assert (caught.value.field, caught.value.token) == ("hour", "25")


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "0 0 30W 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 */31 * MON#2",
        "0 0 30 2 ?",
        "0 0 30,31W 2 *",
    ],
)
def test_a_day_that_no_year_has_is_rejected(expression: str) -> None:
    with pytest.raises(CronNeverFires) as caught:
        Cron.parse(expression, ZONE)

    assert "it never runs, because no year has day of month" in str(caught.value)
    assert caught.value.field == "day of month"


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 0 29 2 *", "2028-02-29"),
        ("0 0 29W 2 *", "2028-02-29"),
        ("0 0 30,15W 2 *", "2026-02-16"),
        ("0 0 L,15W * *", "2026-01-15"),
        ("0 0 * 2 MON#5", "2044-02-29"),
        ("0 0 30 2 MON", "2026-02-02"),  # either field is enough
        ("0 0 L 2 *", "2026-02-28"),
    ],
)
def test_a_rare_day_is_accepted(expression: str, first: str) -> None:
    assert f"{Cron.parse(expression, ZONE).next_time(None, START):%Y-%m-%d}" == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\0 * * * *",
        "* * * * *\0",
        "9" * 5_000,
        "*," * 50_000,
        "0" * MAX_EXPRESSION_LENGTH,
        "1-" * 200,
        "\x1c" * 9,
    ],
)
def test_hostile_text_is_rejected_with_a_short_message(text: str) -> None:
    with pytest.raises(CronParseError) as caught:
        Cron.parse(text, ZONE)

    assert str(caught.value).startswith('Invalid cron expression "')
    assert len(str(caught.value)) < 250
    assert "\0" not in str(caught.value)


FIELD = st.text(alphabet="0123456789*,-/#?+LWMONFRISUDEC", min_size=1, max_size=8)


def is_readable(field: str, at: int) -> bool:
    """True if the field is valid by itself, so that only the calendar can rule it out."""
    fields = ["*"] * 5
    fields[-1 - at] = field
    try:
        return Cron.parse(" ".join(fields), ZONE) is not None
    except CronParseError:
        return False


@settings(max_examples=1_000)
@given(st.one_of(st.text(max_size=80), st.lists(FIELD, min_size=5, max_size=6).map(" ".join)))
def test_any_text_is_parsed_or_rejected_with_a_cron_error(text: str) -> None:
    try:
        cron = Cron.parse(text, ZONE)
    except CronNeverFires:
        assert all(is_readable(field, at) for at, field in enumerate(reversed(text.split()[-5:])))
    except CronParseError as error:
        assert str(error).startswith('Invalid cron expression "')  # noqa: PT017 -- either end is right
    else:
        assert cron.next_time(None, START) is not None
        assert cron.describe()
