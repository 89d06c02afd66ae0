"""Schedules without a file: made, changed and removed by hand. What stands in a file is refused, with its place.

One way for all of them: the change is a value that can be sent to the process that runs the fleet.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.config import LoadResult
from herdbeat.config.locate import FileKind
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, RunSpec, Schedule, display_name
from herdbeat.domain.target import SPEC_TYPES, AgentSpec, CommandSpec, CreatedVia, Origin, Target, is_unmanaged
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import ConfigError, Conflict, NotFound, SourceLocation, UsageError, did_you_mean_suffix
from herdbeat.scheduler.apply.apply import ApplyResult, apply_fleet
from herdbeat.scheduler.apply.plan import ApplyPlan, PlannedChange, StoredFleet, load_stored_fleet, plan_apply
from herdbeat.scheduler.apply.settle import remove_schedules
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import ScheduleRow, TargetRow, Transaction
from herdbeat.store.location import StoreLocation, create_store, exclusive_lock, ledger_exists, open_audit
from herdbeat.timestamps import format_optional_timestamp
from herdbeat.triggers import load_trigger

# Making the ledger match the files: the plan first, then the doing. A single file is a part, and removes nothing.


PARTIAL_FILE_KINDS = (FileKind.AGENTD_WORKFLOW, FileKind.AGENTD_AGENT, FileKind.HERDCTL_AGENT)
"""Files that are one piece of a fleet, and say nothing about the rest of it."""


def require_valid_fleet(load_result: LoadResult) -> Fleet:
    """The fleet of files without a mistake. Raises ConfigError with all there are: a bad file changes nothing."""
    if load_result.errors or load_result.fleet is None:
        raise ConfigError(load_result.errors)
    return load_result.fleet


def build_partial_fleet(full_fleet: Fleet, load_result: LoadResult, stored: StoredFleet) -> Fleet:
    """A single file as a piece of a fleet: agents first, so a workflow needs one that is there. Raises NotFound.

    What does not lie among the fleet's own files would be taken for removed at the next start. So it is marked.
    """
    partial_fleet = require_valid_fleet(load_result)
    targets = partial_fleet.targets
    if load_result.kind is FileKind.AGENTD_WORKFLOW:
        targets = ()
        _require_known_targets(partial_fleet.schedules, {*stored.targets, *(each.name for each in full_fleet.targets)})
    targets = tuple(_rebase_working_directory(full_fleet.home, each, partial_fleet.home) for each in targets)
    if set(partial_fleet.files) <= set(full_fleet.files):
        return replace(full_fleet, targets=targets, schedules=partial_fleet.schedules)
    return replace(
        full_fleet,
        targets=tuple(replace(each, origin=_mark_applied_origin(each.origin)) for each in targets),
        schedules=tuple(replace(each, origin=_mark_applied_origin(each.origin)) for each in partial_fleet.schedules),
    )


def _rebase_working_directory(home: str, target: Target, source_home: str) -> Target:
    """The same target, with the folder it works in counted from another one."""
    spec = target.spec
    if not isinstance(spec, AgentSpec | CommandSpec) or Path(spec.working_directory).is_absolute():
        return target
    folder = os.path.relpath(Path(source_home) / spec.working_directory, home)
    return replace(target, spec=replace(spec, working_directory=folder))


def preview_apply(path: StoreLocation, fleet: Fleet, now: datetime, *, is_whole: bool = True) -> ApplyPlan:
    """What applying the fleet to that ledger would do. Nothing is written, and the writer does not wait for it."""
    if not ledger_exists(path):
        return plan_apply(None, fleet, now, is_whole=is_whole)
    return open_audit(path).read_transaction(
        lambda tx: plan_apply(tx, fleet, now, is_whole=is_whole, has_snapshots=True)
    )


def read_stored_fleet(path: StoreLocation) -> StoredFleet:
    return open_audit(path).read_transaction(load_stored_fleet) if ledger_exists(path) else StoredFleet()


def apply_offline(path: StoreLocation, fleet: Fleet, now: datetime, who: str, *, is_whole: bool = True) -> ApplyResult:
    """While nothing runs: written under the state lock. Raises Conflict if something does."""
    with exclusive_lock(path):
        store = create_store(path)
        store.open()
        try:
            return store.write_now(lambda tx: apply_fleet(tx, fleet, now, who, is_whole=is_whole))
        finally:
            store.close()


def serialize_plan(plan: ApplyPlan) -> dict[str, Any]:
    return {
        "items": [_serialize_planned_change(each) for each in plan.items],
        "added": plan.count(ChangeKind.ADD),
        "changed": plan.count(ChangeKind.EDIT),
        "removed": plan.count(ChangeKind.REMOVE),
        "warnings": sum(len(each.warnings) for each in plan.items),
        "runs_per_day": {"before": round(plan.runs_before, 1), "after": round(plan.runs_after, 1)},
    }


def serialize_apply_result(result: ApplyResult) -> JsonObject:
    return {"added": result.added, "changed": result.changed, "removed": result.removed}


def _serialize_planned_change(item: PlannedChange) -> Mapping[str, object]:
    return {
        "what": item.what,
        "subject": item.subject,
        "before": dict(item.before),
        "after": dict(item.after),
        "next_before": format_optional_timestamp(item.next_before),
        "next_after": format_optional_timestamp(item.next_after),
        "runs": item.runs,
        "warnings": list(item.warnings),
    }


def _mark_applied_origin(origin: Origin | None) -> Origin | None:
    """Of a target or a schedule whose file is not one of the fleet's."""
    return replace(origin, file=f"{CreatedVia.APPLY} {origin.file}") if isinstance(origin, SourceLocation) else origin


