"""The estimate of how often a schedule runs."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.policies import Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.governor.forecast import estimate_runs_per_day
from herdbeat.triggers import Cron, Delay, Interval, Manual

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("trigger", "limits", "per_day"),
    [
        (Interval.parse("5m"), Limits(), 288),
        (Interval.parse("5m"), Limits(at_least=timedelta(minutes=10)), 144),
        (Interval.parse("1h"), Limits(at_most=timedelta(minutes=30)), 48),
        (Cron.parse("0 * * * *", UTC_ZONE), Limits(), 24),
        (Cron.parse("0 9 * * MON", UTC_ZONE), Limits(), 1 / 7),
        (Delay.parse("2026-03-27T09:00:00Z"), Limits(), 1 / 7),
        (Delay.parse("2027-03-27T09:00:00Z"), Limits(), 0),
        (Manual(), Limits(), 0),
    ],
    ids=lambda value: str(value)[:40],
)
def test_runs_per_day_are_estimated(trigger: Trigger, limits: Limits, per_day: float) -> None:
    assert estimate_runs_per_day(TimingPolicy(trigger=trigger, limits=limits), NOW) == pytest.approx(per_day)


def test_max_interval_wins_where_the_limits_cross() -> None:
    crossed = Limits(at_least=timedelta(hours=2), at_most=timedelta(hours=1))

    assert crossed.clamp(timedelta(minutes=5)) == timedelta(hours=1)
