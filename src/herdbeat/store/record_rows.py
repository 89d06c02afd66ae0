"""Rows of the ledger, read as records: what a question about beats, runs, schedules and nodes is answered with."""

import json
from functools import lru_cache
from typing import Any

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.brief import RunSpec
from herdbeat.domain.codec import from_json
from herdbeat.domain.decision import Source
from herdbeat.domain.plan import ScheduleSpec
from herdbeat.domain.records import BeatRecord, NodeRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.schedule import display_name
from herdbeat.domain.target import SPEC_TYPES, TargetSpec
from herdbeat.store.micros import from_micros
from herdbeat.store.plans import PLACEHOLDER_PLAN, describe_read_error, read_plan
from herdbeat.triggers import load_trigger


def read_node(row: Any) -> NodeRecord:
    number, host, pid, version, *times, labels, works, running = row
    started, seen, stopped, lease_until = (from_micros(micros) for micros in times)
    return NodeRecord(
        id=number,
        host=host,
        pid=pid,
        version=version,
        started_at=started,
        seen_at=seen,
        stopped_at=stopped,
        labels=tuple(json.loads(labels)),
        lease_until=lease_until,
        works=bool(works),
        running=running,
    )


# Thousands of schedules say the same: each text is read once.
@lru_cache(maxsize=1_000)
def read_run_spec(text: str) -> RunSpec:
    return from_json(RunSpec, json.loads(text), load_trigger)


@lru_cache(maxsize=1_000)
def read_target_spec(kind: str, text: str) -> TargetSpec:
    return from_json(SPEC_TYPES[kind], json.loads(text), load_trigger)


def read_beat(row: Any) -> BeatRecord:
    return BeatRecord(
        id=row[0],
        schedule=display_name(row[1], row[2]),
        due_at=from_micros(row[3]),
        last_due_at=from_micros(row[4]),
        count=row[5],
        outcome=BeatOutcome(row[6]),
        reason=row[7],
        source=Source(row[8]),
        origin=row[9],
        dedup_id=row[10],
        settled_at=from_micros(row[11]),
        runs=tuple(json.loads(row[12])),
        last_status=RunStatus(row[13]) if row[13] else None,
    )


def read_run(row: Any) -> RunRecord:
    return RunRecord(
        id=row[0],
        schedule=display_name(row[1], row[2]),
        beat_id=row[3],
        attempt=row[4],
        status=RunStatus(row[5]),
        claimed_at=from_micros(row[6]),
        started_at=from_micros(row[7]),
        finished_at=from_micros(row[8]),
        code=row[9],
        error=row[10],
        summary=row[11],
        log=row[12],
        source=Source(row[13]),
        origin=row[14],
        due_at=from_micros(row[15]),
        dedup_id=row[16],
        note=row[17] or "",
    )


def read_schedule(row: Any) -> ScheduleRecord:
    plan, unreadable = _read_plan_or_placeholder(row[3])
    return ScheduleRecord(
        id=row[0],
        target=row[1],
        name=row[2],
        plan=plan,
        origin=row[4],
        enabled=bool(row[5]),
        disabled_by=row[6],
        quarantine=row[7] or unreadable,
        next_run_at=from_micros(row[8]),
        next_due_at=from_micros(row[9]),
        next_source=Source(row[10]) if row[10] else None,
        next_origin=row[11],
        next_trace=row[12],
        anchor_at=from_micros(row[13]),
        is_new=bool(row[14]),
        failures=row[15],
        running=row[16],
        waiting=row[17],
        paused=bool(row[18]),
        paused_until=from_micros(row[19]),
        paused_by=row[20],
        paused_reason=row[21],
        last_started_at=from_micros(row[22]),
        last_run_at=from_micros(row[23]),
        last_status=RunStatus(row[24]) if row[24] else None,
        last_error=row[25],
        target_room=row[26],
        target_running=row[27],
        skips=row[28],
        skips_by=row[29],
        skips_reason=row[30],
        runs=row[31],
    )


@lru_cache(maxsize=4_096)
def _read_plan_or_placeholder(text: str) -> tuple[ScheduleSpec, str | None]:
    """A plan, or what stands in for it and why. A listing of ten thousand schedules reads a handful of texts."""
    try:
        return read_plan(text), None
    except Exception as error:  # noqa: BLE001 - one schedule that cannot be read must not hide all the others
        return PLACEHOLDER_PLAN, describe_read_error(error)
