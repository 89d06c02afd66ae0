"""What a hint will really do, in sentences: limits that cut it, hints that it silences or is silenced by."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits
from herdbeat.durations import format_duration
from herdbeat.governor.candidates import sort_hints
from herdbeat.governor.state import ScheduleState


def effects_of(now: datetime, hint: Hint, state: ScheduleState) -> tuple[str, ...]:
    """Of a hint that stands already: `state` has it among its hints."""
    return (*_limits(hint, state.timing.limits), *_company(now, hint, state), *_obstacles(now, state))


def wish_text(hint: Hint) -> str:
    """every 20s, or "at one moment"."""
    return "at one moment" if hint.every is None else f"every {format_duration(hint.every)}"


def _limits(hint: Hint, limits: Limits) -> Iterator[str]:
    if hint.every is None:
        return
    asked = format_duration(hint.every)
    if limits.at_least is not None and hint.every < limits.at_least:
        yield f"asked for {asked}, will run every {_limit('min', limits.at_least)} (clamped-min)"
    elif limits.at_most is not None and hint.every > limits.at_most:
        yield f"asked for {asked}, will run every {_limit('max', limits.at_most)} (clamped-max)"
    elif limits.at_least is not None:
        yield f"min_interval {format_duration(limits.at_least)}: allowed"


def _limit(which: str, limit: timedelta) -> str:
    return f"{format_duration(limit)}: {which}_interval {format_duration(limit)}"


def _company(now: datetime, hint: Hint, state: ScheduleState) -> Iterator[str]:
    hints = sort_hints(now, state.hints)
    if hint in hints.shadowed and hints.interval is not None:
        stronger = hints.interval
        yield f"shadowed by {stronger.origin} ({wish_text(stronger)}), which ranks higher"
        return
    if hint.every is None:
        return
    for other in hints.shadowed:
        yield f"{other.origin} ({wish_text(other)}) is shadowed until then"


def _obstacles(now: datetime, state: ScheduleState) -> Iterator[str]:
    kind = state.timing.trigger.kind
    if kind.waits_for_event:
        yield f"{kind}: only its event fires it, so a hint changes nothing"
    elif not state.enabled:
        yield "it is disabled: the hint counts once it is enabled"
    elif state.pause is not None and state.pause.holds(now):
        yield "it is paused: the hint counts once it goes on"
