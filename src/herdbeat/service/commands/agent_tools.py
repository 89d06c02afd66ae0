"""Commands of an agent about its own schedule: wake it, set its pace, undo either, report the progress of its run."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from herdbeat.domain.agent_tools import AgentHint, RunReport
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.run import RunStatus
from herdbeat.durations import format_duration
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.events import SchedulesChanged
from herdbeat.redaction import redact_known_data
from herdbeat.scheduler.agent_hints import (
    AgentCaller,
    AgentHintResult,
    Refusal,
    cancel_agent_hint,
    effective_pace,
    request_pace,
    request_wake,
)
from herdbeat.service.commands.base import (
    CancelAgentHint,
    CreateOwnSchedule,
    DeleteOwnSchedule,
    PaceAgent,
    ReportRun,
    SelfChange,
    SelfCommand,
    WakeAgent,
)
from herdbeat.service.commands.dispatch import Environment
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_optional_timestamp

if TYPE_CHECKING:
    from herdbeat.scheduler.agent_schedules import OwnScheduleResult

MAX_METRICS = 50
MAX_METRIC_NAME_CHARS = 64
MAX_METRIC_TEXT_CHARS = 200
MAX_SUMMARY_CHARS = 200
MAX_NEED_CHARS = 300

_NO_REASON = Refusal(
    code="no_reason", detail="The request has no reason.", hint="Say in a few words why: a person reads it."
)


def run_self_command(
    tx: Transaction, now: datetime, who: str, command: SelfCommand, environment: Environment
) -> SelfChange:
    """Raises NotFound if the schedule no longer exists. What cannot be done is a refusal, not an error."""
    known = tx.schedule_get_enabled([command.schedule]).get(command.schedule)
    if known is None:
        raise NotFound("The schedule no longer exists.", hint="Nothing can be asked for it any more.")
    command = _redact_texts(command)
    schedule = tx.schedules([command.schedule])[command.schedule]
    needs_reason = not isinstance(command, ReportRun)  # its summary says it
    refusal = _check_run(tx, command) or (_NO_REASON if needs_reason and not command.reason.strip() else None)
    if refusal is not None:
        return _build_refusal(known.label, refusal)
    caller = AgentCaller(origin=who, reason=command.reason, run_id=command.run)
    return _HANDLERS[type(command)](tx, now, caller, command, schedule, environment)


def _redact_texts(command: SelfCommand) -> SelfCommand:
    """Return the command without registered secrets: an agent may repeat what it was given, and all of it is stored."""
    values = {each.name: getattr(command, each.name) for each in fields(command)}
    redacted: dict[str, Any] = {
        name: redact_known_data(item) for name, item in values.items() if type(item) in (str, dict)
    }
    return replace(command, **redacted)


def _check_run(tx: Transaction, command: SelfCommand) -> Refusal | None:
    """The token of a run is dead when the run has ended, also for a request that is already on its way."""
    last = tx.last_attempt(command.run) if command.run else None
    if command.run and (last is None or last.schedule_id != command.schedule or last.run_id != command.run):
        return Refusal(code="run_ended", detail="This run is not active.", hint="Only an active run can do this.")
    if last is not None and last.status is not RunStatus.RUNNING:
        return Refusal(code="run_ended", detail="This run has ended.", hint="Only an active run can do this.")
    return None


def _wake(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    command: WakeAgent,
    schedule: ScheduleSnapshot,
    environment: Environment,
) -> SelfChange:
    result = request_wake(tx, now, schedule, caller, at=command.at, after=command.after, note=command.note)
    return _finish(tx, now, caller, schedule, result, environment)


def _set_pace(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    command: PaceAgent,
    schedule: ScheduleSnapshot,
    environment: Environment,
) -> SelfChange:
    result = request_pace(tx, now, schedule, caller, every=command.every, lasts=command.lasts)
    return _finish(tx, now, caller, schedule, result, environment)


def _finish(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    schedule: ScheduleSnapshot,
    result: AgentHintResult | Refusal,
    environment: Environment,
) -> SelfChange:
    if isinstance(result, Refusal):
        return _build_refusal(schedule.label, result)
    hint, after = result.hint, tx.schedules([schedule.id])[schedule.id]
    if result.is_changed:
        _record(
            tx,
            now,
            caller,
            schedule.label,
            ChangeKind.HINT,
            {**_build_hint_data(hint), "by": caller.origin},
            environment,
        )
    every = hint.every
    return SelfChange(
        schedule=schedule.label,
        changed=result.is_changed,
        id=hint.id,
        at=hint.at,
        every_s=None if every is None else every.total_seconds(),
        effective_every_s=None if every is None else effective_pace(schedule, every).total_seconds(),
        until=None if every is None else hint.expires_at,
        next_run_at=after.next_run_at,
        source=after.next_source if after.next_run_at is not None else None,
        wakes_left=result.wakes_left,
        notes=result.notes,
    )


def _cancel(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    command: CancelAgentHint,
    schedule: ScheduleSnapshot,
    environment: Environment,
) -> SelfChange:
    ended = cancel_agent_hint(tx, now, schedule, caller, command.hint)
    after = tx.schedules([schedule.id])[schedule.id]
    if ended:
        data = {"hints": [_build_hint_data(each) for each in ended]}
        _record(tx, now, caller, schedule.label, ChangeKind.CLEAR_HINTS, data, environment)
    return SelfChange(
        schedule=schedule.label,
        changed=bool(ended),
        id=ended[0].id if ended else command.hint,
        next_run_at=after.next_run_at,
        source=after.next_source if after.next_run_at is not None else None,
        notes=() if ended else ("nothing to cancel: no such wake or pace of yours is in force",),
    )


def _report(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,  # noqa: ARG001 - as all handlers
    command: ReportRun,
    schedule: ScheduleSnapshot,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> SelfChange:
    """A report leaves no row in the change log: the run itself shows it."""
    if not command.run:
        no_run = Refusal(code="no_run", detail="There is no active run to report on.", hint="Report from inside a run.")
        return _build_refusal(schedule.label, no_run)
    if refusal := _check_metrics(command.metrics):
        return _build_refusal(schedule.label, refusal)
    report = RunReport(
        ok=command.ok,
        quiet=command.quiet,
        needs_you=truncate_for_message(command.needs_you, MAX_NEED_CHARS),
        summary=truncate_for_message(command.summary, MAX_SUMMARY_CHARS),
        metrics=dict(command.metrics),
    )
    is_changed = tx.run_report(command.run) != report
    if is_changed:
        tx.run_report_set(command.run, report, now)
    notes = ("a run that needs a person is never quiet",) if report.quiet and report.needs_you else ()
    return SelfChange(schedule=schedule.label, changed=is_changed, notes=notes)


def _check_metrics(metrics: Mapping[str, object]) -> Refusal | None:
    """Metrics are a flat map of names to numbers, truth values and short texts, which every ledger can hold."""
    if len(metrics) > MAX_METRICS:
        detail = f"There are {len(metrics)} metrics; at most {MAX_METRICS} are kept."
        return Refusal(code="too_many_metrics", detail=detail, hint="Report the ones that rules or people read.")
    for name, value in metrics.items():
        is_number = isinstance(value, int | float) and abs(value) < 1e18
        is_text = isinstance(value, str) and len(value) <= MAX_METRIC_TEXT_CHARS
        if not 0 < len(name) <= MAX_METRIC_NAME_CHARS or not (is_number or is_text):
            return Refusal(
                code="bad_metric",
                detail=f'The metric "{truncate_for_message(name)}" is no finite number, truth value or short text.',
                hint=f"Metrics are flat: no lists or objects, texts of at most {MAX_METRIC_TEXT_CHARS} characters.",
            )
    return None


def _create(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    command: CreateOwnSchedule,
    schedule: ScheduleSnapshot,
    environment: Environment,
) -> SelfChange:
    from herdbeat.scheduler.agent_schedules import WantedSchedule, create_own_schedule  # noqa: PLC0415 -- loads apply

    wanted = WantedSchedule(
        name=command.name,
        prompt=command.prompt,
        every=command.every,
        cron=command.cron,
        at=command.at,
        expires_s=command.expires_s,
    )
    done = create_own_schedule(tx, now, schedule, caller, wanted)
    return (
        _finish_own(now, caller, done, environment)
        if not isinstance(done, Refusal)
        else _build_refusal(schedule.label, done)
    )


def _delete(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    command: DeleteOwnSchedule,
    schedule: ScheduleSnapshot,
    environment: Environment,
) -> SelfChange:
    from herdbeat.scheduler.agent_schedules import delete_own_schedule  # noqa: PLC0415 -- loads apply

    done = delete_own_schedule(tx, now, schedule, caller, command.name)
    return (
        _finish_own(now, caller, done, environment)
        if not isinstance(done, Refusal)
        else _build_refusal(schedule.label, done)
    )


def _finish_own(now: datetime, caller: AgentCaller, done: "OwnScheduleResult", environment: Environment) -> SelfChange:
    if done.what is not None:
        environment.events.append(SchedulesChanged(now, done.what, caller.origin, caller.reason, (done.label,)))
    return SelfChange(
        schedule=done.label,
        changed=done.what is not None,
        until=done.ends_at,
        next_run_at=done.next_run_at,
        notes=done.notes,
    )


_HANDLERS: dict[type[SelfCommand], Callable[..., SelfChange]] = {
    CreateOwnSchedule: _create,
    DeleteOwnSchedule: _delete,
    WakeAgent: _wake,
    PaceAgent: _set_pace,
    CancelAgentHint: _cancel,
    ReportRun: _report,
}


def _build_refusal(label: str, refusal: Refusal) -> SelfChange:
    return SelfChange(
        schedule=label,
        refused=refusal.code,
        detail=refusal.detail,
        hint=refusal.hint,
        accepted=dict(refusal.accepted),
    )


def _record(
    tx: Transaction,
    now: datetime,
    caller: AgentCaller,
    label: str,
    what: ChangeKind,
    after: Mapping[str, object],
    environment: Environment,
) -> None:
    data = {**after, "reason": caller.reason}
    tx.add_changes([Change(at=now, who=caller.origin, what=what, subject=label, before={}, after=data)])
    environment.events.append(SchedulesChanged(now, what, caller.origin, caller.reason, (label,)))


def _build_hint_data(hint: AgentHint) -> dict[str, object]:
    return {
        "every": None if hint.every is None else format_duration(hint.every),
        "at": format_optional_timestamp(hint.at),
        "until": format_optional_timestamp(hint.expires_at),
    }
