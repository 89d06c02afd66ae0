"""Usage limits: which errors are one, and when it ends. `domain/account_hold.py` has how long an account is held.

The functions look at error texts only. An agent whose *answer* quotes such a sentence has not reached a limit.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from herdbeat.domain.account_hold import MAX_HOLD, clamp_reset
from herdbeat.domain.agent_run import LimitReached
from herdbeat.errors import TimezoneError
from herdbeat.timestamps import parse_zone

MAX_TEXT_CHARS = 4_000
"""As much of an error is examined. Limit sentences are short; stack traces and HTML pages are not."""

_NOT_A_LIMIT_PATTERN = re.compile(
    r"not your usage limit|temporarily limiting requests|\b529\b|overloaded|\bat capacity\b", re.IGNORECASE
)
_LIMIT_PATTERN = re.compile(
    r"\b(?:hit|reached|exceeded|exceed) your (?:[\w.'-]+ ){0,4}?(?:limits?|quota)\b"
    r"|\b(?:usage|rate|spend|spending|session|weekly|daily|monthly|hourly|request|token)[ -]limits?"
    r" (?:(?:was|is|has been) )?(?:reached|exceeded|hit)\b"
    r"|\brate[ _-]?limit(?:ed|_error|_exceeded|Error)\b"
    r"|\busage_limit_reached\b|\binsufficient_quota\b|\bRESOURCE_?EXHAUSTED\b"
    r"|\bquota (?:was |has been |is )?(?:exceeded|exhausted|reached)\b"
    r"|\bexhausted your (?:[\w.'-]+ ){0,3}?(?:quota|capacity)\b"
    r"|\bTooManyRequests\b|\btoo many requests\b"
    r"|\b(?:status|rejected|error|code|http)\b[\"']?[:=]?[ (]{0,2}429\b|\b429 Too Many"
    r"|\bcredit balance is too low\b",
    re.IGNORECASE,
)
_LIMIT_SUBJECT_PATTERN = re.compile(
    r"\b(?:hit|reached|exceeded) your (?P<subject>[\w.' -]{1,40}?) limit", re.IGNORECASE
)
_ACCOUNT_WIDE_SUBJECT_PATTERN = re.compile(
    r"\b(?:session|usage|(?:dai|week|month|hour)ly|spend(?:ing)?|rate|requests?|tokens?|messages?|plan|account|api|free|team"
    r"|current|overall|total|org\w*|(?:five|5)-hour|concurrency|credit|extra|seat|subscription)\b",
    re.IGNORECASE,
)
_MODEL_WINDOW_PATTERN = re.compile(r"(?:five_hour|seven_day|daily|hourly)_(?P<model>[a-z][a-z0-9_.-]*)")
_NOT_MODELS = frozenset({"overage", "overage_included"})


def is_limit_text(text: str) -> bool:
    """Return whether an error text reports a usage limit, which waiting ends, rather than an overloaded service."""
    examined = _normalize(text)
    return _LIMIT_PATTERN.search(examined) is not None and _NOT_A_LIMIT_PATTERN.search(examined) is None


def denies_limit(text: str) -> bool:
    """Return whether an error text says that the service, not the account, is at its limit."""
    return _NOT_A_LIMIT_PATTERN.search(_normalize(text)) is not None


def find_limit(text: str, now: datetime, zone: tzinfo) -> LimitReached | None:
    """Return the limit that an error text reports; None if it reports none. `zone` is that of the node."""
    return limit_from_text(text, now, zone) if is_limit_text(text) else None


def limit_from_text(text: str, now: datetime, zone: tzinfo) -> LimitReached:
    """Return the limit of a text that is known to report one, for example by its HTTP status."""
    return LimitReached(
        reset_at=parse_reset(text, now, zone), model=_named_model(text), text=" ".join(_normalize(text)[:500].split())
    )


def limit_from_epoch(seconds: float | None, window: str, now: datetime) -> LimitReached:
    """Return the limit of a rate limit event: its reset as a Unix time, and the name of the window that is used up."""
    found = _MODEL_WINDOW_PATTERN.fullmatch(window)
    model = found["model"] if found and found["model"] not in _NOT_MODELS else ""
    return LimitReached(reset_at=_from_epoch(seconds, now), model=model, text=f"usage limit {window}".strip())


def merge_limits(first: LimitReached | None, second: LimitReached | None) -> LimitReached | None:
    """Return what two reports of one limit say together: the later reset, and the model that either of them names.

    Claude reports a limit by an event with the exact time and by a sentence with the name of the model.
    """
    if first is None or second is None:
        return first or second
    resets = [limit.reset_at for limit in (first, second) if limit.reset_at is not None]
    models = {limit.model for limit in (first, second) if limit.model}
    return LimitReached(
        reset_at=max(resets, default=None),
        model=models.pop() if len(models) == 1 else "",
        text=second.text or first.text,
    )


def add_limit(known: LimitReached | None, new: LimitReached) -> LimitReached:
    """Return two limits of one run as one: the later reset, and a model only if both are of that model."""
    both = merge_limits(known, new)
    assert both is not None
    return replace(both, model=new.model if known is None or known.model == new.model else "")


_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEAD = r"(?:\bresets?|\btry again|\bretry|\bavailable again|\breset)(?: (?:at|on|by))? "
_ZONE = r"(?: ?\(?(?P<zone>UTC|GMT|Z\b|[A-Z][A-Za-z_]+/[A-Za-z0-9_+/-]+|[+-]\d\d:?\d\d)\)?)?"
_ISO_RESET_PATTERN = re.compile(
    _LEAD + r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(?::\d\d(?:\.\d+)?)?" + _ZONE,
    re.IGNORECASE,
)
_SPOKEN_RESET_PATTERN = re.compile(
    _LEAD + r"(?:(?P<weekday>" + "|".join(_WEEKDAYS) + r")[a-z]*,? (?:at )?)?"
    r"(?:(?P<month>" + "|".join(_MONTHS) + r")[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,? (?P<year>\d{4}))?,? ?(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?(?: ?(?P<half>[ap])\.?m\b\.?)?(?!\w)" + _ZONE,
    re.IGNORECASE,
)
_RELATIVE_RESET_PATTERN = re.compile(
    r"(?:\bresets?|\btry again|\bretry|\bavailable again) (?:in|after) (?:about |another )?"
    r"(?P<amounts>\d+(?:\.\d+)? ?[a-z]+(?:,? ?(?:and )?\d+(?:\.\d+)? ?[a-z]+){0,5})",
    re.IGNORECASE,
)
_RETRY_DELAY_PATTERN = re.compile(r"retry_?delay[\"']?: ?[\"']?(?P<amounts>\d+(?:\.\d+)?s)", re.IGNORECASE)
_AMOUNT_PATTERN = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)", re.IGNORECASE)
_EPOCH_RESET_PATTERN = re.compile(r"limit reached\|(?P<epoch>\d{9,13})\b", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hr": 3600, "d": 86400, "day": 86400}
_UNIT_WORDS = {"second": "s", "minute": "m", "hour": "h", "day": "d"}


def parse_reset(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Return when a limit ends by the words of its error, clamped; None if they name no time.

    A time without a date is the next such time in the zone it names, else in `zone`.
    """
    examined = _normalize(text)
    found = _parse_relative(examined, now) or _parse_absolute(examined, now, zone)
    return None if found is None else clamp_reset(found, now)


