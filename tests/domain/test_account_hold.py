"""How long an account is held, and whom a hold concerns."""

from datetime import UTC, datetime, timedelta

import pytest

from herdbeat.domain.account_hold import AccountHold, AccountUse, hold_until, limits_model
from herdbeat.domain.agent_run import LimitReached

NOW = datetime(2026, 8, 3, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("limited", "model", "is_limited"),
    [
        ("opus", "claude-opus-4-8[1m]", True),
        ("fable 5", "claude-fable-5", True),
        ("opus", "claude-sonnet-5", False),
        ("opus", "", True),
        ("", "claude-sonnet-5", True),
    ],
)
def test_a_limit_of_a_model_concerns_that_model(limited: str, model: str, is_limited: bool) -> None:
    assert limits_model(limited, model) is is_limited


@pytest.mark.parametrize(
    ("earlier_holds", "hold"), [(0, 15), (1, 30), (2, 60), (3, 120), (4, 240), (5, 240), (1_000_000, 240)]
)
def test_without_a_stated_reset_every_hold_is_twice_as_long_up_to_four_hours(earlier_holds: int, hold: int) -> None:
    assert hold_until(LimitReached(), NOW, earlier_holds) == NOW + timedelta(minutes=hold)


def test_a_stated_reset_is_held_to_however_often_it_happened() -> None:
    limit = LimitReached(reset_at=NOW + timedelta(hours=5))

    assert hold_until(limit, NOW, 7) == NOW + timedelta(hours=5)


def test_a_hold_concerns_those_who_use_its_account_with_its_model() -> None:
    hold = AccountHold(account="team", model="opus", began_at=NOW, until=NOW)

    assert hold.concerns(AccountUse("team", "claude-opus-4-8"))
    assert not hold.concerns(AccountUse("team", "claude-sonnet-5"))
    assert not hold.concerns(AccountUse("mine", "claude-opus-4-8"))
