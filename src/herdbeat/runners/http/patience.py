"""What `Retry-After` asks for: a fact about an answer, from outside, so never taken at its word. Pure."""

import math
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER = timedelta(days=1)
"""Who asks for more patience than this is noted as having asked for this much."""


def parse_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """How long the endpoint wants to be left alone; None if it does not say, or says nothing that makes sense."""
    if not text:
        return None
    seconds = _parse_seconds(text.strip(), now)
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return None
    return min(timedelta(seconds=math.ceil(min(seconds, MAX_RETRY_AFTER.total_seconds()))), MAX_RETRY_AFTER)


def _parse_seconds(text: str, now: datetime) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return (at - now).total_seconds() if at.tzinfo is not None else None
