"""How far a failing interval is stretched: x2, x4 … x32, so that a broken service is left alone but not forgotten."""

from datetime import timedelta

from herdbeat.domain.policies import Backoff
from herdbeat.durations import LONGEST


def multiplier(backoff: Backoff, failures: int) -> int:
    return int(backoff.factor ** min(failures, backoff.max_failures))


def stretched(pace: timedelta, backoff: Backoff, failures: int) -> timedelta:
    """The wait after so many failures in a row. Never longer than a hundred years: now + it must exist."""
    if failures <= 0:
        return pace
    times = multiplier(backoff, failures)
    return LONGEST if times > LONGEST // pace else pace * times


def cut_short_at(pace: timedelta, backoff: Backoff, at_most: timedelta) -> int | None:
    """From how many failures on `max_interval` is shorter than the backoff; None if it never is."""
    for failures in range(backoff.max_failures + 1):
        if stretched(pace, backoff, failures) > at_most:
            return failures
    return None
