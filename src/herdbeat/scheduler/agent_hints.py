"""What an agent may request for its own schedule: one wake at a time, a pace for a while, and to undo either.

Repeating a request changes nothing: the same run that asks for the same again finds it in force. Otherwise the last
request wins. Every number comes from a model, and is refused or limited here, in the transaction that writes it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.agent_tools import AgentHint
from herdbeat.domain.hint import MAX_HINT_TTL, Hint
from herdbeat.domain.policies import Policies
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError, truncate_for_message
from herdbeat.governor.hints import (
    DEFAULT_HINT_TTL,
    MAX_ENDED_HINTS,
    MAX_ONE_SHOT_HINTS,
    HintRequest,
    accept_hint,
    check_rate_limit,
    describe_effects,
)
from herdbeat.scheduler.budgets import next_reset_at
from herdbeat.scheduler.control import reschedule
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_timestamp

MIN_WAKE_DISTANCE = timedelta(seconds=60)
"""How far ahead a wake is at least, where `min_interval` says nothing."""

MAX_PACE_TTL = timedelta(hours=24)
MAX_NOTE_CHARS = 500
_RATE_WINDOW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCaller:
    """Who asks: the agent as an author of hints, and the run that it asks from; 0 outside of a run."""

    origin: str
    reason: str
    run_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused, by a code for programs. `accepted` has values that would not have been."""

    code: str
    detail: str
    hint: str
    accepted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHintResult:
    """The hint that is in force after a request, whether the request changed anything, and what limits it."""

    hint: AgentHint
    is_changed: bool
    notes: tuple[str, ...] = ()
    wakes_left: int | None = None


def request_wake(
    tx: Transaction,
    now: datetime,
    schedule: ScheduleSnapshot,
    caller: AgentCaller,
    *,
    at: datetime | None = None,
    after: float | None = None,
    note: str = "",
) -> AgentHintResult | Refusal:
    """Run the schedule once more at a moment, and give the note back then. It replaces the pending wake of an agent."""
    wanted = _resolve_wake(now, schedule.plan.policies, at, after)
    if isinstance(wanted, Refusal):
        return wanted
    note = truncate_for_message(note, MAX_NOTE_CHARS)
    request = f"{'after' if at is None else 'at'} {after if at is None else at.isoformat()} {note}"
    wakes = [each for each in tx.agent_hints(schedule.id, now) if each.at is not None]
    used = tx.agent_hint_count_wakes(schedule.id, day_start(now, schedule.plan.policies.zone))
    most = schedule.plan.policies.wakes_per_day
    if same := _find_same(wakes, caller, request):
        return _describe(tx, now, schedule.id, same, is_changed=False, wakes_left=max(0, most - used))
    if used >= most:
        return _refuse_too_many(most, next_reset_at(now, schedule.plan.policies.zone))
    if refusal := _check_rate(tx, now, schedule.id, caller.origin):
        return refusal
    for each in wakes:
        tx.hint_end(schedule.id, each.id, now, "replaced")
    hint = accept_hint(now, HintRequest(origin=caller.origin, at=wanted, reason=caller.reason)).hint
    stored = _store(tx, now, schedule.id, hint, caller, request, note)
    return _describe(tx, now, schedule.id, stored, is_changed=True, wakes_left=most - used - 1)


def request_pace(
    tx: Transaction,
    now: datetime,
    schedule: ScheduleSnapshot,
    caller: AgentCaller,
    *,
    every: float,
    lasts: float | None = None,
) -> AgentHintResult | Refusal:
    """Run the schedule at another interval for a while. It replaces the pace that an agent has set before."""
    ttl = DEFAULT_HINT_TTL.total_seconds() if lasts is None else lasts
    if refusal := _check_pace(schedule, every, ttl):
        return refusal
    request = f"every {every} for {ttl}"
    paces = [each for each in tx.agent_hints(schedule.id, now) if each.every is not None]
    if same := _find_same(paces, caller, request):
        return _describe(tx, now, schedule.id, same, is_changed=False)
    if refusal := _check_rate(tx, now, schedule.id, caller.origin):
        return refusal
    # A repetition by another run gets a hint of its own: extending the old one would keep its reason and its run.
    for each in paces:
        tx.hint_end(schedule.id, each.id, now, "replaced")
    hint = accept_hint(now, HintRequest(origin=caller.origin, every=every, lasts=ttl, reason=caller.reason)).hint
    stored = _store(tx, now, schedule.id, hint, caller, request)
    return _describe(tx, now, schedule.id, stored, is_changed=True)


