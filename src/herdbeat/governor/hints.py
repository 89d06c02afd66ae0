"""Accepts hints: invalid requests are rejected, excessive values are clamped, and the result says so.

Agents, rules and models send these requests, so every number is untrusted. None may stall a schedule, flood the ledger
or leave the range of datetime. The module also describes the effects of a hint, and decides who may override whom.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.hint import MAX_HINT_TTL, Hint, Rank
from herdbeat.domain.policies import Limits
from herdbeat.durations import format_duration
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.state import Pause, ScheduleState

MIN_HINT_DURATION = timedelta(seconds=1)
"""The shortest interval of a hint. `min_interval` may require a longer one."""

DEFAULT_HINT_TTL = timedelta(hours=1)
"""The lifetime of a hint that states none. A one-shot lives this long after its instant."""

MAX_ONE_SHOT_HINTS = 20
"""One-shot hints that one rank may have on one schedule. The earliest are kept."""

MAX_HINTS_PER_MINUTE = 30
"""New hints that one origin may give one schedule. Repeating an active hint does not count."""

MAX_ENDED_HINTS = 200
"""Ended hints that are kept per schedule."""

_MAX_REASON_LENGTH = 200


def is_human(origin: str) -> bool:
    """True for `human:you`; false for `agent:triage`, `rule:surge`, `planner` and any other origin."""
    return origin.partition(":")[0] == "human"


def can_override(set_by: str, actor: str) -> bool:
    """True if `actor` may end or replace a pause or a disabling by `set_by`.

    People may override anything; agents, rules and the planner may not override what a person has set.
    """
    return is_human(actor) or not is_human(set_by)


def can_replace_pause(current: Pause, wanted: Pause) -> bool:
    """True if a pause may take the place of one that is in force. That of a machine shortens only its own."""
    if not can_override(current.by, wanted.by):
        return False
    if is_human(wanted.by) or current.by == wanted.by or wanted.until is None:
        return True
    return current.until is not None and wanted.until > current.until


def describe_effects(now: datetime, hint: Hint, state: ScheduleState) -> tuple[str, ...]:
    """Return what a hint changes, in sentences: limits that clamp it, hints that it shadows or that shadow it.

    `state.hints` already contains the hint.
    """
    effects = (*_limit_effects(hint, state.timing.limits), *_shadowing_effects(now, hint, state))
    return (*effects, *_blocking_effects(now, hint, state))


class HintEffect(NamedTuple):
    """The outcome of a hint. `effective` is the interval that the schedule follows: None for a one-shot, or if another
    hint ranks higher, which `shadowed_by` names. `clamped_to` is the limit that moved it."""

    effective: timedelta | None
    clamped_to: timedelta | None
    shadowed_by: str | None


def find_effect(now: datetime, hint: Hint, state: ScheduleState) -> HintEffect:
    """Return the same as values. `state.hints` already contains the hint."""
    hints, limits, every = rank_hints(now, state.hints), state.timing.limits, hint.every
    shadowing = hints.interval if hint in hints.shadowed else None
    pace = every
    if pace is not None:
        pace = max(pace, limits.at_least or pace)
        pace = min(pace, limits.at_most or pace)
    return HintEffect(
        effective=None if shadowing is not None else pace,
        clamped_to=None if pace == every else pace,
        shadowed_by=None if shadowing is None else shadowing.origin,
    )


def format_hint_timing(hint: Hint) -> str:
    """Return "every 20s", or "one-shot" for a one-shot."""
    return "one-shot" if hint.every is None else f"every {format_duration(hint.every)}"


def _limit_effects(hint: Hint, limits: Limits) -> Iterator[str]:
    if hint.every is None:
        return
    if limits.at_least is not None and hint.every < limits.at_least:
        yield _clamp_effect(hint.every, "min", limits.at_least)
    elif limits.at_most is not None and hint.every > limits.at_most:
        yield _clamp_effect(hint.every, "max", limits.at_most)
    elif limits.at_least is not None:
        yield f"min_interval {format_duration(limits.at_least)}: allowed"


def _clamp_effect(every: timedelta, bound: str, limit: timedelta) -> str:
    requested, pace = format_duration(every), format_duration(limit)
    return f"requested {requested}, will run every {pace}: {bound}_interval {pace} (clamped-{bound})"


def _shadowing_effects(now: datetime, hint: Hint, state: ScheduleState) -> Iterator[str]:
    hints = rank_hints(now, state.hints)
    if hint in hints.shadowed and hints.interval is not None:
        shadowing = hints.interval
        yield f"shadowed by {shadowing.origin} ({format_hint_timing(shadowing)}), which ranks higher"
    elif hint.every is not None:
        for other in hints.shadowed:
            yield f"{other.origin} ({format_hint_timing(other)}) is shadowed until this hint expires"


def _blocking_effects(now: datetime, hint: Hint, state: ScheduleState) -> Iterator[str]:
    kind, is_wake = state.timing.trigger.kind, hint.every is None and hint.rank is Rank.AGENT
    if kind.waits_for_event and not is_wake:
        yield f"no effect: a {kind} schedule runs only when its event occurs"
    elif not state.enabled:
        yield "the schedule is disabled; the hint takes effect when it is enabled"
    elif state.pause_at(now) is not None:
        yield "the schedule is paused; the hint takes effect when it is resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRequest:
    """A request for a hint, not yet validated: an interval or an instant, its lifetime, and the reason."""

    origin: str
    every: timedelta | float | None = None
    at: datetime | None = None
    lasts: timedelta | float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedHint:
    """The hint of a request, and notes about what was clamped."""

    hint: Hint
    notes: tuple[str, ...] = ()


def accept_hint(now: datetime, request: HintRequest) -> AcceptedHint:
    """Validate a request and return its hint. Raises UsageError, which says what is wrong and what to write."""
    if (request.every is None) == (request.at is None):
        raise UsageError(
            "A hint needs either an interval or a time.", hint="Give one of them: --every 20s, or --at 18:00."
        )
    if request.origin.partition(":")[0].upper() not in Rank.__members__:
        message = f'"{truncate_for_message(request.origin)}" is not a valid hint author.'
        raise UsageError(message, hint="Use human:…, agent:…, rule:… or planner.")
    notes: list[str] = []
    lasts = _clamp_duration(request.lasts, "life", notes)
    every = _clamp_duration(request.every, "pace", notes)
    at = None if request.at is None else _validate_at(now, request.at, notes)
    reason, expires_at = truncate_for_message(request.reason, _MAX_REASON_LENGTH), _resolve_expiry(now, at, lasts)
    hint = Hint(origin=request.origin, every=every, at=at, reason=reason, expires_at=expires_at, created_at=now)
    return AcceptedHint(hint=hint, notes=tuple(notes))


def check_rate_limit(origin: str, recent_count: int) -> None:
    """Raise UsageError if the origin has given this schedule too many new hints within a minute."""
    if recent_count >= MAX_HINTS_PER_MINUTE:
        message = f"{truncate_for_message(origin)} has sent {recent_count} hints for this schedule within a minute."
        hint = f"Wait a minute: the limit is {MAX_HINTS_PER_MINUTE}. The latest accepted hint stays in effect."
        raise UsageError(message, hint=hint)


def _clamp_duration(value: timedelta | float | None, subject: str, notes: list[str]) -> timedelta | None:
    """Return the value within its limits, and add a note if it was outside. Raises UsageError unless finite and > 0."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    # x - x is not 0 for infinity and NaN. math.isfinite() would raise for an integer too large for a float.
    if seconds - seconds != 0 or seconds <= 0:
        message = f"The {subject} of a hint cannot be {truncate_for_message(str(seconds))} seconds."
        raise UsageError(message, hint="Use a duration greater than zero, such as 20s or 5m.")
    # Compared as seconds, because a timedelta cannot hold 1e300 seconds and makes zero of a nanosecond.
    if seconds < MIN_HINT_DURATION.total_seconds():
        notes.append(f"the shortest {subject} is {format_duration(MIN_HINT_DURATION)}")
        return MIN_HINT_DURATION
    if seconds > MAX_HINT_TTL.total_seconds():
        notes.append(f"the longest {subject} is {format_duration(MAX_HINT_TTL)}")
        return MAX_HINT_TTL
    return timedelta(seconds=seconds)


def _validate_at(now: datetime, at: datetime, notes: list[str]) -> datetime:
    if at.tzinfo is None:
        hint = f"Write for example {at.isoformat()}Z."
        raise UsageError("The time of the hint has no UTC offset.", hint=hint)
    if at - now > MAX_HINT_TTL:
        days = f"{MAX_HINT_TTL.days} days"
        raise UsageError(
            f"The time of the hint is more than {days} away.", hint="Hints are temporary; edit the file instead."
        )
    if at <= now:
        notes.append("the time has passed: due now")
        return now
    return at.astimezone(UTC)


def _resolve_expiry(now: datetime, at: datetime | None, lasts: timedelta | None) -> datetime:
    if at is None:
        return now + (lasts or DEFAULT_HINT_TTL)
    if lasts is None:
        return at + DEFAULT_HINT_TTL
    if now + lasts <= at:
        hint = "Omit --for (the hint then expires an hour after its time), or give a longer duration."
        raise UsageError("The hint would expire before its time.", hint=hint)
    return now + lasts
