"""The end of a session: its proposals are applied as commands of the planner, in one transaction with its record."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from herdbeat.domain.planner import (
    DEFAULT_ANALYSIS_DISTANCE,
    MAX_ANALYSIS_DISTANCE,
    MIN_ANALYSIS_DISTANCE,
    PLANNER_ORIGIN,
    ActionKind,
    PlannedAction,
    PlannerSession,
)
from herdbeat.errors import HerdbeatError
from herdbeat.service.commands.base import (
    Actor,
    ClearHints,
    Command,
    HintSchedules,
    PauseSchedules,
    ScheduleChanges,
    Scope,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.store.base import Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTOR = Actor(name=PLANNER_ORIGIN, scopes=frozenset({Scope.CONTROL}))
MAX_PAUSE = timedelta(days=7)


def commit_session(
    tx: Transaction, now: datetime, session: PlannerSession, schedule_ids: "Mapping[str, int]"
) -> PlannerSession:
    """Apply the proposals of a session, and record it with the outcome of each. Returns what was recorded."""
    done = tuple(_act(tx, now, each, schedule_ids) for each in session.actions)
    recorded = replace(session, actions=done)
    tx.planner_add_session(recorded)
    return recorded


def _act(tx: Transaction, now: datetime, action: PlannedAction, schedule_ids: "Mapping[str, int]") -> PlannedAction:
    schedule_id = schedule_ids.get(action.schedule)
    if schedule_id is None:
        return replace(action, outcome="refused: the schedule no longer exists")
    try:
        changes = execute(tx, now, ACTOR, _build_command(now, action, schedule_id))
    except HerdbeatError as error:
        return replace(action, outcome=f"refused: {error.message}")
    (item,) = changes.items
    if item.refused:
        return replace(action, outcome=f"refused: {item.refused}")
    notes = f" ({'; '.join(item.notes)})" if item.notes else ""
    return replace(action, outcome=f"{'done' if item.changed else 'unchanged'}{notes}")


def _build_command(now: datetime, action: PlannedAction, schedule_id: int) -> Command[ScheduleChanges]:
    one, reason = (schedule_id,), action.reason
    match action.kind:
        case ActionKind.PROPOSE_INTERVAL:
            return HintSchedules(schedules=one, reason=reason, every=action.every_s, lasts=action.lasts_s)
        case ActionKind.PROPOSE_NEXT_TIME:
            return HintSchedules(schedules=one, reason=reason, at=action.at)
        case ActionKind.PAUSE_UNTIL:
            # A pause without an end would be one that only a person can end.
            latest = now + MAX_PAUSE
            until = latest if action.at is None else min(max(action.at, now), latest)
            return PauseSchedules(schedules=one, reason=reason, until=until)
        case ActionKind.CLEAR_HINTS:
            return ClearHints(schedules=one, reason=reason)


def next_analysis(now: datetime, wanted: timedelta | None) -> datetime:
    """Return when to look again: 5 minutes to 24 hours from now."""
    distance = DEFAULT_ANALYSIS_DISTANCE if wanted is None else wanted
    return now + min(max(distance, MIN_ANALYSIS_DISTANCE), MAX_ANALYSIS_DISTANCE)
