"""Records as the JSON that every machine-readable face gives: one serialiser, so that they cannot differ."""

from datetime import datetime

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import BeatRecord, RunRecord
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
        "started_at": moment_or_null(run.started_at or run.claimed_at),
        "finished_at": moment_or_null(run.finished_at),
        "code": run.code,
        "error": run.error,
        "summary": run.summary,
        "source": run.source,
        "origin": run.origin,
        "due_at": format_moment(run.due_at),
        "dedup_id": run.dedup_id,
        "beat": short_id(run.beat_id),
    }


def page_object(items: list[Json], next_cursor: str | None) -> Json:
    return {"items": items, "next_cursor": next_cursor}


def moment_or_null(moment: datetime | None) -> str | None:
    return None if moment is None else format_moment(moment)
