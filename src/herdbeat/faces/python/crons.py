"""Cron for Python: `parse_cron_expression`, `calculate_next_cron_trigger`, `is_valid_cron_expression`."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from herdbeat.clock import Clock, SystemClock
from herdbeat.errors import CronParseError
from herdbeat.faces.python.moments import require_aware
from herdbeat.moments import parse_zone
from herdbeat.triggers.cron import Cron


def parse_cron_expression(expression: str, timezone: str | ZoneInfo = "UTC") -> Cron:
    """Read five fields, six with seconds first, or an @name. Raises CronParseError, naming field and range.

    The result is a value: parse once, then ask it `next_time`, `upcoming`, `count`, `describe`.
    """
    return Cron.parse(expression, timezone if isinstance(timezone, ZoneInfo) else parse_zone(timezone))


def calculate_next_cron_trigger(
    expression: str | Cron,
    after: datetime | None = None,
    timezone: str | ZoneInfo = "UTC",
    *,
    clock: Clock | None = None,
) -> datetime:
    """The first instant strictly after `after` (now, if left out), in UTC."""
    cron = expression if isinstance(expression, Cron) else parse_cron_expression(expression, timezone)
    start = (clock or SystemClock()).now() if after is None else require_aware(after)
    found = cron.next_time(None, start)
    if found is None:
        raise CronParseError(
            f'"{cron.expression}" has no instant after {start.astimezone(UTC).isoformat()}', cron.expression
        )
    return found


def is_valid_cron_expression(expression: str) -> bool:
    """True if it can be read and can ever fire."""
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True
