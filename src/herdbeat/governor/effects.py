"""What a hint will really do, in sentences: limits that cut it, hints that it silences or is silenced by."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits
from herdbeat.durations import format_duration
from herdbeat.governor.candidates import rank_hints
from herdbeat.governor.state import ScheduleState


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
