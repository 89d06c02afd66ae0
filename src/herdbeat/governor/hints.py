"""From an untrusted wish to a hint: what is nonsense is refused, what is too much is cut, and both are said.

Agents, rules and models write these numbers. None of them may stop the clock, flood the ledger or leave the calendar.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from herdbeat.domain.hint import Hint, Rank
from herdbeat.domain.policies import Limits
from herdbeat.durations import format_duration
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.state import ScheduleState

# Whose word counts: what a person has stopped, no agent, rule or planner starts again.


_HUMAN_PREFIX = "human"


def is_human(origin: str) -> bool:
    """True for `human:you`; false for `agent:triage`, `rule:surge`, `planner` and whoever else there may be."""
    return origin.partition(":")[0] == _HUMAN_PREFIX


def can_override(set_by: str, actor: str) -> bool:
    """Whether a pause or a switch-off may be lifted or replaced. A person may undo anything."""
    return is_human(actor) or not is_human(set_by)


# What a hint will really do, in sentences: limits that cut it, hints that it silences or is silenced by.


def describe_effects(now: datetime, hint: Hint, state: ScheduleState) -> tuple[str, ...]:
    """Of a hint that stands already: `state` has it among its hints."""
    return (
        *_limit_effects(hint, state.timing.limits),
        *_shadowing_effects(now, hint, state),
        *_blocking_effects(now, state),
    )


def format_hint_timing(hint: Hint) -> str:
    """every 20s, or "at one moment"."""
    return "at one moment" if hint.every is None else f"every {format_duration(hint.every)}"


def _limit_effects(hint: Hint, limits: Limits) -> Iterator[str]:
    if hint.every is None:
        return
    requested = format_duration(hint.every)
    if limits.at_least is not None and hint.every < limits.at_least:
        yield f"asked for {requested}, will run every {_format_limit('min', limits.at_least)} (clamped-min)"
    elif limits.at_most is not None and hint.every > limits.at_most:
        yield f"asked for {requested}, will run every {_format_limit('max', limits.at_most)} (clamped-max)"
    elif limits.at_least is not None:
        yield f"min_interval {format_duration(limits.at_least)}: allowed"


def _format_limit(bound: str, limit: timedelta) -> str:
    return f"{format_duration(limit)}: {bound}_interval {format_duration(limit)}"


def _shadowing_effects(now: datetime, hint: Hint, state: ScheduleState) -> Iterator[str]:
    hints = rank_hints(now, state.hints)
    if hint in hints.shadowed and hints.interval is not None:
        shadowing = hints.interval
        yield f"shadowed by {shadowing.origin} ({format_hint_timing(shadowing)}), which ranks higher"
        return
    if hint.every is None:
        return
    for other in hints.shadowed:
        yield f"{other.origin} ({format_hint_timing(other)}) is shadowed until then"


def _blocking_effects(now: datetime, state: ScheduleState) -> Iterator[str]:
    kind = state.timing.trigger.kind
    if kind.waits_for_event:
        yield f"{kind}: only its event fires it, so a hint changes nothing"
    elif not state.enabled:
        yield "it is disabled: the hint counts once it is enabled"
    elif state.pause is not None and state.pause.is_active(now):
        yield "it is paused: the hint counts once it goes on"


MIN_HINT_DURATION = timedelta(seconds=1)
"""The fastest pace. `min_interval` may ask for more."""

DEFAULT_HINT_TTL = timedelta(hours=1)
"""How long a hint counts if nobody says; one for a moment, so long after it."""

MAX_HINT_TTL = timedelta(days=30)
"""No hint counts longer, and no pace is slower: it would never come."""

MAX_ONE_SHOT_HINTS = 20
"""One-shots that one rank may have on one schedule. The earliest are kept."""

MAX_HINTS_PER_MINUTE = 30
"""New hints that one origin may give one schedule. Repeating a wish that stands is not a new one."""

MAX_ENDED_HINTS = 200
"""Rows of ended hints that are kept for each schedule."""

_MAX_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRequest:
    """What somebody would like: a pace or a moment, for how long, and why. Nothing in it is checked yet."""

    origin: str
    every: timedelta | float | None = None
    at: datetime | None = None
    lasts: timedelta | float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedHint:
    """The hint that became of a wish, and what was cut from it."""

    hint: Hint
    notes: tuple[str, ...] = ()


def accept_hint(now: datetime, request: HintRequest) -> AcceptedHint:
    """Read a wish. Raises UsageError with what is wrong and what to write."""
    if (request.every is None) == (request.at is None):
        raise UsageError("A hint has either a pace or a moment.", hint="Give one of them: --every 20s, or --at 18:00.")
    _require_known_origin(request.origin)
    notes: list[str] = []
    lasts = (
        None
        if request.lasts is None
        else _clamp_duration(_parse_duration("The life of a hint", request.lasts), "life", notes)
    )
    every = (
        None
        if request.every is None
        else _clamp_duration(_parse_duration("The pace of a hint", request.every), "pace", notes)
    )
    at = None if request.at is None else _validate_at(now, request.at, notes)
    expires_at = _resolve_expiry(now, at, lasts)
    hint = Hint(
        origin=request.origin,
        every=every,
        at=at,
        reason=truncate_for_message(request.reason, _MAX_REASON_LENGTH) if request.reason else "",
        expires_at=expires_at,
        created_at=now,
    )
    return AcceptedHint(hint=hint, notes=tuple(notes))


def check_rate_limit(origin: str, recent_count: int) -> None:
    """Raises UsageError for who gives more new hints than anybody could mean."""
    if recent_count >= MAX_HINTS_PER_MINUTE:
        raise UsageError(
            f"{truncate_for_message(origin)} has given this schedule {recent_count} hints within a minute.",
            hint=f"Wait a minute: {MAX_HINTS_PER_MINUTE} are taken. The newest one stands.",
        )


def _require_known_origin(origin: str) -> None:
    if origin.partition(":")[0].upper() not in Rank.__members__:
        raise UsageError(
            f'"{truncate_for_message(origin)}" cannot give a hint.',
            hint="An origin is human:…, agent:…, rule:… or planner.",
        )


def _parse_duration(subject: str, value: timedelta | float) -> timedelta:
    """A finite time above zero. What is too long for the calendar is cut here already."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds - seconds != 0 or seconds <= 0:  # what is infinite or no number, less itself, is not zero
        value_text = truncate_for_message(str(seconds))
        raise UsageError(
            f"{subject} cannot be {value_text} seconds.", hint="Write a time above zero, such as 20s or 5m."
        )
    # Cut before it becomes a timedelta, for 1e300 seconds do not fit one; and not to nothing, as 1 ns would be.
    return timedelta(seconds=max(0.001, min(seconds, 2 * MAX_HINT_TTL.total_seconds())))


