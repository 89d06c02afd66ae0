"""`delay` triggers: once, at a given time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import TimeParseError
from herdbeat.triggers import Delay

RUN_AT = datetime(2026, 12, 1, 8, tzinfo=UTC)
LAUNCH = Delay.parse("2026-12-01T09:00:00+01:00")


def test_the_next_time_of_a_delay_is_its_run_at() -> None:
    assert LAUNCH.next_time(None, RUN_AT - timedelta(days=90)) == RUN_AT


def test_the_next_time_of_a_past_delay_is_its_run_at() -> None:
    assert LAUNCH.next_time(None, RUN_AT + timedelta(days=90)) == RUN_AT


def test_a_delay_that_fired_has_no_next_time() -> None:
    assert LAUNCH.next_time(RUN_AT, RUN_AT) is None
    assert LAUNCH.interval is None


def test_a_delay_without_an_offset_is_rejected() -> None:
    with pytest.raises(TimeParseError, match="the offset is missing"):
        Delay.parse("2026-12-01T09:00:00")


def test_each_arming_of_a_delay_has_its_own_dedup_id() -> None:
    again = replace(LAUNCH, arm=2)

    assert LAUNCH.dedup_id(RUN_AT, "launch/default") == "delay:launch/default"
    assert LAUNCH.dedup_id(RUN_AT + timedelta(seconds=7), "launch/default") == "delay:launch/default"
    assert again.dedup_id(RUN_AT, "launch/default") == "delay:launch/default#2"


def test_a_delay_provides_the_documented_variables() -> None:
    variables = LAUNCH.variables(RUN_AT, "launch/default")

    assert variables["run_at"] == "2026-12-01T08:00:00Z"
    assert variables["title"] == "Delay trigger: 2026-12-01T08:00:00Z"
    assert variables["source_id"] == "delay:launch/default"


def test_a_delay_describes_itself_in_utc() -> None:
    assert LAUNCH.describe() == "once, 1 Dec 2026, 08:00 UTC"
    assert Delay(RUN_AT + timedelta(seconds=7)).describe() == "once, 1 Dec 2026, 08:00:07 UTC"


@given(st.datetimes(datetime(1970, 1, 1), datetime(9001, 1, 1), timezones=st.just(UTC)), st.integers(1, 1000))
def test_a_delay_is_built_again_from_its_options(run_at: datetime, arm: int) -> None:
    delay = Delay(run_at, arm)

    assert Delay.from_options(delay.options()) == delay
