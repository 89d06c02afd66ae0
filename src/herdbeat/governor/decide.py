"""`decide`: when a schedule runs next, and why.

The chosen candidate is adjusted step by step: jitter, hard limits, active hours, lifetime. Each step takes a draft,
returns the next one, and appends what it changed to the trace.
"""

from datetime import datetime, timedelta

from herdbeat.domain.decision import Decision, Source, StepKind, TraceStep
from herdbeat.domain.planned_pause import find_next_start, find_window
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration, humanize
from herdbeat.governor import candidates
from herdbeat.governor.candidates import Candidate, RankedHints, first_capped_failure
from herdbeat.governor.state import Pause, ScheduleState

_MICROSECOND = timedelta(microseconds=1)
_JITTERED_SOURCES = frozenset({Source.BASELINE_INTERVAL, Source.BASELINE_CRON, Source.AI_INTERVAL, Source.DELAY})
_UNCLAMPED_SOURCES = frozenset({Source.DELAY})
_MAX_OPENINGS_SEARCHED = 400  # days, more than a year: an expression with no instant in active hours by then has none

DecisionDraft = Candidate
"""The chosen candidate while adjustments are applied to it."""


def decide(now: datetime, state: ScheduleState) -> Decision:
    """Return when to run next, and why. Pure: the same arguments give the same decision.

    It chooses a candidate, then applies jitter, min_interval, max_interval, Retry-After, starts_at, active hours and
    bounds. A pause overrides all of them. The result is never before `now`. Right after a run, `now` and
    `state.anchor_at` are both its completion.
    """
    trace: list[TraceStep] = []
    hints = candidates.rank_hints(now, state.hints)
    winner = _choose_candidate(now, state, hints, trace)
    source = winner.source if winner else state.timing.trigger.kind.source
    draft = _apply_adjustments(now, state, winner, trace) if winner else None
    if not state.enabled:
        trace.append(TraceStep(StepKind.OFF, "disabled: does not run until it is enabled"))
        return Decision(None, source, tuple(trace), inputs=(now, state))
    pause = state.pause_at(now)
    if pause is not None:
        return _paused_decision(pause, trace)._replace(inputs=(now, state))
    if draft is None:
        revisit_at = _final_revisit_at(now, state, _first_hint_expiry(hints, None))
        if state.windows:
            revisit_at = _revisit_for_window(now, state, None, revisit_at, trace)
        return Decision(None, source, tuple(trace), revisit_at=revisit_at, inputs=(now, state))
    revisit_at = _first_hint_expiry(hints, draft.at)
    if state.windows:
        revisit_at = _revisit_for_window(now, state, draft.at, revisit_at, trace)
    return Decision(draft.at, draft.source, tuple(trace), draft.due, revisit_at, draft.origin, (now, state))


def _choose_candidate(
    now: datetime, state: ScheduleState, hints: RankedHints, trace: list[TraceStep]
) -> Candidate | None:
    base = candidates.baseline_candidate(now, state)
    if base is None:
        # Only an event fires it, or its delay has fired: a hint must not revive a schedule that has ended.
        kind = state.timing.trigger.kind
        wake = candidates.wake_candidate(now, hints) if kind.waits_for_event and hints.effective else None
        if wake is not None:
            trace += candidates.candidate_steps((wake,), wake)
            return wake
        reason = "waits for an event" if kind.waits_for_event else "has fired and is done"
        trace.append(TraceStep(StepKind.NOTE, f"{kind}: {reason}"))
        return None
    interval = candidates.interval_hint_candidate(now, state, hints.interval) if hints.interval else None
    one_shot = candidates.one_shot_candidate(now, hints.one_shot) if hints.one_shot else None
    winner = candidates.choose_candidate(base, interval, one_shot)
    trace += candidates.candidate_steps((base, interval, one_shot), winner)
    if hints.shadowed or hints.expired:
        trace += candidates.ignored_steps(now, state, hints)
    return winner


def _apply_adjustments(
    now: datetime, state: ScheduleState, winner: Candidate, trace: list[TraceStep]
) -> DecisionDraft | None:
    draft = _apply_jitter(now, state, winner, trace)
    draft = _apply_limits(now, state, draft, trace)
    if state.not_before is not None:
        draft = _apply_floor(state, draft, trace)
    draft = _apply_starts_at(state, draft, trace)
    in_hours = _apply_active_hours(now, state, draft, trace)
    # The bounds come last, because the active hours may have moved the draft past ends_at.
    return _apply_bounds(state, in_hours, trace) if in_hours else None


