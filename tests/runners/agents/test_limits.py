"""Which errors are usage limits, and when they end by their own words."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.account_hold import MAX_HOLD, MIN_HOLD
from herdbeat.domain.agent_run import LimitReached
from herdbeat.runners.agents.limits import (
    add_limit,
    find_limit,
    is_limit_text,
    limit_from_epoch,
    merge_limits,
    parse_reset,
)

NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2026, 8, 3, 12, 0, 30, tzinfo=UTC)
"""A Monday. 8:00:30 in New York, 14:00:30 in Berlin."""


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your session limit · resets 3:45pm",
        "You've hit your weekly limit · resets Mon 12:00am",
        "You've hit your Opus limit · resets 9am (Europe/Berlin)",
        "You've reached your Fable 5 limit. Run /usage-credits to continue",
        "You’ve hit your usage limit. Try again later.",
        "API Error: Request rejected (429) · This request would exceed your rate limit",
        "Credit balance is too low",
        "spend limit reached (daily; resets 2026-08-09 00:00 UTC)",
        "Quota exceeded. Check your plan and billing details.",
        "exceeded retry limit, last status: 429 Too Many Requests",
        'ApiError: {"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}}',
        "Claude AI usage limit reached|1785769200",
        "litellm.RateLimitError: OpenAIException",
        "You have exhausted your daily quota on this model.",
    ],
)
def test_these_are_limits(text: str) -> None:
    assert is_limit_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "API Error: Server is temporarily limiting requests (not your usage limit)",
        "API Error: Repeated 529 Overloaded errors",
        '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        "Selected model is at capacity. Please try a different model.",
        "To use Codex with your ChatGPT plan, upgrade to Plus",
        "Invalid API key · Fix external API key",
        "Reached maximum number of turns (2)",
        "Reached maximum budget ($0.0001)",
        "unexpected status 401 Unauthorized: no key",
        "The file has 429 lines.",
        "",
    ],
)
def test_these_are_ordinary_failures(text: str) -> None:
    assert not is_limit_text(text)
    assert find_limit(text, NOW, NEW_YORK) is None


@pytest.mark.parametrize(
    ("text", "reset_at"),
    [
        ("resets 3:45pm (Europe/Berlin)", "2026-08-03T13:45Z"),
        ("resets 9am (Europe/Berlin)", "2026-08-04T07:00Z"),
        ("resets 3:45pm", "2026-08-03T19:45Z"),
        ("resets 12am", "2026-08-04T04:00Z"),
        ("resets 12pm", "2026-08-03T16:00Z"),
        ("resets Mon 12:00am", "2026-08-10T04:00Z"),
        ("resets Tue 9:30am (Europe/Berlin)", "2026-08-04T07:30Z"),
        ("resets Monday at 9am", "2026-08-03T13:00Z"),
        ("Try again at 3:45 PM.", "2026-08-03T19:45Z"),
        ("or try again at Aug 3rd, 2026 3:45 PM.", "2026-08-03T19:45Z"),
        ("try again at Aug 5th, 2026 3:45 AM.", "2026-08-05T07:45Z"),
        ("resets Aug 9, 5pm (Europe/Berlin)", "2026-08-09T15:00Z"),
        ("resets Aug 9 at 5pm (Europe/Berlin)", "2026-08-09T15:00Z"),
        ("(daily; resets 2026-08-09 00:00 UTC)", "2026-08-09T00:00Z"),
        ("resets 2026-08-09T00:00:00Z", "2026-08-09T00:00Z"),
        ("resets at 2026-08-04 02:00 +02:00", "2026-08-04T00:00Z"),
        ("Your limit will reset at 3pm (America/Santiago).", "2026-08-03T19:00Z"),
        ("Your quota will reset after 8h16m6s.", "2026-08-03T20:16:36Z"),
        ("Try again in 3 days 4 hours 5 minutes.", "2026-08-06T16:05:30Z"),
        ("Please retry in 90.5s.", "2026-08-03T12:02:00.5Z"),
        ('"retryDelay": "120s"', "2026-08-03T12:02:30Z"),
        ("usage limit reached|1785769200", "2026-08-03T15:00Z"),
        ("resets 15:45 (Europe/Berlin)", "2026-08-03T13:45Z"),
        ("resets 3:45pm (Nowhere/Atlantis)", "2026-08-03T19:45Z"),
    ],
)
def test_a_reset_is_read_from_the_words(text: str, reset_at: str) -> None:
    assert parse_reset(text, NOW, NEW_YORK) == datetime.fromisoformat(reset_at)


@pytest.mark.parametrize(
    "text",
    [
        "Try again later.",
        "resets 3 of your counters",
        "resets 25:99pm",
        "resets 13pm",
        "resets Feb 31, 2027 3pm",
        "resets soon",
        "retry in a moment",
        "try again in 5 parsecs",
    ],
)
def test_a_text_without_a_time_states_none(text: str) -> None:
    assert parse_reset(text, NOW, NEW_YORK) is None


def test_the_minute_that_is_not_over_is_the_reset_and_not_tomorrow() -> None:
    assert parse_reset("resets 8:00am", NOW, NEW_YORK) == NOW + MIN_HOLD
    assert parse_reset("resets 7:59am", NOW, NEW_YORK) == datetime(2026, 8, 4, 11, 59, tzinfo=UTC)


def test_a_reset_in_the_past_is_a_minute_away() -> None:
    assert parse_reset("try again at Aug 1st, 2026 3:45 PM", NOW, NEW_YORK) == NOW + MIN_HOLD
    assert limit_from_epoch(1.0, "five_hour", NOW).reset_at == NOW + MIN_HOLD


@pytest.mark.parametrize("text", ["try again at Aug 3rd, 2036 3:45 PM", "try again in 900 days", "resets Dec 24, 5pm"])
def test_no_reset_lies_more_than_eight_days_ahead(text: str) -> None:
    assert parse_reset(text, NOW, NEW_YORK) == NOW + MAX_HOLD


def test_january_in_december_is_next_year() -> None:
    december = datetime(2026, 12, 30, 12, 0, tzinfo=UTC)

    assert parse_reset("resets Jan 2, 5pm", december, UTC) == datetime(2027, 1, 2, 17, 0, tzinfo=UTC)


def test_a_clock_change_is_heeded() -> None:
    """Berlin goes from 3:00 back to 2:00 on 2026-10-25: 9am is at 8:00 UTC then, and was at 7:00 the day before."""
    before = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)

    assert parse_reset("resets 9am (Europe/Berlin)", before, UTC) == datetime(2026, 10, 25, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "reset_at"),
    [
        ("2026-10-25T00:10:00Z", "2026-10-25T00:30Z"),  # 2:10 for the first time
        ("2026-10-25T00:40:00Z", "2026-10-25T01:30Z"),  # 2:40 for the first time: 2:30 comes once more
        ("2026-10-25T01:10:00Z", "2026-10-25T01:30Z"),  # 2:10 for the second time
        ("2026-10-25T01:40:00Z", "2026-10-26T01:30Z"),
        ("2026-03-29T00:30:00Z", "2026-03-29T01:30Z"),  # there is no 2:30: the clock shows 3:30 then
    ],
)
def test_in_the_repeated_hour_the_next_such_time_was_a_minute_or_a_day_away(now: str, reset_at: str) -> None:
    found = parse_reset("resets 2:30am (Europe/Berlin)", datetime.fromisoformat(now), UTC)

    assert found == datetime.fromisoformat(reset_at)


@pytest.mark.parametrize(
    ("seconds", "reset_at"),
    [
        (1785769200, "2026-08-03T15:00Z"),
        (1785769200000, "2026-08-03T15:00Z"),
        (1e300, "2026-08-11T12:00:30Z"),
        (0, None),
        (-5, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_unix_time_is_read_with_care(seconds: float | None, reset_at: str | None) -> None:
    found = limit_from_epoch(seconds, "five_hour", NOW)

    assert found.reset_at == (None if reset_at is None else datetime.fromisoformat(reset_at))
    assert found.stated is (reset_at is not None)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("You've hit your Opus limit · resets 9am", "opus"),
        ("You've reached your Fable 5 limit. Run /usage-credits", "fable 5"),
        ("You've hit your session limit", ""),
        ("You've hit your weekly limit", ""),
        ("You've hit your usage limit.", ""),
        ("You've hit your org's monthly limit", ""),
    ],
)
def test_a_limit_may_be_that_of_one_model(text: str, model: str) -> None:
    found = find_limit(text, NOW, NEW_YORK)

    assert found is not None
    assert found.model == model


def test_two_reports_of_one_limit_are_one_with_the_later_reset() -> None:
    event = limit_from_epoch((NOW + timedelta(hours=3)).timestamp(), "seven_day_opus", NOW)
    words = LimitReached(reset_at=NOW + timedelta(hours=2), text="You've hit your Opus limit")

    merged = merge_limits(event, words)

    assert merged == LimitReached(reset_at=NOW + timedelta(hours=3), model="opus", text="You've hit your Opus limit")
    assert merge_limits(None, words) is words
    assert merge_limits(None, None) is None


def test_a_limit_of_the_account_beside_that_of_a_model_is_of_the_account() -> None:
    account = limit_from_epoch((NOW + timedelta(hours=1)).timestamp(), "five_hour", NOW)
    opus = limit_from_epoch((NOW + timedelta(hours=3)).timestamp(), "seven_day_opus", NOW)

    both = add_limit(add_limit(None, opus), account)

    assert (both.model, both.reset_at) == ("", NOW + timedelta(hours=3))
    assert add_limit(None, opus).model == "opus"


@given(st.text(max_size=200))
def test_any_text_gives_a_reset_within_bounds_or_none(text: str) -> None:
    for words in (text, f"resets {text}", f"try again at {text}", f"try again in {text}", f"You've hit your {text}"):
        reset_at = parse_reset(words, NOW, NEW_YORK)
        assert reset_at is None or NOW + MIN_HOLD <= reset_at <= NOW + MAX_HOLD
        find_limit(words, NOW, NEW_YORK)


@given(
    st.from_regex(
        r"resets ([a-z]{3} )?([a-z]{3} [0-9]{1,2},? )?([0-9]{4} )?[0-9]{1,2}(:[0-9]{2})?[ap]m( \([A-Z]\w+/\w+\))?"
    )
)
def test_any_time_gives_a_reset_within_bounds_or_none(text: str) -> None:
    reset_at = parse_reset(text, NOW, NEW_YORK)

    assert reset_at is None or NOW + MIN_HOLD <= reset_at <= NOW + MAX_HOLD
