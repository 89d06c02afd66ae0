"""Commands about planned pauses: plan one, cancel one."""

from datetime import datetime

from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.planned_pause import PlannedPause
from herdbeat.domain.selection import Selection
from herdbeat.errors import NotFound, UsageError
from herdbeat.events import SchedulesChanged
from herdbeat.scheduler import planned_pauses
from herdbeat.scheduler.older_nodes import require_gate
from herdbeat.service.commands.base import CancelPause, PauseChange, PlanPause
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import Gate, Transaction
from herdbeat.timestamps import format_timestamp

_UPGRADE_HINT = "Upgrade every node first (list them: herdbeat nodes), or pause without --from when the time has come."


def plan_pause(tx: Transaction, now: datetime, who: str, command: PlanPause, environment: Environment) -> PauseChange:
    """Write a planned pause down.

    Raises UsageError if its times make no sense, and Conflict while a node runs that would not respect it.
    """
    _validate_times(now, command)
    require_gate(tx, Gate.PLANNED_PAUSE, _UPGRADE_HINT)
    selection = Selection(names=command.names, tags=command.tags, groups=command.groups, everything=command.everything)
    planned = planned_pauses.plan_pause(
        tx, now, selection, from_at=command.from_at, until=command.until, by=who, reason=command.reason
    )
    _record(tx, now, who, ChangeKind.PLAN_PAUSE, planned, environment)
    return _build_change(planned)


def cancel_pause(
    tx: Transaction, now: datetime, who: str, command: CancelPause, environment: Environment
) -> PauseChange:
    """End a planned pause now; one that has not begun never begins. Raises NotFound if it is over, or never was."""
    planned = next(iter(tx.planned_pauses(now, command.pause)), None)
    if planned is None:
        raise NotFound(f"There is no planned pause {command.pause}, or it is over.", hint="List them: herdbeat pauses")
    planned_pauses.cancel_pause(tx, now, planned, who)
    _record(tx, now, who, ChangeKind.CANCEL_PAUSE, planned, environment, command.reason)
    return _build_change(planned)


def _validate_times(now: datetime, command: PlanPause) -> None:
    if command.from_at.tzinfo is None or command.until.tzinfo is None:
        raise UsageError("A time of the pause has no UTC offset.", hint="Write for example 2026-04-01T18:00:00Z.")
    if command.until <= command.from_at:
        raise UsageError("The pause ends before it begins.", hint="Use an end after its beginning, or --for 2h.")
    if command.from_at < now:
        raise UsageError(
            "The beginning of the pause is in the past.", hint="To pause now, leave the beginning out: --until 18:00."
        )


def _record(
    tx: Transaction,
    now: datetime,
    who: str,
    what: ChangeKind,
    planned: PlannedPause,
    environment: Environment,
    reason: str = "",
) -> None:
    subject = planned.selection.describe()
    times = {"pause": planned.id, "from": format_timestamp(planned.from_at), "until": format_timestamp(planned.until)}
    reason = reason or planned.reason
    after = {**times, "reason": reason} if reason else times
    tx.add_changes([Change(at=now, who=who, what=what, subject=subject, after=after)])
    environment.events.append(SchedulesChanged(now, what, who, reason, (subject,)))


def _build_change(planned: PlannedPause) -> PauseChange:
    return PauseChange(
        id=planned.id,
        selection=planned.selection.describe(),
        from_at=planned.from_at,
        until=planned.until,
        reason=planned.reason,
        schedules=planned.schedules,
    )
