"""What other programs read and send: the JSON of records, of requests through the socket, and of their answers."""

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.golden_json import check_golden, find_unfilled_fields
from tests.support.stored_values import NOW, RUN_SPEC, SCHEDULE_SPECS, TARGET_SPECS

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.codec import to_json
from herdbeat.domain.decision import Source
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import CreatedVia
from herdbeat.scheduler.apply.apply import ApplyResult
from herdbeat.service.commands.base import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    SkipBeats,
    command_from_json,
    command_to_json,
)
from herdbeat.service.commands.fleet import (
    NewSchedule,
    NewTarget,
    UpsertSchedule,
    serialize_apply_result,
    upsert_from_json,
    upsert_to_json,
)
from herdbeat.service.commands.schedules import ScheduleChange, serialize_schedule_change
from herdbeat.service.maintenance.retention import PruneResult
from herdbeat.service.maintenance.state_file import ImportResult
from herdbeat.service.serialize import (
    serialize_beat,
    serialize_change,
    serialize_page,
    serialize_run,
    serialize_schedule,
)

GOLDEN = Path(__file__).parent / "golden"
MINUTE = timedelta(minutes=1)

BEAT = BeatRecord(
    id=237_684,
    schedule="triage/hourly",
    due_at=NOW - 2 * MINUTE,
    last_due_at=NOW - MINUTE,
    count=2,
    outcome=BeatOutcome.SKIPPED,
    reason=SkipReason.ALREADY_RUNNING,
    source=Source.CATCH_UP,
    origin="human:you",
    dedup_id="triage/hourly@1",
    settled_at=NOW,
    runs=(7, 8),
    last_status=RunStatus.FAILED,
)
RUN = RunRecord(
    id=7,
    schedule="triage/hourly",
    beat_id=237_684,
    attempt=2,
    status=RunStatus.TIMED_OUT,
    claimed_at=NOW - 3 * MINUTE,
    started_at=NOW - 2 * MINUTE,
    finished_at=NOW - MINUTE,
    code=1,
    error="exit status 1",
    summary="nothing to do",
    log="logs/7",
    source=Source.RETRY,
    origin="human:you",
    due_at=NOW - 4 * MINUTE,
    dedup_id="triage/hourly@1",
    note="the check is broken",
)
SCHEDULE = ScheduleRecord(
    id=3,
    target="triage",
    name="hourly",
    plan=SCHEDULE_SPECS["cron"],
    origin="herdbeat.yaml:7:5",
    enabled=True,
    disabled_by="human:you",
    quarantine="it cannot be decided",
    next_run_at=NOW + MINUTE,
    next_due_at=NOW + 2 * MINUTE,
    next_source=Source.CLAMPED_MAX,
    next_origin="rule:surge",
    next_trace="{}",
    anchor_at=NOW - 9 * MINUTE,
    is_new=True,
    failures=4,
    running=5,
    waiting=6,
    paused=True,
    paused_until=NOW + 8 * MINUTE,
    paused_by="agent:triage",
    paused_reason="release",
    last_started_at=NOW - 7 * MINUTE,
    last_run_at=NOW - 6 * MINUTE,
    last_status=RunStatus.INTERRUPTED,
    last_error="exit status 2",
    target_room=2,
    target_running=1,
    skips=1,
    skips_by="human:you",
    skips_reason="holiday",
    runs=12,
)
ACTS: list[ScheduleCommand] = [
    PauseSchedules(who="human:you", reason="release", until=NOW),
    ResumeSchedules(who="human:you", reason="done"),
    DisableSchedules(who="human:you", reason="broken"),
    EnableSchedules(who="human:you", reason="whole"),
    HintSchedules(who="rule:surge", reason="many", every=90.5, lasts=3600.0),
    HintSchedules(who="rule:surge", reason="once", at=NOW),
    ClearHints(who="human:you", reason="calm"),
    ResetSchedules(who="human:you", reason="fixed"),
    SkipBeats(who="human:you", reason="holiday", count=3),
]
MAKING = UpsertSchedule(
    what=ChangeKind.ADD,
    who="human:you",
    target="triage",
    name="hourly",
    new_target=NewTarget(kind="command", spec=to_json(TARGET_SPECS["command"]), max_concurrent=2),
    new_schedule=NewSchedule(plan=SCHEDULE_SPECS["interval"], brief=RUN_SPEC, enabled=False),
    way=CreatedVia.API,
    reason="new",
)
CHANGED = ScheduleChange(
    schedule="triage/hourly",
    is_changed=True,
    before={"paused": False},
    after={"paused": True},
    next_run_at=NOW,
    source=Source.PAUSED,
    running=1,
    notes=("it is disabled",),
    refused="paused by human:you",
    fix="Ask that person.",
)
CHANGE = Change(
    at=NOW, who="human:you", what=ChangeKind.CLEAR_HINTS, subject="triage/hourly", before={"a": 1}, after={"a": 2}, id=9
)
ARRANGED = ApplyResult(added=["a/new"], changed=["a/b"], removed=["a/old"])
PRUNED = PruneResult(beats=1, runs=2, logs=3, plans=4, hints=5, changes=6)
REMEMBERED = ImportResult(taken=("a/b",), kept=("a/c",), empty=("a/d",), unknown=("x/y",))


def test_records_look_as_they_always_did() -> None:
    records = {
        "beat": serialize_beat(BEAT),
        "run": serialize_run(RUN),
        "schedule": serialize_schedule(SCHEDULE, "paused"),
        "page": serialize_page([], "cursor"),
        "change": serialize_change(CHANGE),
    }

    check_golden(GOLDEN / "records.json", records)


def test_answers_of_commands_look_as_they_always_did() -> None:
    answers = {
        "apply": serialize_apply_result(ARRANGED),
        "change": serialize_schedule_change(CHANGED),
        "prune": asdict(PRUNED),
        "state import": asdict(REMEMBERED),
    }

    check_golden(GOLDEN / "answers.json", answers)


def test_requests_through_the_socket_look_as_they_always_did() -> None:
    """A node of the last version may be asked by a command of this one, and the other way round."""
    check_golden(
        GOLDEN / "requests.json", {"change": [command_to_json(act) for act in ACTS], "make": upsert_to_json(MAKING)}
    )

    read = _golden("requests")
    assert [command_from_json(each) for each in read["change"]] == ACTS
    assert upsert_from_json(read["make"]) == MAKING


def test_no_field_is_overlooked() -> None:
    values = [BEAT, RUN, SCHEDULE, ACTS, MAKING, CHANGED, CHANGE, ARRANGED, PRUNED, REMEMBERED]

    assert find_unfilled_fields(values) == []


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
