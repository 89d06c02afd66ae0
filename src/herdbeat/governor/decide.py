"""The governor: when to run next, and why."""

from datetime import datetime

from herdbeat.domain.decision import Decision, Source, Step, StepKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.governor import adjust, candidates
from herdbeat.governor.candidates import Hints
from herdbeat.governor.state import ScheduleState


def decide(now: datetime, state: ScheduleState) -> Decision:
    """When to run next, and why. Pure: the same arguments give the same answer.

    The order: choose, jitter, min, max, bounds, active hours, and pause over all. The answer is never
    before `now`. Right after a run, `now` and `state.anchor_at` are both its completion.
    """
    trace: list[Step] = []
    hints = candidates.sort_hints(now, state.hints)
    winner = _choose(now, state, hints, trace)
    source = winner.source if winner else state.timing.trigger.kind.source
    draft = _adjust(now, state, winner, trace) if winner else None
    if not state.enabled:
        trace.append(Step(StepKind.OFF, "disabled: nothing runs until it is enabled"))
        return Decision(None, source, tuple(trace))
    if state.pause is not None and state.pause.holds(now):
        return _paused(state, trace)
    if draft is None:
        return Decision(None, source, tuple(trace), revisit_at=_last_look(now, state, _first_expiry(hints, None)))
    return Decision(draft.at, draft.source, tuple(trace), draft.due, _first_expiry(hints, draft.at), draft.origin)


def _choose(now: datetime, state: ScheduleState, hints: Hints, trace: list[Step]) -> candidates.Candidate | None:
    base = candidates.baseline(now, state)
    if base is None:
        # Only an event fires it, or it is done: a hint must not bring back what has ended.
        trace.append(Step(StepKind.NOTE, _why_no_time(state)))
        return None
    interval = candidates.of_interval_hint(now, state, hints.interval) if hints.interval else None
    one_shot = candidates.of_one_shot(now, hints.one_shot) if hints.one_shot else None
    winner = candidates.choose(base, interval, one_shot)
    trace += candidates.candidate_steps((base, interval, one_shot), winner)
    trace += candidates.unheard_steps(now, state, hints)
    return winner


def _why_no_time(state: ScheduleState) -> str:
    kind = state.timing.trigger.kind
    return f"{kind}: waits for its event" if kind.waits_for_event else f"{kind}: it has fired, and is done"


def _adjust(
    now: datetime, state: ScheduleState, winner: candidates.Candidate, trace: list[Step]
) -> adjust.Draft | None:
    draft = adjust.spread(now, state, winner, trace)
    draft = adjust.clamp(now, state, draft, trace)
    draft = adjust.hold_until_start(state, draft, trace)
    inside = adjust.into_active_hours(now, state, draft, trace)
    # The end is looked at last: the opening of the active hours may lie beyond it.
    return adjust.within_life(state, inside, trace) if inside else None


def _paused(state: ScheduleState, trace: list[Step]) -> Decision:
    """A wake, not a due instant: at its end the schedule is decided again."""
    assert state.pause is not None
    by = f" by {state.pause.by}" if state.pause.by else ""
    reason = f': "{state.pause.reason}"' if state.pause.reason else ""
    trace.append(Step(StepKind.PAUSE, f"paused{by}{reason}", state.pause.until, Source.PAUSED))
    return Decision(state.pause.until, Source.PAUSED, tuple(trace))


def _last_look(now: datetime, state: ScheduleState, expiry: datetime | None) -> datetime | None:
    """Closed until its end, a calendar is looked at once more there: what it was closed for has to be written down."""
    timing = state.timing
    ends_at, has_instants = timing.bounds.ends_at, timing.trigger.kind is TriggerKind.CRON
    if timing.active_hours is None or ends_at is None or ends_at <= now or not has_instants:
        return expiry
    return ends_at if expiry is None else min(ends_at, expiry)


def _first_expiry(hints: Hints, at: datetime | None) -> datetime | None:
    """When an active hint ends before the planned time: what was decided with it must be decided again."""
    if not hints.heard:
        return None
    first = min(hint.expires_at for hint in hints.heard)
    return first if at is None or first < at else None
