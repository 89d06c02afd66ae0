"""Instants of bare expressions."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.trigger import TriggerKind
from herdbeat.errors import CronParseError, IntervalParseError, TimeParseError
from herdbeat.service.queries.expressions import iter_trigger_runs, parse_expression

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("*/15 * * * *", TriggerKind.CRON),
        ("@daily", TriggerKind.CRON),
        ("5m", TriggerKind.INTERVAL),
        ("5 m", TriggerKind.INTERVAL),
        ("2026-12-01T09:00:00Z", TriggerKind.DELAY),
    ],
)
def test_the_kind_of_an_expression_follows_from_its_form(text: str, kind: TriggerKind) -> None:
    trigger = parse_expression(text, BERLIN)

    assert trigger is not None
    assert trigger.kind is kind


@pytest.mark.parametrize("text", ["triage", "triage/standup", "triage/*", "", "hourly", "3rd-agent"])
def test_a_schedule_name_is_not_parsed_as_an_expression(text: str) -> None:
    assert parse_expression(text, BERLIN) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5x", IntervalParseError),
        ("90", IntervalParseError),
        ("@sometimes", CronParseError),
        ("1 2 3", CronParseError),
        ("1h 30m", IntervalParseError),
        ("0 25 * * *", CronParseError),
        ("2026-12-01", TimeParseError),
        ("2026-12-01T09:00:00", TimeParseError),
    ],
)
def test_a_broken_expression_gives_the_error_of_its_kind(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_expression(text, BERLIN)


def test_an_interval_counts_from_the_start() -> None:
    trigger = parse_expression("5m", BERLIN)
    assert trigger is not None

    times = [each.next_run_at - NOW for each in islice(iter_trigger_runs(trigger, NOW), 3)]

    assert times == [timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=15)]


def test_a_moment_comes_once_and_at_once_if_it_has_passed() -> None:
    coming = parse_expression("2026-12-01T09:00:00Z", BERLIN)
    past = parse_expression("2025-12-01T09:00:00Z", BERLIN)
    assert coming is not None
    assert past is not None

    assert [each.next_run_at for each in iter_trigger_runs(coming, NOW)] == [datetime(2026, 12, 1, 9, tzinfo=UTC)]
    assert [(each.next_run_at, each.notes) for each in iter_trigger_runs(past, NOW)] == [
        (NOW, ("this time has passed; a new schedule runs immediately",))
    ]


def test_the_end_of_the_calendar_is_an_end_and_not_an_error() -> None:
    trigger = parse_expression("36500d", BERLIN)
    assert trigger is not None

    assert len(list(iter_trigger_runs(trigger, NOW))) == 79


def test_the_night_of_a_clock_change_has_a_note() -> None:
    trigger = parse_expression("30 2 * * *", BERLIN)
    assert trigger is not None

    notes = [each.notes for each in islice(iter_trigger_runs(trigger, NOW), 4)]

    assert notes[0] == notes[1] == ()
    assert notes[2] == ("02:30 does not exist that night; runs at 03:00",)


@given(
    st.sampled_from(["*/7 * * * *", "0 9 * * 1-5", "30 2 * * *", "0 0 31 * *", "1s", "5m", "3d"]),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_instants_lie_after_the_start_and_rise(text: str, start: datetime, zone: str) -> None:
    trigger = parse_expression(text, ZoneInfo(zone))
    assert trigger is not None

    times = [start, *(each.next_run_at for each in islice(iter_trigger_runs(trigger, start), 5))]

    assert times == sorted(set(times))
