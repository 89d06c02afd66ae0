"""Hints are untrusted numbers: invalid ones are rejected, excessive ones are clamped, and the notes say so."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.hint import MAX_HINT_TTL
from herdbeat.errors import UsageError
from herdbeat.governor.hints import (
    DEFAULT_HINT_TTL,
    MAX_HINTS_PER_MINUTE,
    MIN_HINT_DURATION,
    HintRequest,
    accept_hint,
    check_rate_limit,
)

NOW = datetime(2026, 3, 2, 14, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def interval_request(every: float | timedelta, lasts: float | timedelta | None = None) -> HintRequest:
    return HintRequest(origin="agent:triage", every=every, lasts=lasts)


def one_shot_request(at: datetime, lasts: timedelta | None = None) -> HintRequest:
    return HintRequest(origin="agent:triage", at=at, lasts=lasts)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, -1, 0, 0.0, -1e300, timedelta(0), -MINUTE])
def test_an_invalid_interval_of_a_hint_is_rejected(nonsense: float | timedelta) -> None:
    with pytest.raises(UsageError, match="The pace of a hint cannot be") as caught:
        accept_hint(NOW, interval_request(nonsense))

    assert "20s" in caught.value.hint


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5, 0])
def test_an_invalid_lifetime_of_a_hint_is_rejected(nonsense: float) -> None:
    with pytest.raises(UsageError, match="The life of a hint cannot be"):
        accept_hint(NOW, interval_request(20, nonsense))


@pytest.mark.parametrize(
    ("asked", "granted", "note"),
    [
        (1e-9, MIN_HINT_DURATION, ("the shortest pace is 1s",)),
        (0.5, MIN_HINT_DURATION, ("the shortest pace is 1s",)),
        (1, MIN_HINT_DURATION, ()),
        (20, timedelta(seconds=20), ()),
        (timedelta(days=30), MAX_HINT_TTL, ()),
        (100 * 365 * 86_400, MAX_HINT_TTL, ("the longest pace is 30d",)),
        (1e300, MAX_HINT_TTL, ("the longest pace is 30d",)),
        (10**400, MAX_HINT_TTL, ("the longest pace is 30d",)),
    ],
)
def test_the_interval_of_a_hint_is_clamped(asked: float, granted: timedelta, note: tuple[str, ...]) -> None:
    answer = accept_hint(NOW, interval_request(asked))

    assert answer.hint.every == granted
    assert answer.notes == note


@pytest.mark.parametrize(
    ("wish", "expires_at"),
    [
        (interval_request(20), NOW + DEFAULT_HINT_TTL),
        (interval_request(20, 600), NOW + 10 * MINUTE),
        (interval_request(20, 1e12), NOW + MAX_HINT_TTL),
        (one_shot_request(NOW + 4 * DEFAULT_HINT_TTL), NOW + 5 * DEFAULT_HINT_TTL),
        (one_shot_request(NOW + MINUTE, 2 * MINUTE), NOW + 2 * MINUTE),
    ],
)
def test_every_hint_expires(wish: HintRequest, expires_at: datetime) -> None:
    assert accept_hint(NOW, wish).hint.expires_at == expires_at


def test_a_one_shot_in_the_past_is_due_now() -> None:
    answer = accept_hint(NOW, one_shot_request(NOW - MINUTE))

    assert answer.hint.at == NOW
    assert answer.notes == ("the time has passed: due now",)


def test_the_instant_of_a_one_shot_is_stored_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))

    hint = accept_hint(NOW, one_shot_request((NOW + MINUTE).astimezone(berlin))).hint

    assert hint.at == NOW + MINUTE
    assert hint.at.tzinfo is UTC


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (one_shot_request(NOW.replace(tzinfo=None)), "has no UTC offset"),
        (one_shot_request(NOW + MAX_HINT_TTL + MINUTE), "more than 30 days away"),
        (one_shot_request(datetime(9999, 12, 31, 23, tzinfo=UTC)), "more than 30 days away"),
        (one_shot_request(NOW + 10 * MINUTE, 5 * MINUTE), "expire before its time"),
        (HintRequest(origin="human:you"), "either an interval or a time"),
        (HintRequest(origin="human:you", every=5, at=NOW), "either an interval or a time"),
        (HintRequest(origin="stranger", every=5), '"stranger" is not a valid hint author'),
        (HintRequest(origin="", every=5), '"" is not a valid hint author'),
    ],
)
def test_an_invalid_hint_is_rejected(wish: HintRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        accept_hint(NOW, wish)

    assert caught.value.hint


def test_a_reason_is_one_short_printable_line() -> None:
    hint = accept_hint(NOW, HintRequest(origin="agent:x", every=5, reason="queue\x1b[31m\nis " + "long " * 1_000)).hint

    assert hint.reason.startswith("queue [31m is long")
    assert hint.reason.isprintable()
    assert len(hint.reason) <= 200


def test_too_many_hints_within_a_minute_are_rejected() -> None:
    check_rate_limit("agent:x", MAX_HINTS_PER_MINUTE - 1)

    with pytest.raises(UsageError, match="30 hints for this schedule within a minute"):
        check_rate_limit("agent:x", MAX_HINTS_PER_MINUTE)


@given(every=st.floats() | st.integers(), lasts=st.none() | st.floats())
def test_any_interval_is_rejected_or_harmless(every: float, lasts: float | None) -> None:
    try:
        hint = accept_hint(NOW, interval_request(every, lasts)).hint
    except UsageError:
        return

    assert hint.every is not None
    assert MIN_HINT_DURATION <= hint.every <= MAX_HINT_TTL
    assert NOW + MIN_HINT_DURATION <= hint.expires_at <= NOW + MAX_HINT_TTL


@given(at=st.datetimes(timezones=st.just(UTC)), lasts=st.none() | st.timedeltas())
def test_any_instant_is_rejected_or_harmless(at: datetime, lasts: timedelta | None) -> None:
    try:
        hint = accept_hint(NOW, one_shot_request(at, lasts)).hint
    except UsageError:
        return

    assert hint.at is not None
    assert NOW <= hint.at < hint.expires_at <= NOW + MAX_HINT_TTL + DEFAULT_HINT_TTL
