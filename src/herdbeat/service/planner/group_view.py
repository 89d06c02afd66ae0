"""What a session sees of its group: schedules, limits, what is in force, and their last runs. Also of idle ones."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.past_run import PastRun
from herdbeat.domain.planner import PlannerSettings
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.selection import Selection
from herdbeat.durations import format_duration
from herdbeat.planner.session_tools import MAX_HISTORY_RUNS, PlannedSchedule, RunGlimpse
from herdbeat.redaction import redact_data
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.store.reader import Reader
from herdbeat.timestamps import format_optional_timestamp

MAX_GROUP_SCHEDULES = 100


def find_groups(fleet: Fleet, settings: PlannerSettings) -> tuple[str, ...]:
    """Return the groups to analyse, in file order. Groups that no schedule has are left out."""
    known = dict.fromkeys(group for each in fleet.schedules if (group := each.policies.group))
    return tuple(name for name in known if not settings.groups or name in settings.groups)


class GroupView(NamedTuple):
    """The schedules of a group by name, and their ids in the ledger."""

    schedules: Mapping[str, PlannedSchedule]
    ids: Mapping[str, int]


def load_group(reader: Reader, group: str, now: datetime) -> GroupView:
    """Return what a session sees of a group. Raises NotFound if no schedule is in it."""
    records = select_schedules(reader, Selection(groups=(group,)))[:MAX_GROUP_SCHEDULES]
    hints: dict[str, list[str]] = {}
    for each in reader.hints([record.id for record in records]):
        if each.ended_at is None and each.expires_at > now:
            what = f"every {format_duration(each.every)}" if each.every else f"at {format_optional_timestamp(each.at)}"
            hints.setdefault(each.schedule, []).append(f"{what} by {each.origin}")
    return GroupView(
        {record.label: _describe(reader, record, hints.get(record.label, [])) for record in records},
        {record.label: record.id for record in records},
    )


def _describe(reader: Reader, record: ScheduleRecord, hints: list[str]) -> PlannedSchedule:
    runs = reader.past_runs(record.id, limit=MAX_HISTORY_RUNS)
    return PlannedSchedule(
        label=record.label, facts=_list_facts(record, hints), runs=tuple(_to_glimpse(each) for each in runs)
    )


def _list_facts(record: ScheduleRecord, hints: list[str]) -> Mapping[str, object]:
    limits = record.plan.policies.limits
    facts: dict[str, object] = {
        "runs": record.plan.trigger.describe(),
        "min_interval": format_duration(limits.at_least) if limits.at_least else None,
        "max_interval": format_duration(limits.at_most) if limits.at_most else None,
        "next_run_at": format_optional_timestamp(record.next_run_at),
        "failures": record.failures or None,
        "paused": {"by": record.paused_by, "reason": record.paused_reason} if record.paused else None,
        "hints": hints or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _to_glimpse(run: PastRun) -> RunGlimpse:
    took = None if run.finished_at is None else round((run.finished_at - run.started_at).total_seconds() * 1_000)
    return RunGlimpse(
        at=run.started_at,
        status=run.skip_reason or str(run.status),
        duration_ms=took,
        response=redact_data(run.response),
    )
