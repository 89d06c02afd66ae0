"""From an untrusted wish to a hint: what is nonsense is refused, what is too much is cut, and both are said.

Agents, rules and models write these numbers. None of them may stop the clock, flood the ledger or leave the calendar.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from herdbeat.domain.hint import Hint, Rank
from herdbeat.durations import format_duration
from herdbeat.errors import UsageError, shown

SHORTEST = timedelta(seconds=1)
"""The fastest pace. `min_interval` may ask for more."""

USUAL_LIFE = timedelta(hours=1)
"""How long a hint counts if nobody says; one for a moment, so long after it."""

LONGEST_LIFE = timedelta(days=30)
"""No hint counts longer, and no pace is slower: it would never come."""

MOST_ONE_SHOTS = 20
"""One-shots that one rank may have on one schedule. The earliest are kept."""

MOST_A_MINUTE = 30
"""New hints that one origin may give one schedule. Repeating a wish that stands is not a new one."""

MOST_ENDED = 200
"""Rows of ended hints that are kept for each schedule."""

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody would like: a pace or a moment, for how long, and why. Nothing in it is checked yet."""

    origin: str
    every: timedelta | float | None = None
    at: datetime | None = None
    lasts: timedelta | float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The hint that became of a wish, and what was cut from it."""

    hint: Hint
    notes: tuple[str, ...] = ()


def grant(now: datetime, wish: Wish) -> Granted:
    """Read a wish. Raises UsageError with what is wrong and what to write."""
    if (wish.every is None) == (wish.at is None):
        raise UsageError("A hint has either a pace or a moment.", hint="Give one of them: --every 20s, or --at 18:00.")
    _refuse_stranger(wish.origin)
    notes: list[str] = []
    lasts = None if wish.lasts is None else _cut(_span("The life of a hint", wish.lasts), "life", notes)
    every = None if wish.every is None else _cut(_span("The pace of a hint", wish.every), "pace", notes)
    at = None if wish.at is None else _moment(now, wish.at, notes)
    expires_at = _end(now, at, lasts)
    hint = Hint(
        origin=wish.origin,
        every=every,
        at=at,
        reason=shown(wish.reason, _LONGEST_REASON) if wish.reason else "",
        expires_at=expires_at,
        created_at=now,
    )
    return Granted(hint=hint, notes=tuple(notes))


def refuse_flood(origin: str, in_the_last_minute: int) -> None:
    """Raises UsageError for who gives more new hints than anybody could mean."""
    if in_the_last_minute >= MOST_A_MINUTE:
        raise UsageError(
            f"{shown(origin)} has given this schedule {in_the_last_minute} hints within a minute.",
            hint=f"Wait a minute: {MOST_A_MINUTE} are taken. The newest one stands.",
        )


def _refuse_stranger(origin: str) -> None:
    if origin.partition(":")[0].upper() not in Rank.__members__:
        raise UsageError(
            f'"{shown(origin)}" cannot give a hint.', hint="An origin is human:…, agent:…, rule:… or planner."
        )


def _span(what: str, value: timedelta | float) -> timedelta:
    """A finite time above zero. What is too long for the calendar is cut here already."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds - seconds != 0 or seconds <= 0:  # what is infinite or no number, less itself, is not zero
        said = shown(str(seconds))
        raise UsageError(f"{what} cannot be {said} seconds.", hint="Write a time above zero, such as 20s or 5m.")
    # Cut before it becomes a timedelta, for 1e300 seconds do not fit one; and not to nothing, as 1 ns would be.
    return timedelta(seconds=max(0.001, min(seconds, 2 * LONGEST_LIFE.total_seconds())))


def _cut(span: timedelta, what: str, notes: list[str]) -> timedelta:
    if span < SHORTEST:
        notes.append(f"the shortest {what} is {format_duration(SHORTEST)}")
        return SHORTEST
    if span > LONGEST_LIFE:
        notes.append(f"the longest {what} is {format_duration(LONGEST_LIFE)}")
        return LONGEST_LIFE
    return span


def _moment(now: datetime, at: datetime, notes: list[str]) -> datetime:
    if at.tzinfo is None:
        hint = f"Write for example {at.isoformat()}Z."
        raise UsageError("The moment of a hint has no offset: it is another one on every machine.", hint=hint)
    if at - now > LONGEST_LIFE:
        days = f"{LONGEST_LIFE.days} days"
        raise UsageError(f"The moment of a hint lies more than {days} away.", hint="Hints are for now: edit the file.")
    if at <= now:
        notes.append("that moment has passed: it is due now")
        return now
    return at.astimezone(UTC)


def _end(now: datetime, at: datetime | None, lasts: timedelta | None) -> datetime:
    if at is None:
        return now + (lasts or USUAL_LIFE)
    if lasts is None:
        return at + USUAL_LIFE
    if now + lasts <= at:
        raise UsageError(
            "The hint would end before its moment.", hint="Leave --for out (it lasts until an hour after), or longer."
        )
    return now + lasts