def _require_known_targets(schedules: Iterable[Schedule], known: set[str]) -> None:
    for each in schedules:
        if each.target not in known:
            suggestion = next(iter(get_close_matches(each.target, sorted(known), n=1, cutoff=0.6)), None)
            raise NotFound(
                f'There is no agent "{each.target}" for the schedule "{each.name}"{did_you_mean_suffix(suggestion)}',
                where=each.origin if isinstance(each.origin, SourceLocation) else None,
                hint="Apply the agent's own file first, or the whole folder.",
            )


_UTC = ZoneInfo("UTC")


class UpsertRejected(Conflict):
    """It is there already, or a file owns it. Apart from a lock that somebody holds, which is worth another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    kind: str
    spec: Mapping[str, object]
    max_concurrent: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    plan: ScheduleSpec
    brief: RunSpec
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSchedule:
    """What is wanted, by whom: `what` is add, edit or remove. Without a `name` it is about the target as a whole."""

    what: ChangeKind
    who: str
    target: str
    name: str | None = None
    new_target: NewTarget | None = None
    new_schedule: NewSchedule | None = None
    way: CreatedVia = CreatedVia.CLI
    reason: str = ""

    @property
    def label(self) -> str:
        return self.target if self.name is None else display_name(self.target, self.name)


def upsert_to_json(command: UpsertSchedule) -> dict[str, object]:
    found: dict[str, object] = to_json(command)
    return found


def upsert_from_json(data: object) -> UpsertSchedule:
    """Raises UsageError for what is none."""
    try:
        command = from_json(UpsertSchedule, data, load_trigger) if isinstance(data, Mapping) else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        hint = "Send what, who, target and what it is."
        raise UsageError(f"The request cannot be read: {error}.", hint=hint) from error
    if command is None or not command.who:
        raise UsageError("The request does not say what is wanted, or by whom.", hint='Send "what" and "who".')
    return command


def build_new_target(target: Target) -> NewTarget:
    """A target of a file, as a request carries it."""
    return NewTarget(kind=target.kind, spec=to_json(target.spec), max_concurrent=target.max_concurrent)


def build_new_schedule(schedule: Schedule) -> NewSchedule:
    plan = ScheduleSpec(trigger=schedule.trigger, policies=schedule.policies)
    return NewSchedule(plan=plan, brief=RunSpec(prompt=schedule.prompt), enabled=schedule.enabled)


def execute_upsert(tx: Transaction, now: datetime, command: UpsertSchedule) -> JsonObject:
    """Do it. Raises Refused for what a file owns or what exists already, NotFound for what does not."""
    known = tx.targets().get(command.target)
    rows = tx.schedule_list_by_target([known[0]]) if known is not None else {}
    by_name = {name: (number, row) for (_, name), (number, row) in rows.items()}
    if command.what is ChangeKind.REMOVE:
        return _execute_delete(tx, now, command, known, by_name)
    _validate_upsert(command, known, by_name)
    targets, schedules = _build_entities(command)
    apply_fleet(tx, _build_fleet(targets, schedules), now, command.who, is_whole=False, reason=command.reason)
    return _serialize_upsert(tx, command)


def upsert_offline(path: StoreLocation, now: datetime, command: UpsertSchedule) -> JsonObject:
    """While nothing runs: written under the state lock. Raises Conflict if something does."""
    with exclusive_lock(path):
        store = create_store(path)
        store.open()
        try:
            return store.write_now(lambda tx: execute_upsert(tx, now, command))
        finally:
            store.close()


def require_unmanaged(label: str, origin: str) -> None:
    """Raises Refused if a file says what it is."""
    if not is_unmanaged(origin):
        where = f" in {origin}" if origin else " in its file"
        raise UpsertRejected(
            f'"{label}" stands{where}.',
            hint=f"Change it there, and it is applied. To hold it for now: herdbeat disable {label}",
        )


def _validate_upsert(
    command: UpsertSchedule, known: tuple[int, TargetRow] | None, by_name: Mapping[str, tuple[int, ScheduleRow]]
) -> None:
    if known is None and command.new_target is None:
        hint = "Say what it is: --command, --url, --call or --runtime; or correct the name."
        raise NotFound(f'There is no target "{command.target}".', hint=hint)
    if known is not None and command.new_target is not None:
        raise UpsertRejected(
            f'There is already a target "{command.target}", {_describe_origin(known[1].origin)}.',
            hint=f"Add a schedule to it: herdbeat create {command.target}/NAME --every 1h",
        )
    stored = by_name.get(command.name or "")
    if command.what is ChangeKind.ADD and stored is not None:
        hint = f"Change it with herdbeat update {command.label}, or choose another name."
        raise UpsertRejected(
            f'There is already a schedule "{command.label}", {_describe_origin(stored[1].origin)}.', hint=hint
        )
    if command.what is ChangeKind.EDIT:
        if stored is None:
            raise NotFound(f'There is no schedule "{command.label}".', hint="See: herdbeat list")
        require_unmanaged(command.label, stored[1].origin)


def _describe_origin(origin: str) -> str:
    return f"made by {origin}" if is_unmanaged(origin) else f"in {origin or 'its file'}"


def _build_entities(command: UpsertSchedule) -> tuple[tuple[Target, ...], tuple[Schedule, ...]]:
    targets: tuple[Target, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    if command.new_target is not None:
        new = command.new_target
        spec = from_json(SPEC_TYPES[new.kind], new.spec, load_trigger)
        targets = (Target(name=command.target, spec=spec, max_concurrent=new.max_concurrent, origin=command.way),)
    if command.new_schedule is not None and command.name is not None:
        plan, brief = command.new_schedule.plan, command.new_schedule.brief
        schedule = Schedule(target=command.target, name=command.name, trigger=plan.trigger, policies=plan.policies)
        fields = {"prompt": brief.prompt, "work_source": brief.work_source, "enabled": command.new_schedule.enabled}
        schedules = (replace(schedule, origin=command.way, **fields),)  # type: ignore[arg-type]
    return targets, schedules


def _build_fleet(targets: tuple[Target, ...], schedules: tuple[Schedule, ...]) -> Fleet:
    zone = schedules[0].policies.zone if schedules else _UTC
    return Fleet(name="", zone=zone, targets=targets, schedules=schedules, store="", server=ServerSettings())


def _execute_delete(
    tx: Transaction,
    now: datetime,
    command: UpsertSchedule,
    known: tuple[int, TargetRow] | None,
    by_name: Mapping[str, tuple[int, ScheduleRow]],
) -> JsonObject:
    if known is None or (command.name is not None and command.name not in by_name):
        if known is not None and command.name == DEFAULT_SCHEDULE_NAME:
            require_unmanaged(command.target, known[1].origin)
        raise NotFound(f'There is no schedule or target "{command.label}".', hint="See: herdbeat list")
    is_whole = command.name is None
    removed_rows = by_name if is_whole else {command.name: by_name[command.name]} if command.name else {}
    if is_whole:
        require_unmanaged(command.label, known[1].origin)
    for name, (_, row) in removed_rows.items():
        require_unmanaged(display_name(command.target, str(name)), row.origin)
    remove_schedules(tx, now, [number for number, _ in removed_rows.values()])
    subjects = [f"{command.target}/{name}" for name in removed_rows]
    if is_whole:
        tx.remove_targets([known[0]], now)
        subjects.append(command.target)
    after = {"reason": command.reason} if command.reason else None
    tx.add_changes(
        [Change(at=now, who=command.who, what=ChangeKind.REMOVE, subject=each, after=after) for each in subjects]
    )
    return {"what": command.what, "subject": command.label, "removed": subjects, "next_run_at": None}


def _serialize_upsert(tx: Transaction, command: UpsertSchedule) -> JsonObject:
    number = tx.targets()[command.target][0]
    stored = tx.schedule_list_by_target([number]).get((number, command.name or ""))
    snapshot = tx.schedules([stored[0]])[stored[0]] if stored is not None else None
    return {
        "what": command.what,
        "subject": command.label,
        "removed": [],
        "next_run_at": format_optional_timestamp(snapshot.next_run_at if snapshot else None),
        "when": snapshot.plan.trigger.describe() if snapshot else None,
        "enabled": snapshot.enabled if snapshot else None,
    }