def _paused_decision(pause: Pause, trace: list[TraceStep]) -> Decision:
    """Return a decision without a due instant: when the pause ends, the schedule is decided again."""
    by = f" by {pause.by}" if pause.by else ""
    reason = f': "{pause.reason}"' if pause.reason else ""
    trace.append(TraceStep(StepKind.PAUSE, f"paused{by}{reason}", pause.until, Source.PAUSED))
    return Decision(pause.until, Source.PAUSED, tuple(trace))


def _revisit_for_window(
    now: datetime, state: ScheduleState, at: datetime | None, revisit_at: datetime | None, trace: list[TraceStep]
) -> datetime | None:
    """Return when to decide again: at the latest when the next planned pause begins, if that is before the run."""
    starts_at = find_next_start(state.windows, now)
    if starts_at is None or (at is not None and at < starts_at):
        return revisit_at
    window = find_window(state.windows, starts_at)
    assert window is not None
    by, reason = f" by {window.by}" if window.by else "", f': "{window.reason}"' if window.reason else ""
    trace.append(TraceStep(StepKind.NOTE, f"a planned pause{by} begins before it{reason}", starts_at))
    return starts_at if revisit_at is None else min(starts_at, revisit_at)


def _final_revisit_at(now: datetime, state: ScheduleState, expiry: datetime | None) -> datetime | None:
    """Return when to decide once more although nothing is scheduled.

    A cron schedule with no further instant in its active hours is evaluated again at `ends_at`, because the instants
    outside the hours until then are recorded as skipped.
    """
    timing = state.timing
    ends_at, has_instants = timing.bounds.ends_at, timing.trigger.kind is TriggerKind.CRON
    if timing.active_hours is None or ends_at is None or ends_at <= now or not has_instants:
        return expiry
    return ends_at if expiry is None else min(ends_at, expiry)


def _first_hint_expiry(hints: RankedHints, at: datetime | None) -> datetime | None:
    """Return the first expiry of an active hint, if it is before `at`: the decision depends on that hint."""
    if not hints.effective:
        return None
    first = min(hint.expires_at for hint in hints.effective)
    return first if at is None or first < at else None


def _apply_jitter(now: datetime, state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
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
    from hashlib import blake2b  # noqa: PLC0415 -- it loads OpenSSL: 3 ms of every `explain`, mostly without jitter

    digest = blake2b(f"{schedule}|{due.isoformat()}".encode(), digest_size=7).digest()
    return int.from_bytes(digest) / (1 << 56)


def _apply_limits(now: datetime, state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
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


def _apply_floor(state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
    """Move the draft to the time before which its target does not want to be asked."""
    floor = state.not_before
    if floor is None or draft.at >= floor:
        return draft
    trace.append(TraceStep(StepKind.CLAMP, "Retry-After of its target moves it later", floor, Source.CLAMPED_MIN))
    if draft.source in _UNCLAMPED_SOURCES:
        return draft._replace(at=floor, on_calendar=False)
    return draft._replace(at=floor, due=floor, source=Source.CLAMPED_MIN, on_calendar=False)


def _apply_starts_at(state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft:
    starts_at = state.timing.bounds.starts_at
    if starts_at is None or draft.at >= starts_at:
        return draft
    trace.append(TraceStep(StepKind.BOUND, "starts_at moves it later", starts_at))
    return draft._replace(at=starts_at, due=starts_at)


def _apply_active_hours(
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
        return _apply_jitter(now, state, draft._replace(at=due, due=due), trace)
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


def _apply_bounds(state: ScheduleState, draft: DecisionDraft, trace: list[TraceStep]) -> DecisionDraft | None:
    """Return the draft, or None if the schedule has reached its max_runs or the draft is after its end."""
    bounds = state.timing.bounds
    if bounds.max_runs is not None and state.runs >= bounds.max_runs:
        trace.append(TraceStep(StepKind.BOUND, f"max_runs {bounds.max_runs} is reached: expired"))
        return None
    if bounds.ends_at is not None and draft.at > bounds.ends_at:
        trace.append(TraceStep(StepKind.BOUND, "ends_at comes first: expired", bounds.ends_at))
        return None
    return draft
