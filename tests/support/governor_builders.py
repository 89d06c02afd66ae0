"""Short builders of governor states, for readable tables."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.durations import parse_duration
from herdbeat.governor import ScheduleState
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)


def at(clock: str, day: int = 2) -> datetime:
    """Return a time in March 2026: at("10:05") or at("10:05:30", day=3)."""
    return datetime.combine(datetime(2026, 3, day, tzinfo=UTC), time.fromisoformat(clock), UTC)


def every(text: str) -> Interval:
    return Interval(every=parse_duration(text))


def cron(expression: str, zone: str = "UTC") -> Cron:
    return Cron.parse(expression, ZoneInfo(zone))


def make_hint(origin: str = "rule:surge", *, lasts: str = "1h", since: datetime = NOW, **wanted: Any) -> Hint:
    """Return a hint: make_hint(every="30s"), make_hint(at=…), make_hint("planner", every="10m", lasts="40m")."""
    if "every" in wanted:
        wanted["every"] = parse_duration(wanted["every"])
    return Hint(origin=origin, expires_at=since + parse_duration(lasts), created_at=since, **wanted)


def limits(at_least: str | None = None, at_most: str | None = None) -> Limits:
    return Limits(
        at_least=parse_duration(at_least) if at_least else None, at_most=parse_duration(at_most) if at_most else None
    )


def hours(text: str, zone: str = "UTC") -> ActiveHours:
    opens, closes = (time.fromisoformat(part) for part in text.split("-"))
    return ActiveHours(opens=opens, closes=closes, zone=ZoneInfo(zone))


def state(trigger: Trigger, *, anchor: datetime = NOW, **changes: Any) -> ScheduleState:
    """Return the state of a schedule that last finished at `anchor`. Fields of timing and of the state are both
    accepted.
    """
    parts = ("first_run", "backoff", "jitter", "limits", "bounds", "active_hours")
    timing = TimingPolicy(trigger=trigger, **{name: changes.pop(name) for name in parts if name in changes})
    return ScheduleState(schedule="api/health", timing=timing, anchor_at=anchor, **changes)


__all__ = [
    "NOW",
    "Backoff",
    "Bounds",
    "FirstRun",
    "Jitter",
    "at",
    "cron",
    "every",
    "hours",
    "limits",
    "make_hint",
    "state",
    "timedelta",
]
