"""The one way to change schedules: an act and the schedules it is about go in, what became of each comes out.

Every change writes its row into the `change` table, in the transaction that makes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.decision import Source
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.scheduler.judge import governor_state
from herdbeat.service.acts import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    SkipBeats,
)
from herdbeat.service.objects import JsonObject, format_optional_timestamp
from herdbeat.service.offline import write_offline
from herdbeat.service.skipping import skip_schedule_beats, validate_skip_count
from herdbeat.service.steps import (
    CommandEffect,
    clear_schedule_hints,
    disable_schedule,
    enable_schedule,
    hint_schedule,
    pause_schedule,
    reset_schedule,
    resume_schedule,
)
from herdbeat.store.base import EnabledInFile, ScheduleSnapshot, Transaction
from herdbeat.store.opening import StoreHandle
from herdbeat.store.places import StoreLocation

MAX_REASON_CHARS = 200
"""Letters of a reason that are kept."""

MAX_SCHEDULES_PER_TRANSACTION = 100
"""Schedules changed in one transaction: it shares the writer with beats that are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """What became of one schedule. `refused` says why nothing was done, `mend` what to do about it."""

    schedule: str
    is_changed: bool
    before: ChangeData
    after: ChangeData
    next_run_at: datetime | None
    source: Source | None
    running: int
    notes: tuple[str, ...] = ()
    refused: str = ""
    fix: str = ""


def execute(
    tx: Transaction, now: datetime, command: ScheduleCommand, schedule_ids: Sequence[int]
) -> list[ScheduleChange]:
    """Do it, for each. One that was removed meanwhile is left out. Raises UsageError for an act that is nonsense."""
    _validate_command(now, command)
    # Words from outside: one printable line each, for they are shown on every screen, and not every ledger holds all.
    command = replace(
        command,
        who=truncate_for_message(command.who, MAX_REASON_CHARS),
        reason=truncate_for_message(command.reason, MAX_REASON_CHARS),
    )
    switches = tx.schedule_get_enabled(schedule_ids)
    before = tx.schedules(switches)
    steps = {
        schedule_id: _execute_one(tx, now, command, before[schedule_id], file_setting)
        for schedule_id, file_setting in switches.items()
    }
    after = tx.schedules(switches)
    tx.add_changes(
        [
            _build_change(now, command, before[schedule_id].label, step)
            for schedule_id, step in steps.items()
            if step.is_recorded
        ]
    )
    return [_build_result(now, step, after[schedule_id], switches[schedule_id]) for schedule_id, step in steps.items()]


async def execute_in_process(
    store: StoreHandle, now: datetime, command: ScheduleCommand, schedule_ids: Sequence[int]
) -> list[JsonObject]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    results = await store.write(lambda tx: execute(tx, now, command, schedule_ids))
    return [serialize_schedule_change(each) for each in results]


def execute_offline(
    path: StoreLocation,
    now: datetime,
    command: ScheduleCommand,
    schedule_ids: Sequence[int],
    *,
    cancel_running: bool = False,
) -> list[JsonObject]:
    """Without a node here. Raises Conflict if one has the file. Runs are ended by the nodes elsewhere that have them.

    Those hear of it with the change.
    """

    def work(tx: Transaction) -> list[ScheduleChange]:
        results = execute(tx, now, command, schedule_ids)
        if cancel_running:
            request_remote_stop(tx, command, schedule_ids)
        return results

    return [serialize_schedule_change(each) for each in write_offline(path, work)]


def request_remote_stop(
    tx: Transaction, command: ScheduleCommand, schedule_ids: Sequence[int], node_id: int = 0
) -> None:
    """Leave word for other nodes that have runs of these schedules."""
    tx.run_request_stop(format_stop_reason(command), schedules=schedule_ids, node_id=node_id)


def format_stop_reason(command: ScheduleCommand) -> str:
    """What a run says of its end that was stopped together with such a change."""
    return f"stopped by {command.who} with a {command.what}"


def serialize_schedule_change(changed: ScheduleChange) -> JsonObject:
    return {
        "schedule": changed.schedule,
        "changed": changed.is_changed,
        "before": dict(changed.before),
        "after": dict(changed.after),
        "next_run_at": format_optional_timestamp(changed.next_run_at),
        "source": changed.source,
        "running": changed.running,
        "notes": list(changed.notes),
        "refused": changed.refused,
        "hint": changed.fix,
    }


def _validate_command(now: datetime, command: ScheduleCommand) -> None:
    if isinstance(command, SkipBeats):
        validate_skip_count(command)
    if not isinstance(command, PauseSchedules) or command.until is None:
        return
    if command.until.tzinfo is None:
        raise UsageError("The end of the pause has no offset.", hint="Write for example 2026-04-01T18:00:00Z.")
    if command.until <= now:
        raise UsageError("The pause would be over already.", hint="Write an end that lies ahead, or --for 2h.")


def _execute_one(
    tx: Transaction, now: datetime, command: ScheduleCommand, snapshot: ScheduleSnapshot, file_setting: EnabledInFile
) -> CommandEffect:
    match command:
        case PauseSchedules():
            return pause_schedule(tx, now, command, snapshot)
        case ResumeSchedules():
            return resume_schedule(tx, now, command, snapshot)
        case DisableSchedules():
            return disable_schedule(tx, now, command, snapshot, file_setting)
        case EnableSchedules():
            return enable_schedule(tx, now, command, snapshot, file_setting)
        case HintSchedules():
            return hint_schedule(tx, now, command, snapshot)
        case ClearHints():
            return clear_schedule_hints(tx, now, command, snapshot)
        case ResetSchedules():
            return reset_schedule(tx, now, snapshot, file_setting)
        case SkipBeats():
            return skip_schedule_beats(tx, command, snapshot)
        case never:
            assert_never(never)


def _build_change(now: datetime, command: ScheduleCommand, subject: str, step: CommandEffect) -> Change:
    after = {**step.after, "reason": command.reason} if command.reason else step.after
    return Change(at=now, who=command.who, what=command.what, subject=subject, before=step.before, after=after)


def _build_result(
    now: datetime, step: CommandEffect, after: ScheduleSnapshot, file_setting: EnabledInFile
) -> ScheduleChange:
    return ScheduleChange(
        schedule=file_setting.label,
        is_changed=step.is_changed,
        before=step.before,
        after=step.after,
        next_run_at=after.next_run_at,
        source=after.next_source,
        running=after.running,
        notes=(*step.notes, *(step.notes_for_state(now, governor_state(after)) if step.notes_for_state else ())),
        refused=step.refused,
        fix=step.fix,
    )
