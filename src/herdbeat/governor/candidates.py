"""The candidates for the next time: the baseline, the highest-ranked interval hint and the earliest one-shot hint."""

from datetime import datetime, timedelta
from typing import NamedTuple

from herdbeat.domain.decision import Source, StepKind, TraceStep
from herdbeat.domain.hint import Hint, Rank
from herdbeat.domain.policies import Backoff, FirstRun
from herdbeat.domain.trigger import IntervalAnchor, TriggerKind
from herdbeat.durations import MAX_DURATION, format_duration, humanize
from herdbeat.governor.state import ScheduleState

_MICROSECOND = timedelta(microseconds=1)


def backoff_multiplier(backoff: Backoff, failures: int) -> int:
    """Return the factor after so many consecutive failures: x2, x4 … x32 by default."""
    return int(backoff.factor ** min(failures, backoff.max_failures))


def backoff_interval(interval: timedelta, backoff: Backoff, failures: int) -> timedelta:
    """Return the interval after so many consecutive failures; at most MAX_DURATION, so that `now` plus it exists."""
    if failures <= 0:
        return interval
    factor = backoff_multiplier(backoff, failures)
    return MAX_DURATION if factor > MAX_DURATION // interval else interval * factor


def first_capped_failure(interval: timedelta, backoff: Backoff, at_most: timedelta) -> int | None:
    """Return from how many failures on `max_interval` is shorter than the backoff; None if it never is."""
    all_failures = range(backoff.max_failures + 1)
    return next((count for count in all_failures if backoff_interval(interval, backoff, count) > at_most), None)


class Candidate(NamedTuple):
    """A time that takes part in a decision. `due` is its nominal instant, `at` the same or now, whichever is later.

    `gap` is the distance to the following instant, if it is known; jitter stays within it. `on_calendar`
    means that the trigger's calendar made it, so that only another calendar instant may replace it.
    """

    at: datetime
    due: datetime
    source: Source
    text: str
    origin: str = ""
    gap: timedelta | None = None
    on_calendar: bool = False


class RankedHints(NamedTuple):
    """The hints of a schedule, by whether they take part in the decision."""

    interval: Hint | None
    one_shot: Hint | None
    effective: tuple[Hint, ...]
    shadowed: tuple[Hint, ...]
    expired: tuple[Hint, ...]


_NO_HINTS = RankedHints(None, None, (), (), ())


def baseline_candidate(now: datetime, state: ScheduleState) -> Candidate | None:
    """Return what the trigger alone would do; None if the clock can no longer fire it, or never could."""
    timing = state.timing
    interval = timing.trigger.interval
    if interval is None:
        return _calendar_candidate(now, state)
    if state.is_new and timing.first_run is FirstRun.NOW:
        return Candidate(now, now, Source.FIRST_RUN, "never run before: due immediately")
    wait = backoff_interval(interval, timing.backoff, state.failures)
    at = state.anchor_at + wait
    if at <= now:
        # What is past of a fixed rate was settled by a claim: it continues with its next instant, as a calendar does.
        following = timing.trigger.next_time(at, now) if timing.trigger.anchor is IntervalAnchor.START else now
        if following is None:
            return None
        at = following
    return Candidate(at, at, timing.trigger.kind.source, _describe_interval(state, wait), gap=wait)


def _calendar_candidate(now: datetime, state: ScheduleState) -> Candidate | None:
    trigger, starts_at = state.timing.trigger, state.timing.bounds.starts_at
    after = now if starts_at is None else max(now, starts_at - _MICROSECOND)
    due = trigger.next_time(None if state.is_new else state.anchor_at, after)
    if due is None:
        return None
    # A delay has one instant, so no other can replace it: outside the active hours it waits, as intervals do.
    kind, text = trigger.kind, f"baseline {trigger.describe()}"
    return Candidate(max(now, due), due, kind.source, text, on_calendar=kind is not TriggerKind.DELAY)


def _describe_interval(state: ScheduleState, wait: timedelta) -> str:
    text = f"baseline {state.timing.trigger.describe()}"
    if state.failures <= 0:
        return text
    factor = backoff_multiplier(state.timing.backoff, state.failures)
    failures = "1 failure" if state.failures == 1 else f"{state.failures} failures"
    return f"{text} x{factor} backoff after {failures} = {format_duration(wait)}"


