"""Making the ledger match the files: the plan first, then the doing. A single file is a part, and removes nothing."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from herdbeat.config import LoadResult
from herdbeat.config.kinds import FileKind
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.origin import CreatedVia, Origin
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, CommandSpec, Target
from herdbeat.errors import ConfigError, NotFound, SourceLocation, did_you_mean_suffix
from herdbeat.scheduler.arrange import ApplyResult, apply_fleet
from herdbeat.scheduler.foresee import ApplyPlan, PlannedChange, StoredFleet, load_stored_fleet, plan_apply
from herdbeat.service.objects import JsonObject, format_optional_timestamp
from herdbeat.store.opening import create_store, exclusive_lock, ledger_exists, open_audit
from herdbeat.store.places import StoreLocation

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
    return plan_apply(read_stored_fleet(path), fleet, now, is_whole=is_whole)


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