def cancel_agent_hint(
    tx: Transaction, now: datetime, schedule: ScheduleSnapshot, caller: AgentCaller, hint_id: int | None
) -> tuple[AgentHint, ...]:
    """End the pending wake, or the wake or pace with this id; return what was ended, empty if nothing was left to."""
    mine = tx.agent_hints(schedule.id, now)
    chosen = [each for each in mine if (each.at is not None if hint_id is None else each.id == hint_id)]
    for each in chosen:
        tx.hint_end(schedule.id, each.id, now, caller.origin)
    if chosen:
        reschedule(tx, now, schedule.id)
    return tuple(chosen)


def _resolve_wake(now: datetime, policies: Policies, at: datetime | None, after: float | None) -> datetime | Refusal:
    """Return the moment of a wake. `at` counts to the second, as the pages and the prompts show it."""
    if (at is None) == (after is None):
        return Refusal(code="one_time", detail="A wake needs either after or at.", hint="Give one of them.")
    if after is not None and not math.isfinite(after):
        return Refusal(code="bad_duration", detail="after is not a finite number.", hint='Write "20m".')
    if at is not None and at.tzinfo is None:
        return Refusal(code="no_offset", detail="at has no UTC offset.", hint=f"Write {at.isoformat()}Z.")
    seconds = (at - now).total_seconds() if at is not None else after or 0.0
    nearest = min_wake_distance(policies)
    if seconds < nearest.total_seconds():
        limit = "min_interval" if policies.limits.at_least else "the shortest wait"
        shortest = format_duration(nearest)
        return Refusal(
            code="too_soon",
            detail=f"A wake {_seconds_text(seconds)} from now is sooner than {limit}, {shortest}.",
            accepted={"after": shortest},
            hint=f"Call wake_me again with after={shortest}, or later.",
        )
    if seconds > MAX_HINT_TTL.total_seconds():
        longest = format_duration(MAX_HINT_TTL)
        return Refusal(
            code="too_late",
            detail=f"A wake can be at most {longest} ahead.",
            accepted={"after": longest},
            hint=f"Call wake_me again with after={longest}, or sooner.",
        )
    return at.astimezone(UTC) if at is not None else now + timedelta(seconds=seconds)


def _check_pace(schedule: ScheduleSnapshot, every: float, ttl: float) -> Refusal | None:
    kind = schedule.plan.trigger.kind
    if kind.waits_for_event:
        return Refusal(
            code="no_pace",
            detail=f"A {kind} schedule runs when its event occurs, and has no pace.",
            hint="Use wake_me for one more run.",
        )
    for name, seconds in (("every", every), ("for", ttl)):
        if not math.isfinite(seconds) or seconds < 1:
            detail = f"{name} is shorter than a second, or no finite number."
            return Refusal(code="bad_duration", detail=detail, accepted={name: "1s"}, hint='Write "20s" or "5m".')
    if every < (nearest := min_pace_interval(schedule)).total_seconds():
        shortest = format_duration(nearest)
        limit = "min_interval" if schedule.plan.policies.limits.at_least else "the shortest pace,"
        return Refusal(
            code="below_min_interval",
            detail=f"every {_seconds_text(every)} is below {limit} {shortest}.",
            accepted={"every": shortest},
            hint=f"Call set_pace again with every={shortest}, or report_result and let the rules decide.",
        )
    for name, seconds, longest in (("every", every, MAX_HINT_TTL), ("for", ttl, MAX_PACE_TTL)):
        if seconds > longest.total_seconds():
            text = format_duration(longest)
            detail, hint = f"{name} can be at most {text}.", f"Call set_pace again with {name}={text}, or less."
            return Refusal(code="too_long", detail=detail, accepted={name: text}, hint=hint)
    return None


