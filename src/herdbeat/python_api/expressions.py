"""The documented functions on cron expressions and intervals."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.clock import Clock, SystemClock
from herdbeat.domain.policies import FirstRun, Jitter
from herdbeat.domain.timing import TimingPolicy
from herdbeat.durations import parse_duration
from herdbeat.errors import CronParseError, IntervalParseError, UsageError
from herdbeat.governor import ScheduleState, decide
from herdbeat.python_api.options import require_aware
from herdbeat.timestamps import parse_zone
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval


def parse_cron_expression(expression: str, timezone: str | ZoneInfo = "UTC") -> Cron:
    """Parse five fields, six with seconds first, or an @name. Raises CronParseError with the field and its valid range.

    The result is a value: parse once, then call its `next_time`, `upcoming`, `count`, `describe`.
    """
    return Cron.parse(expression, timezone if isinstance(timezone, ZoneInfo) else parse_zone(timezone))


def calculate_next_cron_trigger(
    expression: str | Cron,
    after: datetime | None = None,
    timezone: str | ZoneInfo = "UTC",
    *,
    clock: Clock | None = None,
) -> datetime:
    """Return the first instant strictly after `after` (default: now), in UTC."""
    cron = expression if isinstance(expression, Cron) else parse_cron_expression(expression, timezone)
    start = (clock or SystemClock()).now() if after is None else require_aware(after)
    instant = cron.next_time(None, start)
    if instant is None:
        message = f'"{cron.expression}" has no run time after {start.astimezone(UTC).isoformat()}'
        raise CronParseError(message, cron.expression)
    return instant


def is_valid_cron_expression(expression: str) -> bool:
    """Return True if the expression is valid and can ever fire."""
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def parse_interval(interval: str) -> timedelta:
    """Parse "30s", "5m", "1h" or "1d". Raises IntervalParseError, which says what is wrong and how to fix it."""
    if not isinstance(interval, str):
        raise IntervalParseError(f"{interval!r} is not a string.", repr(interval), hint='Write for example "5m".')
    return parse_duration(interval)


def calculate_next_trigger(
    last_completed_at: datetime | None,
    interval: str | timedelta,
    jitter_percent: float = 0,
    *,
    schedule: str = "",
    clock: Clock | None = None,
) -> datetime:
    """Return when an interval is due next: after the last completion; now if it has never run or is overdue.

    Jitter is not random: the same `schedule`, completion and interval always get the same share of up to
    `jitter_percent` of the interval, so that a preview shows what will happen.
    """
    if not 0 <= jitter_percent <= 100:
        raise UsageError(
            f"jitter_percent must be 0 to 100, got {jitter_percent}", hint="For example, 10 adds up to 10%."
        )
    now = (clock or SystemClock()).now()
    every = interval if isinstance(interval, timedelta) else parse_interval(interval)
    jitter = Jitter(share=jitter_percent / 100) if jitter_percent else None
    timing = TimingPolicy(trigger=Interval(every=every), first_run=FirstRun.NOW, jitter=jitter)
    is_new = last_completed_at is None
    anchor = now if last_completed_at is None else require_aware(last_completed_at)
    decision = decide(now, ScheduleState(schedule=schedule, timing=timing, anchor_at=anchor, is_new=is_new))
    assert decision.next_run_at is not None
    return decision.next_run_at


def is_schedule_due(next_run_at: datetime, now: datetime | None = None, *, clock: Clock | None = None) -> bool:
    """Return whether the instant has been reached. `now` defaults to the current time."""
    moment = (clock or SystemClock()).now() if now is None else require_aware(now)
    return require_aware(next_run_at) <= moment
