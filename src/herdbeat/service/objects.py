"""Records as the JSON that every machine-readable face gives: one serialiser, so that they cannot differ."""

from datetime import datetime

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.moments import format_moment

Json = dict[str, object]


def beat_object(beat: BeatRecord) -> Json:
    return {
        "id": short_id(beat.id),
        "schedule": beat.schedule,
        "due_at": format_moment(beat.due_at),
        "last_due_at": format_moment(beat.last_due_at),
        "count": beat.count,
        "outcome": beat.outcome,
        "reason": beat.reason,
        "source": beat.source,
        "origin": beat.origin,
        "dedup_id": beat.dedup_id,
        "runs": [short_id(run) for run in beat.runs],
    }


def run_object(run: RunRecord) -> Json:
    return {
        "id": short_id(run.id),
        "schedule": run.schedule,
        "status": run.status,
        "attempt": run.attempt,
        "started_at": moment_or_null(run.began_at),
        "finished_at": moment_or_null(run.finished_at),
        "code": run.code,
        "error": run.error,
        "summary": run.summary,
        "note": run.note,
        "source": run.source,
        "origin": run.origin,
        "due_at": format_moment(run.due_at),
        "dedup_id": run.dedup_id,
        "beat": short_id(run.beat_id),
    }


def schedule_object(record: ScheduleRecord, state: str) -> Json:
    trigger, policies = record.plan.trigger, record.plan.policies
    return {
        "schedule": record.label,
        "target": record.target,
        "name": record.name,
        "state": state,
        "trigger": {"kind": trigger.kind, **trigger.options()},
        "when": trigger.describe(),
        "timezone": policies.zone.key,
        "tags": list(policies.tags),
        "group": policies.group,
        "enabled": record.enabled and record.disabled_by is None,
        "disabled_by": record.disabled_by,
        "paused": record.paused,
        "paused_until": moment_or_null(record.paused_until),
        "paused_by": record.paused_by,
        "paused_reason": record.paused_reason,
        "quarantine": record.quarantine,
        "next_run_at": moment_or_null(record.next_run_at),
        "source": record.next_source,
        "origin": record.next_origin,
        "last_started_at": moment_or_null(record.last_started_at),
        "last_run_at": moment_or_null(record.last_run_at),
        "last_status": record.last_status,
        "last_error": record.last_error,
        "failures": record.failures,
        "running": record.running,
        "waiting": record.waiting,
        "written_at": record.origin,
    }


def page_object(items: list[Json], next_cursor: str | None) -> Json:
    return {"items": items, "next_cursor": next_cursor}


def moment_or_null(moment: datetime | None) -> str | None:
    return None if moment is None else format_moment(moment)