def rank_hints(now: datetime, hints: tuple[Hint, ...]) -> RankedHints:
    """Sort the hints. One interval hint takes part: the highest-ranked, then the newest. One-shots take part unless
    they rank below it."""
    if not hints:
        return _NO_HINTS
    interval_hints: list[Hint] = []
    one_shots: list[Hint] = []
    expired: list[Hint] = []
    for hint in hints:
        (expired if not hint.is_active(now) else one_shots if hint.every is None else interval_hints).append(hint)
    interval_hints.sort(key=_strongest_first)
    interval = interval_hints[0] if interval_hints else None
    lowest_rank = interval.rank if interval else Rank.PLANNER
    competing = [hint for hint in one_shots if hint.rank <= lowest_rank]
    competing.sort(key=_earliest_first)
    return RankedHints(
        interval,
        competing[0] if competing else None,
        (*interval_hints[:1], *competing),
        (*interval_hints[1:], *(hint for hint in one_shots if hint.rank > lowest_rank)),
        tuple(expired),
    )


def _strongest_first(hint: Hint) -> tuple[int, float]:
    return hint.rank, -hint.created_at.timestamp() if hint.created_at else 0.0


def _earliest_first(hint: Hint) -> tuple[datetime, int]:
    assert hint.at is not None
    return hint.at, hint.rank


def interval_hint_candidate(now: datetime, state: ScheduleState, hint: Hint) -> Candidate:
    assert hint.every is not None
    at = max(now, state.anchor_at + hint.every)
    return Candidate(at, at, Source.AI_INTERVAL, describe_hint_status(now, hint), hint.origin, gap=hint.every)


def one_shot_candidate(now: datetime, hint: Hint) -> Candidate:
    assert hint.at is not None
    at = max(now, hint.at)
    return Candidate(at, at, Source.AI_ONESHOT, describe_hint_status(now, hint), hint.origin)


def wake_candidate(now: datetime, hints: RankedHints) -> Candidate | None:
    """Return when an agent wants to be woken. Its wake is the one hint that fires what else only an event does."""
    wakes = [hint for hint in hints.effective if hint.every is None and hint.rank is Rank.AGENT]
    return one_shot_candidate(now, wakes[0]) if wakes else None


def describe_hint(hint: Hint) -> str:
    """Return what the hint requests and who gave it: the part of its description that does not change with time."""
    request = "one-shot hint" if hint.every is None else f"hint every {format_duration(hint.every)}"
    return f"{request} by {hint.origin}"


def describe_hint_status(now: datetime, hint: Hint) -> str:
    # A decision keeps this text, and the one that drops a hint is made as the hint ends: an age would stay "0s ago".
    expiry_text = f"{humanize(hint.expires_at - now)} left" if hint.is_active(now) else "expired"
    reason = f' "{hint.reason}"' if hint.reason else ""
    return f"{describe_hint(hint)}, {expiry_text}{reason}"


def choose_candidate(base: Candidate, interval: Candidate | None, one_shot: Candidate | None) -> Candidate:
    """Return the winner. An interval hint replaces the baseline; a one-shot wins only if it is strictly earlier."""
    scheduled = interval or base
    return one_shot if one_shot is not None and one_shot.at < scheduled.at else scheduled


def candidate_steps(candidates: tuple[Candidate | None, ...], winner: Candidate | None) -> list[TraceStep]:
    return [
        TraceStep(StepKind.CANDIDATE, entry.text, entry.at, entry.source, entry.origin, entry is winner)
        for entry in candidates
        if entry is not None
    ]


def ignored_steps(now: datetime, state: ScheduleState, hints: RankedHints) -> list[TraceStep]:
    steps = [_ignored_step(now, state, hint, StepKind.SHADOWED) for hint in hints.shadowed]
    return steps + [_ignored_step(now, state, hint, StepKind.EXPIRED) for hint in hints.expired]


def _ignored_step(now: datetime, state: ScheduleState, hint: Hint, kind: StepKind) -> TraceStep:
    at = hint.at if hint.every is None else state.anchor_at + hint.every
    source = Source.AI_ONESHOT if hint.every is None else Source.AI_INTERVAL
    return TraceStep(kind, describe_hint_status(now, hint), at, source, hint.origin)
