"""Records as the JSON that every machine-readable face gives: one serialiser, so that they cannot differ."""

from datetime import datetime

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.service.queries.schedule_state import is_enabled
from herdbeat.timestamps import format_timestamp

JsonObject = dict[str, object]


def serialize_beat(beat: BeatRecord) -> JsonObject:
    return {
        "id": format_short_id(beat.id),
        "schedule": beat.schedule,
        "due_at": format_timestamp(beat.due_at),
        "last_due_at": format_timestamp(beat.last_due_at),
        "count": beat.count,
        "outcome": beat.outcome,
        "reason": beat.reason,
        "source": beat.source,
        "origin": beat.origin,
        "dedup_id": beat.dedup_id,
        "runs": [format_short_id(run) for run in beat.runs],
    }


def serialize_run(run: RunRecord) -> JsonObject:
    return {
        "id": format_short_id(run.id),
        "schedule": run.schedule,
        "status": run.status,
        "attempt": run.attempt,
        "started_at": format_optional_timestamp(run.began_at),
        "finished_at": format_optional_timestamp(run.finished_at),
        "code": run.code,
        "error": run.error,
        "summary": run.summary,
        "note": run.note,
        "source": run.source,
        "origin": run.origin,
        "due_at": format_timestamp(run.due_at),
        "dedup_id": run.dedup_id,
        "beat": format_short_id(run.beat_id),
    }


def serialize_schedule(record: ScheduleRecord, state: str) -> JsonObject:
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
        "enabled": is_enabled(record),
        "disabled_by": record.disabled_by,
        "paused": record.paused,
        "paused_until": format_optional_timestamp(record.paused_until),
        "paused_by": record.paused_by,
        "paused_reason": record.paused_reason,
        "quarantine": record.quarantine,
        "next_run_at": format_optional_timestamp(record.next_run_at),
        "source": record.next_source,
        "origin": record.next_origin,
        "last_started_at": format_optional_timestamp(record.last_started_at),
        "last_run_at": format_optional_timestamp(record.last_run_at),
        "last_status": record.last_status,
        "last_error": record.last_error,
        "failures": record.failures,
        "running": record.running,
        "waiting": record.waiting,
        "written_at": record.origin,
    }


def serialize_page(items: list[JsonObject], next_cursor: str | None) -> JsonObject:
    return {"items": items, "next_cursor": next_cursor}


def format_optional_timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)
