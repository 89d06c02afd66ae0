"""What other programs read and send: the JSON of records, of requests through the socket, and of their answers."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.command_samples import APPLIED, CHANGED, COMMANDS, IMPORTED, PRUNED
from tests.support.golden_json import check_golden, find_unfilled_fields
from tests.support.stored_values import NOW, SCHEDULE_SPECS

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.decision import Source
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.service.commands.base import command_from_json, command_to_json, result_to_json
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
    session="5e55",
    usage={"tokens": 12, "usd": 0.5},
    spend_source="reported",
    is_notional=True,
    error_code="max_turns",
    quiet=True,
    empty_answer=True,
    branch="herdbeat/triage/7f3k",
    needs_you=("Bash: git push",),
    acked_by="human:you",
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
    windows=(PauseWindow(id=4, from_at=NOW, until=NOW + MINUTE, by="human:you", reason="database"),),
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
    was_cut_off=True,
    retry_at=NOW + MINUTE,
    retry_attempt=2,
)
CHANGE = Change(
    at=NOW, who="human:you", what=ChangeKind.CLEAR_HINTS, subject="triage/hourly", before={"a": 1}, after={"a": 2}, id=9
)


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
        "apply": result_to_json(APPLIED),
        "change": result_to_json(CHANGED),
        "prune": result_to_json(PRUNED),
        "state import": result_to_json(IMPORTED),
    }

    check_golden(GOLDEN / "answers.json", answers)


def test_commands_through_the_socket_look_as_they_always_did() -> None:
    """A server that runs in a process of its own may be of another version than the node."""
    check_golden(GOLDEN / "requests.json", {"commands": [command_to_json(each) for each in COMMANDS]})

    assert [command_from_json(each) for each in _golden("requests")["commands"]] == COMMANDS


def test_every_field_of_the_golden_samples_is_filled() -> None:
    assert find_unfilled_fields([BEAT, RUN, SCHEDULE, CHANGE, COMMANDS, CHANGED, APPLIED, PRUNED, IMPORTED]) == []


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
