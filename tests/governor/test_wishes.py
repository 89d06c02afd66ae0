"""Hints are untrusted numbers: what is nonsense is refused, what is too much is cut, and both are said."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import UsageError
from herdbeat.governor.wishes import LONGEST_LIFE, MOST_A_MINUTE, SHORTEST, USUAL_LIFE, Wish, grant, refuse_flood

NOW = datetime(2026, 3, 2, 14, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_pace(every: float | timedelta, lasts: float | timedelta | None = None) -> Wish:
    return Wish(origin="agent:triage", every=every, lasts=lasts)


def a_moment(at: datetime, lasts: timedelta | None = None) -> Wish:
    return Wish(origin="agent:triage", at=at, lasts=lasts)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, -1, 0, 0.0, -1e300, timedelta(0), -MINUTE])
def test_a_pace_that_is_no_time_is_refused(nonsense: float | timedelta) -> None:
    with pytest.raises(UsageError, match="The pace of a hint cannot be") as caught:
        grant(NOW, a_pace(nonsense))

    assert "20s" in caught.value.hint


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5, 0])
def test_a_life_that_is_no_time_is_refused(nonsense: float) -> None:
    with pytest.raises(UsageError, match="The life of a hint cannot be"):
        grant(NOW, a_pace(20, nonsense))


@pytest.mark.parametrize(
    ("asked", "granted", "note"),
    [
        (1e-9, SHORTEST, ("the shortest pace is 1s",)),
        (0.5, SHORTEST, ("the shortest pace is 1s",)),
        (1, SHORTEST, ()),
        (20, timedelta(seconds=20), ()),
        (timedelta(days=30), LONGEST_LIFE, ()),
        (100 * 365 * 86_400, LONGEST_LIFE, ("the longest pace is 30d",)),
        (1e300, LONGEST_LIFE, ("the longest pace is 30d",)),
        (10**400, LONGEST_LIFE, ("the longest pace is 30d",)),
    ],
)
def test_a_pace_is_cut_to_what_makes_sense(asked: float, granted: timedelta, note: tuple[str, ...]) -> None:
    answer = grant(NOW, a_pace(asked))

    assert answer.hint.every == granted
    assert answer.notes == note


@pytest.mark.parametrize(
    ("wish", "expires_at"),
    [
        (a_pace(20), NOW + USUAL_LIFE),
        (a_pace(20, 600), NOW + 10 * MINUTE),
        (a_pace(20, 1e12), NOW + LONGEST_LIFE),
        (a_moment(NOW + 4 * USUAL_LIFE), NOW + 5 * USUAL_LIFE),
        (a_moment(NOW + MINUTE, 2 * MINUTE), NOW + 2 * MINUTE),
    ],
)
def test_every_hint_has_an_end(wish: Wish, expires_at: datetime) -> None:
    assert grant(NOW, wish).hint.expires_at == expires_at


def test_a_moment_that_has_passed_is_now() -> None:
    answer = grant(NOW, a_moment(NOW - MINUTE))

    assert answer.hint.at == NOW
    assert answer.notes == ("that moment has passed: it is due now",)


def test_a_moment_is_kept_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))

    hint = grant(NOW, a_moment((NOW + MINUTE).astimezone(berlin))).hint

    assert hint.at == NOW + MINUTE
    assert hint.at.tzinfo is UTC


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (a_moment(NOW.replace(tzinfo=None)), "has no offset"),
        (a_moment(NOW + LONGEST_LIFE + MINUTE), "more than 30 days away"),
        (a_moment(datetime(9999, 12, 31, 23, tzinfo=UTC)), "more than 30 days away"),
        (a_moment(NOW + 10 * MINUTE, 5 * MINUTE), "end before its moment"),
        (Wish(origin="human:you"), "either a pace or a moment"),
        (Wish(origin="human:you", every=5, at=NOW), "either a pace or a moment"),
        (Wish(origin="stranger", every=5), '"stranger" cannot give a hint'),
        (Wish(origin="", every=5), '"" cannot give a hint'),
    ],
)
def test_a_wish_that_cannot_be_meant_is_refused(wish: Wish, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        grant(NOW, wish)

    assert caught.value.hint


def test_a_reason_is_one_short_printable_line() -> None:
    hint = grant(NOW, Wish(origin="agent:x", every=5, reason="queue\x1b[31m\nis " + "long " * 1_000)).hint

    assert hint.reason.startswith("queue [31m is long")
    assert hint.reason.isprintable()
    assert len(hint.reason) <= 200


def test_more_hints_than_anybody_could_mean_are_refused() -> None:
    refuse_flood("agent:x", MOST_A_MINUTE - 1)

    with pytest.raises(UsageError, match="30 hints within a minute"):
        refuse_flood("agent:x", MOST_A_MINUTE)


@given(every=st.floats() | st.integers(), lasts=st.none() | st.floats())
def test_whatever_number_comes_it_is_refused_or_harmless(every: float, lasts: float | None) -> None:
    try:
        hint = grant(NOW, a_pace(every, lasts)).hint
    except UsageError:
        return

    assert hint.every is not None
    assert SHORTEST <= hint.every <= LONGEST_LIFE
    assert NOW + SHORTEST <= hint.expires_at <= NOW + LONGEST_LIFE


@given(at=st.datetimes(timezones=st.just(UTC)), lasts=st.none() | st.timedeltas())
def test_whatever_moment_comes_it_is_refused_or_harmless(at: datetime, lasts: timedelta | None) -> None:
    try:
        hint = grant(NOW, a_moment(at, lasts)).hint
    except UsageError:
        return

    assert hint.at is not None
    assert NOW <= hint.at < hint.expires_at <= NOW + LONGEST_LIFE + USUAL_LIFE
