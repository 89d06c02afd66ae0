"""A fleet as rows of the ledger, and what is in one and not in the other: for who applies it, and who foresees."""

import json
from collections.abc import Collection, Iterable, Mapping

from herdbeat.domain.codec import to_json
from herdbeat.domain.schedule import RunSpec, Schedule
from herdbeat.domain.target import Target, is_unmanaged
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.store.base import ScheduleRow, TargetRow

StoredSchedules = Mapping[tuple[int, str], tuple[int, ScheduleRow]]
"""The schedules of a ledger by target and name, with their ids."""


def target_row(target: Target) -> TargetRow:
    return TargetRow(
        name=target.name,
        kind=target.kind,
        spec=_to_canonical_json(target.spec),
        origin=str(target.origin or ""),
        max_concurrent=target.max_concurrent,
    )


def schedule_row(schedule: Schedule, target_id: int, plan_id: int) -> ScheduleRow:
    brief = RunSpec(
        prompt=schedule.prompt,
        work_source=schedule.work_source,
        resume_session=schedule.resume_session,
        output_to_file=schedule.output_to_file,
    )
    return ScheduleRow(
        target_id=target_id,
        name=schedule.name,
        kind=schedule.trigger.kind,
        plan_id=plan_id,
        brief=_to_canonical_json(brief),
        origin=str(schedule.origin or ""),
        enabled=schedule.enabled,
    )


def serialize_spec(plan: ScheduleSpec) -> str:
    """A plan as it is stored: those of one text share one row."""
    return _to_canonical_json(plan)


def is_only_moved(stored: ScheduleRow, row: ScheduleRow) -> bool:
    """The same at another line: nothing to decide again, and nothing to tell."""
    return stored._replace(origin=row.origin) == row and is_unmanaged(stored.origin) == is_unmanaged(row.origin)


def list_removed_schedules(stored: StoredSchedules, desired: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """What the files had, and have no more. What somebody made by hand was never in them."""
    missing = stored.keys() - set(desired)
    return [key for key, (_, row) in stored.items() if key in missing and not is_unmanaged(row.origin)]


def list_removed_targets(
    before: Mapping[str, tuple[int, TargetRow]], desired: Iterable[str], kept: Collection[int]
) -> list[str]:
    """The same for targets. One whose schedules stay is kept: they would have nothing to run."""
    missing = before.keys() - set(desired)
    removed_targets = [(name, *before[name]) for name in before if name in missing]
    return [name for name, number, row in removed_targets if number not in kept and not is_unmanaged(row.origin)]


def _to_canonical_json(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