def _parse_relative(text: str, now: datetime) -> datetime | None:
    if match := _EPOCH_RESET_PATTERN.search(text):
        return _from_epoch(float(match["epoch"]), now)
    match = _RELATIVE_RESET_PATTERN.search(text) or _RETRY_DELAY_PATTERN.search(text)
    if match is None:
        return None
    seconds = _sum_amounts(match["amounts"])
    return None if seconds is None else now + timedelta(seconds=min(seconds, MAX_HOLD.total_seconds()))


def _sum_amounts(text: str) -> float | None:
    """Return the seconds of "8h16m6s" or "3 days 4 hours". Stops at the first word that is no unit."""
    total = None
    for amount, word in _AMOUNT_PATTERN.findall(text):
        unit = _unit_seconds(word.lower())
        if unit is None:
            break
        total = (total or 0.0) + float(amount) * unit
    return total


def _unit_seconds(word: str) -> float | None:
    singular = word.removesuffix("s") if len(word) > 2 else word
    return _UNITS.get(_UNIT_WORDS.get(singular, singular))


def _parse_absolute(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    match = _ISO_RESET_PATTERN.search(text) or _SPOKEN_RESET_PATTERN.search(text)
    if match is None:
        return None
    parts = match.groupdict()
    if not (parts.get("half") or parts["minute"]):
        return None  # "resets 3 of your counters"
    try:
        return _resolve(parts, now.astimezone(_parse_zone(parts["zone"], zone))).astimezone(UTC)
    except (ValueError, OverflowError):  # 25:99, Feb 31, year 0
        return None


def _resolve(parts: dict[str, str | None], local: datetime) -> datetime:
    """Return the moment in the zone of `local`. What is missing of the date is chosen so that the moment comes next."""
    at = local.replace(hour=_hour(parts), minute=int(parts["minute"] or 0), second=0, microsecond=0, fold=0)
    if parts["month"] is not None:
        return _with_date(at, parts, local)
    weekday = parts.get("weekday")
    days = 0 if weekday is None else (_WEEKDAYS.index(weekday.lower()) - at.weekday()) % 7
    days_apart = 1 if weekday is None else 7
    return next(each for each in _occurrences(at + timedelta(days=days), days_apart) if _is_ahead(each, local))


def _occurrences(at: datetime, days_apart: int) -> Iterator[datetime]:
    """Return a time of day, its repetition in the night in which the clock is set back, and that of the next day."""
    for day in (at, at + timedelta(days=days_apart)):
        yield day
        yield day.replace(fold=1)


def _is_ahead(at: datetime, local: datetime) -> bool:
    """True for the current minute too: 3:45pm at 15:45:20 is about to come, and is not that of tomorrow.

    In UTC, because two times of one zone are compared by their digits, which a repeated hour has twice.
    """
    return at.astimezone(UTC) >= local.replace(second=0, microsecond=0).astimezone(UTC)


def _with_date(at: datetime, parts: dict[str, str | None], local: datetime) -> datetime:
    name, day = parts["month"] or "", int(parts["day"] or 1)
    month = int(name) if name.isdigit() else _MONTHS.index(name.lower()) + 1
    if parts["year"] is not None:
        return at.replace(year=int(parts["year"]), month=month, day=day)
    # In the last days of December, "Jan 2" is next year's.
    year = local.year + 1 if local.month - month > 6 else local.year
    return at.replace(year=year, month=month, day=day)


def _hour(parts: dict[str, str | None]) -> int:
    hour, half = int(parts["hour"] or 0), parts.get("half")
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} {half}m")
    return hour % 12 + (12 if half.lower() == "p" else 0)


def _parse_zone(name: str | None, default: tzinfo) -> tzinfo:
    if name is None:
        return default
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if name[0] in "+-":
        return datetime.strptime(name.replace(":", ""), "%z").tzinfo or default
    try:
        return parse_zone(name)
    except TimezoneError:
        return default


def _from_epoch(seconds: float | None, now: datetime) -> datetime | None:
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return None
    if seconds > 1e11:  # milliseconds, as JavaScript counts
        seconds /= 1000
    try:
        return clamp_reset(datetime.fromtimestamp(seconds, UTC), now)
    except (ValueError, OverflowError, OSError):
        return now + MAX_HOLD


def _named_model(text: str) -> str:
    """Return the model whose limit it is, in lower case; empty for a limit of the whole account."""
    match = _LIMIT_SUBJECT_PATTERN.search(_normalize(text))
    if match is None:
        return ""
    subject = match["subject"].lower().strip()
    return "" if _ACCOUNT_WIDE_SUBJECT_PATTERN.search(subject) else subject


def _normalize(text: str) -> str:
    """Return the text with plain apostrophes and single blanks; Codex writes "You’ve"."""
    return " ".join(text[:MAX_TEXT_CHARS].replace("\u2019", "'").split())