def _seconds_text(seconds: float) -> str:
    """Return a length of time that a model has given, which may be any number."""
    whole = math.floor(min(max(seconds, -1e9), 1e9))
    return format_duration(timedelta(seconds=whole))


def _check_rate(tx: Transaction, now: datetime, schedule_id: int, origin: str) -> Refusal | None:
    """Looked at before anything is changed: a refusal leaves what is in force as it is."""
    try:
        check_rate_limit(origin, tx.hint_count_recent(schedule_id, origin, now - _RATE_WINDOW))
    except HerdbeatError as error:
        return Refusal(code="too_many_hints", detail=error.message, hint=error.hint)
    return None


def _refuse_too_many(most: int, opens_at: datetime) -> Refusal:
    return Refusal(
        code="too_many_wakes",
        detail=f"The wakes of today are used up: wakes_per_day is {most}.",
        hint=f"The pending wake stays in force. There are new ones from {format_timestamp(opens_at)}.",
    )


def _find_same(hints: list[AgentHint], caller: AgentCaller, request: str) -> AgentHint | None:
    return next((each for each in hints if (each.request, each.run_id) == (request, caller.run_id)), None)


def min_wake_distance(policies: Policies) -> timedelta:
    """Return how far ahead a wake must be."""
    return policies.limits.at_least or MIN_WAKE_DISTANCE


def min_pace_interval(schedule: ScheduleSnapshot) -> timedelta:
    """Return how often a schedule may run by the pace of its agent: as by wakes, or as it does anyway."""
    nearest, own = min_wake_distance(schedule.plan.policies), schedule.plan.trigger.interval
    return nearest if schedule.plan.policies.limits.at_least or own is None else min(nearest, own)


def day_start(now: datetime, zone: ZoneInfo) -> datetime:
    """Return when the day of a schedule's zone has begun."""
    return datetime.combine(now.astimezone(zone).date(), time(0), zone).astimezone(UTC)


def _store(
    tx: Transaction, now: datetime, schedule_id: int, hint: Hint, caller: AgentCaller, request: str, note: str = ""
) -> AgentHint:
    """Add the hint, and decide the next run with it."""
    tx.add_hint(schedule_id, hint, now)
    tx.trim_hints(schedule_id, "agent", now, one_shots=MAX_ONE_SHOT_HINTS, ended=MAX_ENDED_HINTS)
    is_wake = hint.at is not None
    hint_id = tx.agent_hint_add(
        schedule_id, caller.origin, run_id=caller.run_id, is_wake=is_wake, request=request, note=note, now=now
    )
    reschedule(tx, now, schedule_id)
    return next(each for each in tx.agent_hints(schedule_id, now) if each.id == hint_id)


def _describe(
    tx: Transaction,
    now: datetime,
    schedule_id: int,
    given: AgentHint,
    *,
    is_changed: bool,
    wakes_left: int | None = None,
) -> AgentHintResult:
    state = governor_state(tx.schedules([schedule_id])[schedule_id])
    stored = next((each for each in state.hints if _is_hint(each, given)), None)
    notes = describe_effects(now, stored, state) if stored is not None else ()
    return AgentHintResult(hint=given, is_changed=is_changed, notes=notes, wakes_left=wakes_left)


def _is_hint(hint: Hint, given: AgentHint) -> bool:
    return (hint.every, hint.at, hint.expires_at) == (given.every, given.at, given.expires_at)


def effective_pace(schedule: ScheduleSnapshot, every: timedelta) -> timedelta:
    """Return the interval that a pace leads to within the limits of the schedule."""
    return schedule.plan.policies.limits.clamp(every)
