"""Commands on what a fleet consists of: apply its files, add and remove schedules without a file, import a state.

What a file defines is refused, with its place in that file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from herdbeat.config.loader import LoadResult
from herdbeat.config.locate import FileKind
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, RunSpec, Schedule, display_name
from herdbeat.domain.target import SPEC_TYPES, AgentSpec, CommandSpec, CreatedVia, Origin, Target, is_unmanaged
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import ConfigError, Conflict, NotFound, SourceLocation, did_you_mean_suffix
from herdbeat.governor.hints import is_human
from herdbeat.redaction import find_secrets, register_secrets
from herdbeat.scheduler.apply import plan as apply_plan
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.apply.plan import StoredFleet, load_stored_fleet, plan_apply
from herdbeat.scheduler.apply.settle import remove_schedules
from herdbeat.scheduler.control import ImportedState, describe_human_hold, import_state
from herdbeat.service.commands.base import (
    AppliedFleet,
    ApplyFleet,
    DeletedSchedules,
    DeleteSchedule,
    ImportResult,
    ImportState,
    ManagedByConfig,
    NewSchedule,
    NewTarget,
    StaleVersion,
    UpsertedSchedule,
    UpsertSchedule,
    result_to_json,
)
from herdbeat.service.commands.dispatch import Environment, LoadedFleet
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import ScheduleRow, ScheduleSnapshot, TargetRow, Transaction
from herdbeat.store.location import StoreLocation, ledger_exists, open_audit
from herdbeat.triggers import load_trigger

ApplyPlan = apply_plan.ApplyPlan
PlannedChange = apply_plan.PlannedChange

R = TypeVar("R")

MAX_EDIT_ATTEMPTS = 30

PARTIAL_FILE_KINDS = (FileKind.AGENTD_WORKFLOW, FileKind.AGENTD_AGENT, FileKind.HERDCTL_AGENT)
"""Files that define one part of a fleet, and nothing about the rest of it."""


def require_valid_fleet(load_result: LoadResult) -> Fleet:
    """Return the fleet of valid files. Raises ConfigError with all their errors: an invalid file changes nothing."""
    if load_result.errors or load_result.fleet is None:
        raise ConfigError(load_result.errors)
    return load_result.fleet


def build_partial_fleet(full_fleet: Fleet, load_result: LoadResult, stored: StoredFleet) -> Fleet:
    """Return a single file as a part of a fleet. The agent of a workflow must exist. Raises NotFound.

    What does not lie among the fleet's own files would be taken for removed at the next start. So it is marked.
    """
    partial_fleet = require_valid_fleet(load_result)
    targets = partial_fleet.targets
    if load_result.kind is FileKind.AGENTD_WORKFLOW:
        _require_known_targets(partial_fleet.schedules, {*stored.targets, *(each.name for each in full_fleet.targets)})
        return _build_workflow_fleet(full_fleet, partial_fleet, stored)
    targets = tuple(_rebase_working_directory(full_fleet.home, each, partial_fleet.home) for each in targets)
    if not _is_own_file(partial_fleet, full_fleet):
        targets = tuple(replace(each, origin=_mark_applied_origin(each.origin)) for each in targets)
    return replace(full_fleet, targets=targets, schedules=_mark_foreign_schedules(partial_fleet, full_fleet))


def _build_workflow_fleet(full_fleet: Fleet, workflow: Fleet, stored: StoredFleet) -> Fleet:
    """Return the fleet of a workflow. Its agent, which it only names, comes from the full fleet if it is new."""
    missing = {each.target for each in workflow.schedules} - stored.targets.keys()
    targets = tuple(each for each in full_fleet.targets if each.name in missing)
    return replace(full_fleet, targets=targets, schedules=_mark_foreign_schedules(workflow, full_fleet))


def _is_own_file(partial_fleet: Fleet, full_fleet: Fleet) -> bool:
    return set(partial_fleet.files) <= set(full_fleet.files)


def _mark_foreign_schedules(partial_fleet: Fleet, full_fleet: Fleet) -> tuple[Schedule, ...]:
    if _is_own_file(partial_fleet, full_fleet):
        return partial_fleet.schedules
    return tuple(replace(each, origin=_mark_applied_origin(each.origin)) for each in partial_fleet.schedules)


def load_applied_fleet(full_fleet: Fleet, load_result: LoadResult, location: StoreLocation) -> LoadedFleet:
    """Return what these files apply: the whole fleet, or one part of it. Raises ConfigError or NotFound."""
    if load_result.kind not in PARTIAL_FILE_KINDS:
        return LoadedFleet(fleet=require_valid_fleet(load_result))
    part = build_partial_fleet(full_fleet, load_result, read_stored_fleet(location))
    return LoadedFleet(fleet=part, is_whole=False)


def _rebase_working_directory(home: str, target: Target, source_home: str) -> Target:
    """Return the target with its working directory relative to another folder."""
    spec = target.spec
    if not isinstance(spec, AgentSpec | CommandSpec) or Path(spec.working_directory).is_absolute():
        return target
    folder = os.path.relpath(Path(source_home) / spec.working_directory, home)
    return replace(target, spec=replace(spec, working_directory=folder))


def preview_apply(path: StoreLocation, fleet: Fleet, now: datetime, *, is_whole: bool = True) -> ApplyPlan:
    """Return the plan of an apply to that ledger. Nothing is written, and the writer does not wait for it."""
    if not ledger_exists(path):
        return plan_apply(None, fleet, now, is_whole=is_whole)
    return open_audit(path).read_transaction(
        lambda tx: plan_apply(tx, fleet, now, is_whole=is_whole, has_snapshots=True)
    )


def read_stored_fleet(path: StoreLocation) -> StoredFleet:
    return open_audit(path).read_transaction(load_stored_fleet) if ledger_exists(path) else StoredFleet()


def list_targets(path: StoreLocation) -> dict[str, TargetRow]:
    """Return every target in the ledger, by name."""
    targets = open_audit(path).read_transaction(lambda tx: tx.targets())
    return {name: row for name, (_, row) in targets.items()}


def serialize_plan(plan: ApplyPlan) -> JsonObject:
    """Return the plan of an apply as adapters print it."""
    return {
        "items": [result_to_json(change) for change in plan.items],
        "added": plan.count(ChangeKind.ADD),
        "changed": plan.count(ChangeKind.EDIT),
        "removed": plan.count(ChangeKind.REMOVE),
        "warnings": sum(len(each.warnings) for each in plan.items),
        "runs_per_day": {"before": round(plan.runs_before, 1), "after": round(plan.runs_after, 1)},
    }


def _mark_applied_origin(origin: Origin | None) -> Origin | None:
    """Return the error for a target or a schedule whose file does not belong to the fleet."""
    return replace(origin, file=f"{CreatedVia.APPLY} {origin.file}") if isinstance(origin, SourceLocation) else origin


def _require_known_targets(schedules: Iterable[Schedule], known: set[str]) -> None:
    for each in schedules:
        if each.target not in known:
            suggestion = next(iter(get_close_matches(each.target, sorted(known), n=1, cutoff=0.6)), None)
            raise NotFound(
                f'There is no agent "{each.target}" for the schedule "{each.name}"{did_you_mean_suffix(suggestion)}',
                where=each.origin if isinstance(each.origin, SourceLocation) else None,
                hint="Apply the agent's file first, or the whole folder.",
            )


def build_new_target(target: Target) -> NewTarget:
    """Return a target of a file in the form that a command carries."""
    return NewTarget(kind=target.kind, spec=to_json(target.spec), max_concurrent=target.max_concurrent)


def build_new_schedule(schedule: Schedule) -> NewSchedule:
    plan = ScheduleSpec(trigger=schedule.trigger, policies=schedule.policies)
    return NewSchedule(plan=plan, brief=RunSpec(prompt=schedule.prompt), enabled=schedule.enabled)


def apply_loaded_fleet(
    tx: Transaction, now: datetime, who: str, command: ApplyFleet, environment: Environment
) -> AppliedFleet:
    loaded = environment.loaded_fleet
    assert loaded is not None, "the dispatcher reads the files before the transaction"
    result = apply_fleet(tx, loaded.fleet, now, who, is_whole=loaded.is_whole, reason=command.reason)
    return AppliedFleet(
        added=tuple(result.added),
        changed=tuple(result.changed),
        removed=tuple(result.removed),
        targets=tuple(result.targets),
    )


def import_states(
    tx: Transaction, now: datetime, who: str, command: ImportState, environment: Environment
) -> ImportResult:
    """Without a node the files are applied first, so that a fleet that has never run here finds its schedules."""
    if environment.loaded_fleet is not None:
        apply_fleet(tx, environment.loaded_fleet.fleet, now, who)
    ids = {name: number for name, (number, _) in tx.targets().items()}
    stored = tx.schedule_list_by_target(ids.values())
    labels: dict[str, list[str]] = {each.name: [] for each in fields(ImportResult)}
    for each in command.states:
        known = stored.get((ids.get(each.agent, 0), each.name))
        state = ImportedState(last_run_at=each.last_run_at, last_error=each.last_error, disabled=each.disabled)
        outcome = "unknown" if known is None else import_state(tx, now, known[0], state, who).value
        labels[outcome].append(f"{each.agent}/{each.name}")
    return ImportResult(**{outcome: tuple(names) for outcome, names in labels.items()})


def upsert_schedule(
    tx: Transaction,
    now: datetime,
    who: str,
    command: UpsertSchedule,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> UpsertedSchedule:
    """Raises Conflict for what a file defines or what exists already, NotFound for what does not."""
    known, by_name = _lock_target(tx, command.target, command.name)
    _validate_upsert(command, known, by_name)
    _require_version(tx, command, known, by_name)
    apply_fleet(tx, _build_fleet(command), now, who, is_whole=False, reason=command.reason)
    number = tx.targets()[command.target][0]
    stored = tx.schedule_list_by_target([number]).get((number, command.name or ""))
    snapshot = tx.schedules([stored[0]])[stored[0]] if stored is not None else None
    return UpsertedSchedule(
        what=command.what,
        subject=command.label,
        removed=(),
        next_run_at=snapshot.next_run_at if snapshot else None,
        when=snapshot.plan.trigger.describe() if snapshot else None,
        enabled=snapshot.enabled if snapshot else None,
    )


def delete_schedule(
    tx: Transaction,
    now: datetime,
    who: str,
    command: DeleteSchedule,
    environment: Environment,  # noqa: ARG001 - as all handlers
) -> DeletedSchedules:
    """Raises Conflict for what a file defines, NotFound for what is not there."""
    known, by_name = _lock_target(tx, command.target, command.name)
    if known is None or (command.name is not None and command.name not in by_name):
        if known is not None and command.name == DEFAULT_SCHEDULE_NAME:
            require_unmanaged(command.target, known[1].origin)
        raise NotFound(f'There is no schedule or target "{command.label}".', hint="List them: herdbeat list")
    removed_rows = by_name if command.name is None else {command.name: by_name[command.name]}
    _require_version(tx, command, known, by_name)
    if command.name is None:
        require_unmanaged(command.label, known[1].origin)
    for name, (_, row) in removed_rows.items():
        require_unmanaged(display_name(command.target, name), row.origin)
    numbers = [number for number, _ in removed_rows.values()]
    if not is_human(who):
        _require_unheld(now, tx.schedules(numbers).values())
    remove_schedules(tx, now, numbers)
    subjects = [f"{command.target}/{name}" for name in removed_rows]
    if command.name is None:
        tx.remove_targets([known[0]], now)
        subjects.append(command.target)
    after = {"reason": command.reason} if command.reason else None
    tx.add_changes([Change(at=now, who=who, what=ChangeKind.REMOVE, subject=each, after=after) for each in subjects])
    return DeletedSchedules(what=ChangeKind.REMOVE, subject=command.label, removed=tuple(subjects))


def _require_unheld(now: datetime, schedules: Iterable[ScheduleSnapshot]) -> None:
    """Raises Conflict if a person holds one of them: who deletes it could create it once more, without the pause."""
    for each in schedules:
        if hold := describe_human_hold(now, each):
            raise Conflict(
                f"{each.label} is {hold}: only a person can delete it.", hint="Ask that person to delete it."
            )


def require_unmanaged(label: str, origin: str) -> None:
    """Raises Conflict if a file defines it."""
    if not is_unmanaged(origin):
        where = f" in {origin}" if origin else " in its file"
        hint = f"Change it there. To stop it for now: herdbeat disable {label}"
        raise ManagedByConfig(f'"{label}" is defined{where}.', hint=hint, defined_at=_parse_origin(origin))


def _parse_origin(origin: str) -> SourceLocation | None:
    """Return the place that a stored origin names, `herdbeat.yaml:8:7`; None if it names none."""
    file, _, position = origin.partition(":")
    line, _, column = position.partition(":")
    if not file or not line.isdecimal():
        return None
    return SourceLocation(file=file, line=int(line), column=int(column) if column.isdecimal() else 1)


def _lock_target(
    tx: Transaction, name: str, schedule: str | None
) -> tuple[tuple[int, TargetRow] | None, Mapping[str, tuple[int, ScheduleRow]]]:
    """Return the target and its schedules as they are, locked against other changes."""
    tx.lock_definitions()
    known, by_name = _load_target(tx, name)
    if schedule is None or schedule not in by_name:
        return known, by_name
    tx.schedules([by_name[schedule][0]])  # locked: one that is disabled at this moment is read again, disabled
    return _load_target(tx, name)


def _load_target(
    tx: Transaction, name: str
) -> tuple[tuple[int, TargetRow] | None, Mapping[str, tuple[int, ScheduleRow]]]:
    """Return the target, if it exists, and its schedules by name."""
    known = tx.targets().get(name)
    rows = tx.schedule_list_by_target([known[0]]) if known is not None else {}
    return known, {schedule: stored for (_, schedule), stored in rows.items()}


def _validate_upsert(
    command: UpsertSchedule, known: tuple[int, TargetRow] | None, by_name: Mapping[str, tuple[int, ScheduleRow]]
) -> None:
    if known is None and command.new_target is None:
        hint = "Correct the name, or define it with --command, --url, --call or --runtime."
        raise NotFound(f'There is no target "{command.target}".', hint=hint)
    if command.what is ChangeKind.EDIT and command.name is None:
        _require_editable_target(command, known)
        return
    if known is not None and command.new_target is not None:
        raise Conflict(
            f'There is already a target "{command.target}", {_describe_origin(known[1].origin)}.',
            hint=f"Add a schedule to it: herdbeat create {command.target}/NAME --every 1h",
        )
    stored = by_name.get(command.name or "")
    if command.what is ChangeKind.ADD and stored is not None:
        raise Conflict(
            f'There is already a schedule "{command.label}", {_describe_origin(stored[1].origin)}.',
            hint=f"Change it with herdbeat update {command.label}, or choose another name.",
        )
    if command.what is ChangeKind.EDIT:
        if stored is None:
            raise NotFound(f'There is no schedule "{command.label}".', hint="List them: herdbeat list")
        require_unmanaged(command.label, stored[1].origin)


def _require_editable_target(command: UpsertSchedule, known: tuple[int, TargetRow] | None) -> None:
    if known is None:
        raise NotFound(f'There is no target "{command.target}".', hint="List them: herdbeat list")
    require_unmanaged(command.target, known[1].origin)
    if command.new_target is None or command.new_target.kind != known[1].kind:
        hint = "Delete the target, and create the other one."
        raise Conflict(f'"{command.target}" stays of its kind: {known[1].kind}.', hint=hint)


def compute_version(edited: NewSchedule | NewTarget) -> str:
    """Return a text that differs after every edit of a schedule or a target. Runs and pauses do not change it."""
    text = json.dumps(to_json(edited), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def repeat_while_stale(edit: Callable[[], R]) -> R:
    """Return what an edit returns that reads, changes and writes with the version that it has read.

    If another sender has written meanwhile, it is made again on what is there now: no edit of other fields is lost.
    Raises StaleVersion if others are faster every time.
    """
    for _ in range(MAX_EDIT_ATTEMPTS - 1):
        with suppress(StaleVersion):
            return edit()
    return edit()


def _require_version(
    tx: Transaction,
    command: UpsertSchedule | DeleteSchedule,
    known: tuple[int, TargetRow] | None,
    by_name: Mapping[str, tuple[int, ScheduleRow]],
) -> None:
    """Raises StaleVersion if the schedule, or the target alone, was edited since its sender has read it."""
    if not command.expected:
        return
    current = _restore_target(known) if command.name is None else _restore_schedule(tx, by_name.get(command.name))
    if current is not None and compute_version(current) != command.expected:
        raise StaleVersion(f'"{command.label}" was changed meanwhile.', hint="Read it again, and repeat the change.")


def _restore_target(stored: tuple[int, TargetRow] | None) -> NewTarget | None:
    if stored is None:
        return None
    row = stored[1]
    spec = from_json(SPEC_TYPES[row.kind], json.loads(row.spec), load_trigger)
    return NewTarget(kind=row.kind, spec=to_json(spec), max_concurrent=row.max_concurrent)


def _restore_schedule(tx: Transaction, stored: tuple[int, ScheduleRow] | None) -> NewSchedule | None:
    if stored is None:
        return None
    number, row = stored
    brief = from_json(RunSpec, json.loads(row.brief), load_trigger)
    return NewSchedule(plan=tx.schedules([number])[number].plan, brief=brief, enabled=row.enabled)


def _describe_origin(origin: str) -> str:
    return f"created by {origin}" if is_unmanaged(origin) else f"in {origin or 'its file'}"


def _build_fleet(command: UpsertSchedule) -> Fleet:
    """Return the fleet of what the command adds or edits: a target, a schedule, or both."""
    fleet = Fleet(name="", zone=ZoneInfo("UTC"), targets=(), schedules=(), store="", server=ServerSettings())
    if command.new_target is not None:
        new = command.new_target
        spec = from_json(SPEC_TYPES[new.kind], new.spec, load_trigger)
        target = Target(name=command.target, spec=spec, max_concurrent=new.max_concurrent, origin=command.way)
        register_secrets(find_secrets(new.spec))
        fleet = replace(fleet, targets=(target,))
    if command.new_schedule is not None and command.name is not None:
        plan, brief = command.new_schedule.plan, command.new_schedule.brief
        schedule = Schedule(
            target=command.target,
            name=command.name,
            trigger=plan.trigger,
            policies=plan.policies,
            prompt=brief.prompt,
            work_source=brief.work_source,
            variables=brief.variables,
            enabled=command.new_schedule.enabled,
            origin=command.way,
        )
        fleet = replace(fleet, zone=plan.policies.zone, schedules=(schedule,))
    return fleet
