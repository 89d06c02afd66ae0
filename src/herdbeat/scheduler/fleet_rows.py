"""A fleet as rows of the ledger, and what is in one and not in the other: for who applies it, and who foresees."""

import json
from collections.abc import Collection, Iterable, Mapping

from herdbeat.domain.brief import Brief
from herdbeat.domain.codec import to_json
from herdbeat.domain.origin import is_by_hand
from herdbeat.domain.plan import Plan
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.store.base import ScheduleRow, TargetRow

Rows = Mapping[tuple[int, str], tuple[int, ScheduleRow]]
"""The schedules of a ledger by target and name, with their ids."""


def target_row(target: Target) -> TargetRow:
    return TargetRow(
        name=target.name,
        kind=target.kind,
        spec=_text(target.spec),
        origin=str(target.origin or ""),
        max_concurrent=target.max_concurrent,
    )


def schedule_row(schedule: Schedule, target_id: int, plan_id: int) -> ScheduleRow:
    brief = Brief(
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
        brief=_text(brief),
        origin=str(schedule.origin or ""),
        enabled=schedule.enabled,
    )


def plan_text(plan: Plan) -> str:
    """A plan as it is stored: those of one text share one row."""
    return _text(plan)


def is_only_moved(stored: ScheduleRow, row: ScheduleRow) -> bool:
    """The same at another line: nothing to decide again, and nothing to tell."""
    return stored._replace(origin=row.origin) == row and is_by_hand(stored.origin) == is_by_hand(row.origin)


def gone_from(stored: Rows, wanted: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """What the files had, and have no more. What somebody made by hand was never in them."""
    left = stored.keys() - set(wanted)
    return [key for key, (_, row) in stored.items() if key in left and not is_by_hand(row.origin)]


def gone_targets(
    before: Mapping[str, tuple[int, TargetRow]], wanted: Iterable[str], kept: Collection[int]
) -> list[str]:
    """The same for targets. One whose schedules stay is kept: they would have nothing to run."""
    left = before.keys() - set(wanted)
    gone = [(name, *before[name]) for name in before if name in left]
    return [name for name, number, row in gone if number not in kept and not is_by_hand(row.origin)]


def _text(value: object) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True)
