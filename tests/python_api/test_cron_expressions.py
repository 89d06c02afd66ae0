from datetime import UTC, datetime

import pytest

from herdbeat import CronParseError, calculate_next_cron_trigger, is_valid_cron_expression, parse_cron_expression
from herdbeat.errors import TimezoneError


def test_the_next_nine_o_clock_is_today_at_eight_and_tomorrow_at_nine() -> None:
    assert calculate_next_cron_trigger("0 9 * * *", datetime(2025, 1, 15, 8, tzinfo=UTC)) == datetime(
        2025, 1, 15, 9, tzinfo=UTC
    )
    assert calculate_next_cron_trigger("0 9 * * *", datetime(2025, 1, 15, 9, tzinfo=UTC)) == datetime(
        2025, 1, 16, 9, tzinfo=UTC
    )


def test_a_zone_moves_the_instant_and_the_result_is_utc() -> None:
    instant = calculate_next_cron_trigger("0 9 * * *", datetime(2025, 7, 1, tzinfo=UTC), "Europe/Berlin")

    assert instant == datetime(2025, 7, 1, 7, tzinfo=UTC)
    assert instant.utcoffset() == datetime(2025, 7, 1, tzinfo=UTC).utcoffset()


@pytest.mark.parametrize(
    ("expression", "message"),
    [("0 25 * * *", "hour must be 0-23, got 25"), ("* * *", "expected 5 or 6 fields, got 3")],
)
def test_documented_errors_name_field_and_range(expression: str, message: str) -> None:
    with pytest.raises(CronParseError, match=message) as caught:
        parse_cron_expression(expression)

    assert caught.value.expression == expression


@pytest.mark.parametrize(
    ("expression", "valid"),
    [("0 9 * * 1-5", True), ("@hourly", True), ("*/10 * * * * *", True), ("invalid", False), ("0 0 30 2 *", False)],
)
def test_validity_is_returned_without_an_exception(expression: str, valid: bool) -> None:
    assert is_valid_cron_expression(expression) is valid


def test_a_parsed_expression_is_parsed_once_and_reused() -> None:
    standup = parse_cron_expression("0 9 * * 1-5", "Europe/Berlin")

    assert calculate_next_cron_trigger(standup, datetime(2025, 1, 17, 9, tzinfo=UTC)) == datetime(
        2025, 1, 20, 8, tzinfo=UTC
    )


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(TimezoneError, match="Europe/Berlim"):
        parse_cron_expression("0 9 * * *", "Europe/Berlim")
