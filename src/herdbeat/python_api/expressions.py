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
    """Read five fields, six with seconds first, or an @name. Raises CronParseError, naming field and range.

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
    """Return the first instant strictly after `after` (now, if left out), in UTC."""
    cron = expression if isinstance(expression, Cron) else parse_cron_expression(expression, timezone)
    start = (clock or SystemClock()).now() if after is None else require_aware(after)
    instant = cron.next_time(None, start)
    if instant is None:
        message = f'"{cron.expression}" has no instant after {start.astimezone(UTC).isoformat()}'
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
    """Read "30s", "5m", "1h" or "1d". Raises IntervalParseError, which says what is wrong and what to write."""
    if not isinstance(interval, str):
        raise IntervalParseError(f"{interval!r} is not a text.", repr(interval), hint='Write for example "5m".')
    return parse_duration(interval)


def calculate_next_trigger(
    last_completed_at: datetime | None,
    interval: str | timedelta,
    jitter_percent: float = 0,
    *,
    schedule: str = "",
    clock: Clock | None = None,
) -> datetime:
    """Return when an interval is due next: after the last completion; now if it never ran or is overdue.

    Jitter is not random: the same `schedule`, completion and interval always get the same share of up to
    `jitter_percent` of the interval, so that a preview shows what will happen.
    """
    if not 0 <= jitter_percent <= 100:
        raise UsageError(f"jitter_percent must be 0 to 100, got {jitter_percent}", hint="10 means up to a tenth.")
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
    """Return True from the instant itself on. Without `now`, the clock is read."""
    moment = (clock or SystemClock()).now() if now is None else require_aware(now)
    return require_aware(next_run_at) <= moment
