"""Adjustments of the chosen time: jitter, hard limits, active hours, and the lifetime of a schedule.

Each step takes a draft, returns the next one, and appends what it changed to the trace.
"""

from datetime import datetime, timedelta
from hashlib import blake2b

from herdbeat.domain.decision import Source, StepKind, TraceStep
from herdbeat.durations import format_duration, humanize
from herdbeat.governor.candidates import Candidate, first_capped_failure
from herdbeat.governor.state import ScheduleState

_MICROSECOND = timedelta(microseconds=1)
_JITTERED_SOURCES = frozenset({Source.BASELINE_INTERVAL, Source.BASELINE_CRON, Source.AI_INTERVAL, Source.DELAY})
_UNCLAMPED_SOURCES = frozenset({Source.DELAY})
_MAX_OPENINGS_SEARCHED = 400  # days, more than a year: an expression with no instant in active hours by then has none

DecisionDraft = Candidate
"""The chosen candidate while adjustments are applied to it."""


def apply_jitter(now: datetime, state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
    """Move the draft later by the jitter of its nominal instant. A draft that is overdue is not delayed further."""
    jitter = state.timing.jitter
    if jitter is None or draft.source not in _JITTERED_SOURCES or draft.at <= now:
        return draft
    gap = _time_to_following(state, draft)
    span = jitter.span if jitter.span is not None else (gap or timedelta(0)) * jitter.share
    if jitter.is_automatic:
        span = _automatic_span(state, draft, gap)
    if gap is not None:
        span = min(span, gap - _MICROSECOND)
    offset = span * _jitter_fraction(state.schedule, draft.due)
    ends_at = state.timing.bounds.ends_at
    if ends_at is not None and draft.at <= ends_at:
        offset = min(offset, ends_at - draft.at)  # jitter must not move the last instant past the end
    if offset <= timedelta(0):
        return draft
    moved = draft._replace(at=draft.at + offset)
    name = "spread" if jitter.is_automatic else f"jitter {jitter}"
    trace.append(TraceStep(StepKind.JITTER, f"{name} adds {_format_shift(draft.at, moved.at)}", moved.at))
    return moved


def _automatic_span(state: ScheduleState, draft: DecisionDraft, gap: timedelta | None) -> timedelta:
    """Return how far the automatic spread may move the draft: never so far that a later step would move it again.

    Nobody asked for it, so it changes no source, and the last run before the hours close still runs today.
    """
    timing, jitter = state.timing, state.timing.jitter
    assert jitter is not None
    assert jitter.span is not None
    spans = [jitter.span, (gap or timedelta(0)) * jitter.share]
    at_least, at_most, starts_at = timing.limits.at_least, timing.limits.at_most, timing.bounds.starts_at
    if (at_least is not None and draft.at < state.anchor_at + at_least) or (starts_at and draft.at < starts_at):
        return timedelta(0)
    if at_most is not None:
        spans.append(state.anchor_at + at_most - draft.at)
    hours = timing.active_hours
    if hours is not None:
        spans.append(hours.next_closing(draft.at) - draft.at if hours.contains(draft.at) else timedelta(0))
    return max(timedelta(0), min(spans))


def _format_shift(before: datetime, after: datetime) -> str:
    """Return the distance in whole seconds as clocks show them: rounding said "2m 56s" beside 09:00:00 and 09:02:55."""
    moved = after.replace(microsecond=0) - before.replace(microsecond=0)
    return humanize(moved) if moved else "less than a second"


def _time_to_following(state: ScheduleState, draft: DecisionDraft) -> timedelta | None:
    """Return the distance to the following instant: the interval, or the next instant of the calendar."""
    if not draft.on_calendar:
        return draft.gap
    following = state.timing.trigger.next_time(draft.due, draft.due)
    return None if following is None else following - draft.due


def _jitter_fraction(schedule: str, due: datetime) -> float:
    """Return a number in [0, 1) that is the same for this beat in every process, unlike hash()."""
    digest = blake2b(f"{schedule}|{due.isoformat()}".encode(), digest_size=7).digest()
    return int.from_bytes(digest) / (1 << 56)


def clamp(now: datetime, state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
    """Move the draft so that its distance from the last run is within the limits. A delay is not clamped."""
    limits = state.timing.limits
    if draft.source in _UNCLAMPED_SOURCES:
        return draft
    if limits.at_least is not None and draft.source is not Source.FIRST_RUN:
        earliest = state.anchor_at + limits.at_least
        if draft.at < earliest:
            draft = draft._replace(at=earliest, due=earliest, source=Source.CLAMPED_MIN, on_calendar=False)
            text = f"min_interval {format_duration(limits.at_least)} moves it later"
            trace.append(TraceStep(StepKind.CLAMP, text, earliest, Source.CLAMPED_MIN))
    if limits.at_most is not None:
        latest = max(now, state.anchor_at + limits.at_most)
        if draft.at > latest:
            draft = draft._replace(at=latest, due=min(draft.due, latest), source=Source.CLAMPED_MAX, on_calendar=False)
            text = f"max_interval {format_duration(limits.at_most)} moves it earlier"
            trace.append(TraceStep(StepKind.CLAMP, text, latest, Source.CLAMPED_MAX))
            _note_capped_backoff(state, limits.at_most, trace)
    return draft


def _note_capped_backoff(state: ScheduleState, at_most: timedelta, trace: list[TraceStep]) -> None:
    interval = state.timing.trigger.interval
    if interval is None or state.failures <= 0:
        return
    if failures := first_capped_failure(interval, state.timing.backoff, at_most):
        count = "1 failure" if failures == 1 else f"{failures} failures"
        text = f"max_interval {format_duration(at_most)} limits the backoff at {count} and more"
        trace.append(TraceStep(StepKind.NOTE, text))


def apply_starts_at(state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
    starts_at = state.timing.bounds.starts_at
    if starts_at is None or draft.at >= starts_at:
        return draft
    trace.append(TraceStep(StepKind.BOUND, "starts_at moves it later", starts_at))
    return draft._replace(at=starts_at, due=starts_at)


def apply_active_hours(
    now: datetime, state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]
) -> DecisionDraft | None:
    """Move a draft that is outside the active hours; return None if no instant is inside.

    A calendar instant is replaced by the next one inside; any other time moves to the next opening.
    """
    hours = state.timing.active_hours
    if hours is None or hours.contains(draft.due if draft.on_calendar else draft.at):
        return draft
    if draft.on_calendar:
        due = _next_active_instant(state, draft.due)
        if due is None:
            trace.append(TraceStep(StepKind.HOURS, f"no run time lies in active_hours {hours}"))
            return None
        trace.append(TraceStep(StepKind.HOURS, f"active_hours {hours}: moved to the next time inside", due))
        return apply_jitter(now, state, draft._replace(at=due, due=due), trace)
    opening = hours.next_opening(draft.at)
    trace.append(TraceStep(StepKind.HOURS, f"active_hours {hours} moves it to their start", opening))
    return draft._replace(at=opening, due=draft.due if draft.source is Source.DELAY else opening)


def _next_active_instant(state: ScheduleState, due: datetime) -> datetime | None:
    hours, trigger = state.timing.active_hours, state.timing.trigger
    assert hours is not None
    for _ in range(_MAX_OPENINGS_SEARCHED):
        following = trigger.next_time(due, hours.next_opening(due) - _MICROSECOND)
        if following is None or hours.contains(following):
            return following
        due = following
    return None


def apply_bounds(state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft | None:
    """Return the draft, or None if the schedule has reached its max_runs or the draft is after its end."""
    bounds = state.timing.bounds
    if bounds.max_runs is not None and state.runs >= bounds.max_runs:
        trace.append(TraceStep(StepKind.BOUND, f"max_runs {bounds.max_runs} is reached: expired"))
        return None
    if bounds.ends_at is not None and draft.at > bounds.ends_at:
        trace.append(TraceStep(StepKind.BOUND, "ends_at comes first: expired", bounds.ends_at))
        return None
    return draft
