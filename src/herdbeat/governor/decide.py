"""`decide`: when a schedule runs next, and why."""

from datetime import datetime

from herdbeat.domain.decision import Decision, Source, StepKind, TraceStep
from herdbeat.domain.trigger import TriggerKind
from herdbeat.governor import adjustments as adjust
from herdbeat.governor import candidates
from herdbeat.governor.candidates import RankedHints
from herdbeat.governor.state import ScheduleState


def decide(now: datetime, state: ScheduleState) -> Decision:
    """Return when to run next, and why. Pure: the same arguments give the same decision.

    It chooses a candidate, then applies jitter, min_interval, max_interval, starts_at, active hours and
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
        return Decision(None, source, tuple(trace))
    if state.pause is not None and state.pause.is_active(now):
        return _paused_decision(state, trace)
    if draft is None:
        revisit_at = _final_revisit_at(now, state, _first_hint_expiry(hints, None))
        return Decision(None, source, tuple(trace), revisit_at=revisit_at)
    return Decision(draft.at, draft.source, tuple(trace), draft.due, _first_hint_expiry(hints, draft.at), draft.origin)


def _choose_candidate(
    now: datetime, state: ScheduleState, hints: RankedHints, trace: list[TraceStep]
) -> candidates.Candidate | None:
    base = candidates.baseline_candidate(now, state)
    if base is None:
        # Only an event fires it, or its delay has fired: a hint must not revive a schedule that has ended.
        kind = state.timing.trigger.kind
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
    now: datetime, state: ScheduleState, winner: candidates.Candidate, trace: list[TraceStep]
) -> adjust.DecisionDraft | None:
    draft = adjust.apply_jitter(now, state, winner, trace)
    draft = adjust.clamp(now, state, draft, trace)
    draft = adjust.apply_starts_at(state, draft, trace)
    in_hours = adjust.apply_active_hours(now, state, draft, trace)
    # The bounds come last, because the active hours may have moved the draft past ends_at.
    return adjust.apply_bounds(state, in_hours, trace) if in_hours else None


def _paused_decision(state: ScheduleState, trace: list[TraceStep]) -> Decision:
    """Return a decision without a due instant: when the pause ends, the schedule is decided again."""
    assert state.pause is not None
    by = f" by {state.pause.by}" if state.pause.by else ""
    reason = f': "{state.pause.reason}"' if state.pause.reason else ""
    trace.append(TraceStep(StepKind.PAUSE, f"paused{by}{reason}", state.pause.until, Source.PAUSED))
    return Decision(state.pause.until, Source.PAUSED, tuple(trace))


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