def _clamp_duration(duration: timedelta, subject: str, notes: list[str]) -> timedelta:
    if duration < MIN_HINT_DURATION:
        notes.append(f"the shortest {subject} is {format_duration(MIN_HINT_DURATION)}")
        return MIN_HINT_DURATION
    if duration > MAX_HINT_TTL:
        notes.append(f"the longest {subject} is {format_duration(MAX_HINT_TTL)}")
        return MAX_HINT_TTL
    return duration


def _validate_at(now: datetime, at: datetime, notes: list[str]) -> datetime:
    if at.tzinfo is None:
        hint = f"Write for example {at.isoformat()}Z."
        raise UsageError("The moment of a hint has no offset: it is another one on every machine.", hint=hint)
    if at - now > MAX_HINT_TTL:
        days = f"{MAX_HINT_TTL.days} days"
        raise UsageError(f"The moment of a hint lies more than {days} away.", hint="Hints are for now: edit the file.")
    if at <= now:
        notes.append("that moment has passed: it is due now")
        return now
    return at.astimezone(UTC)


def _resolve_expiry(now: datetime, at: datetime | None, lasts: timedelta | None) -> datetime:
    if at is None:
        return now + (lasts or DEFAULT_HINT_TTL)
    if lasts is None:
        return at + DEFAULT_HINT_TTL
    if now + lasts <= at:
        raise UsageError(
            "The hint would end before its moment.", hint="Leave --for out (it lasts until an hour after), or longer."
        )
    return now + lasts
