"""How far a failing interval is stretched: x2, x4 … x32, so that a broken service is left alone but not forgotten."""

from datetime import timedelta

from herdbeat.domain.policies import Backoff
from herdbeat.durations import MAX_DURATION


def backoff_multiplier(backoff: Backoff, failures: int) -> int:
    return int(backoff.factor ** min(failures, backoff.max_failures))


def backoff_interval(interval: timedelta, backoff: Backoff, failures: int) -> timedelta:
    """The wait after so many failures in a row. Never longer than a hundred years: now + it must exist."""
    if failures <= 0:
        return interval
    factor = backoff_multiplier(backoff, failures)
    return MAX_DURATION if factor > MAX_DURATION // interval else interval * factor


def first_capped_failure(interval: timedelta, backoff: Backoff, at_most: timedelta) -> int | None:
    """From how many failures on `max_interval` is shorter than the backoff; None if it never is."""
    for failures in range(backoff.max_failures + 1):
        if backoff_interval(interval, backoff, failures) > at_most:
            return failures
    return None
