"""Builders of ledger records: a test states only the fields it is about."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import Trigger
from herdbeat.triggers.interval import Interval

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
MINUTE = timedelta(minutes=1)


def make_schedule_spec(trigger: Trigger | None = None, **policies: Any) -> ScheduleSpec:
    usual = Policies(
        **{"zone": UTC_ZONE, "timeout": timedelta(hours=1), "catchup": Catchup.SKIP, **policies},
    )
    return ScheduleSpec(trigger=trigger or Interval(5 * MINUTE), policies=usual)


def make_schedule_record(**changes: Any) -> ScheduleRecord:
    """Return a schedule that ran a minute ago and runs again in four."""
    fields: dict[str, Any] = {
        "id": 1,
        "target": "triage",
        "name": "standup",
        "plan": make_schedule_spec(),
        "origin": "herdbeat.yaml:7:5",
        "enabled": True,
        "disabled_by": None,
        "quarantine": None,
        "next_run_at": NOW + 4 * MINUTE,
        "next_due_at": NOW + 4 * MINUTE,
        "next_source": Source.BASELINE_INTERVAL,
        "next_origin": "",
        "next_trace": None,
        "anchor_at": NOW - MINUTE,
        "is_new": False,
        "failures": 0,
        "running": 0,
        "waiting": 0,
        "paused": False,
        "paused_until": None,
        "paused_by": "",
        "paused_reason": "",
        "last_started_at": NOW - MINUTE,
        "last_run_at": NOW - MINUTE,
        "last_status": RunStatus.SUCCEEDED,
        "last_error": None,
        "target_room": 1,
        "target_running": 0,
    }
    return ScheduleRecord(**{**fields, **changes})


def make_beat_record(**changes: Any) -> BeatRecord:
    fields: dict[str, Any] = {
        "id": 7,
        "schedule": "triage/standup",
        "due_at": NOW - 4 * 60 * MINUTE,
        "last_due_at": NOW - 4 * 60 * MINUTE,
        "count": 1,
        "outcome": BeatOutcome.RAN,
        "reason": "",
        "source": Source.BASELINE_CRON,
        "origin": "",
        "dedup_id": "cron:2026-03-26T09:04:00Z",
        "settled_at": NOW - 3 * 60 * MINUTE,
        "runs": (),
    }
    return BeatRecord(**{**fields, **changes})


def make_run_record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "id": 9,
        "schedule": "triage/standup",
        "beat_id": 7,
        "attempt": 1,
        "status": RunStatus.SUCCEEDED,
        "claimed_at": NOW - MINUTE,
        "started_at": NOW - MINUTE,
        "finished_at": NOW,
        "code": 0,
        "error": None,
        "summary": None,
        "log": None,
        "source": Source.BASELINE_CRON,
        "origin": "",
        "due_at": NOW - MINUTE,
        "dedup_id": "cron:2026-03-26T13:03:00Z",
    }
    return RunRecord(**{**fields, **changes})
