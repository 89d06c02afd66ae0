"""The keys of every object that CLI, REST and MCP share, in their order. Programs read them: a key is never renamed."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.record_builders import MINUTE, NOW, make_run_record

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import HintRecord, NodeRecord, TimelineSpan
from herdbeat.domain.run import RunStatus
from herdbeat.service import serialize
from herdbeat.service.queries.details import find_details
from herdbeat.service.queries.explain import load_next_explanation
from herdbeat.service.queries.hints import HintState, HintView
from herdbeat.service.queries.logs import LogEntry, LogEntryKind
from herdbeat.service.queries.nodes import NodeState, NodeView
from herdbeat.service.queries.schedules import list_schedules
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.service.queries.status import read_status
from herdbeat.service.serialize import JsonObject
from herdbeat.store.reader import Filter, ScheduleQuery, SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd

BEAT = "id schedule due_at last_due_at count outcome result reason source origin dedup_id runs"
RUN = "id schedule status attempt started_at finished_at code error summary note source origin due_at dedup_id beat"
SCHEDULE = (
    "schedule target name state trigger when interval_s timezone tags group enabled disabled_by paused paused_until "
    "paused_by paused_reason quarantine next_run_at due_at starts_at source origin last_started_at last_run_at "
    "last_status last_error failures running waiting retry planned_pauses written_at"
)


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("triage/standup", every="5m", runner=ScriptedRunner(fails=9))
        herd.schedule("triage/labels", cron="0 9 * * *")
        await herd.tick()
        herd.pause("triage/labels", until=herd.now + timedelta(hours=1))
        yield herd


@pytest.fixture
def reader(herd: SimulatedHerd) -> Iterator[SqliteReader]:
    reader = SqliteReader(herd.store.path)
    yield reader
    reader.close()


def assert_keys(answer: JsonObject, *keys: str) -> None:
    assert " ".join(answer) == " ".join(keys)
    json.dumps(answer)  # everything in it is JSON


async def test_a_schedule_summary_is_serialized(herd: SimulatedHerd, reader: SqliteReader) -> None:
    (first, _) = list_schedules(reader, ScheduleQuery(now=herd.now)).rows

    assert_keys(serialize.serialize_summary(first), SCHEDULE, "pace recent account_hold")


async def test_the_details_of_each_kind_are_serialized(herd: SimulatedHerd, reader: SqliteReader) -> None:
    (run,) = reader.runs(Filter(limit=1))
    run_id, beat_id = format_short_id(run.id), format_short_id(run.beat_id)
    answers = [
        serialize.serialize_details(find_details(reader, selector, herd.now))
        for selector in ("triage", "triage/standup", f"run:{run_id}", f"beat:{beat_id}")
    ]

    assert_keys(answers[0], "target kind max_concurrent running budget written_at schedules")
    assert_keys(answers[1], SCHEDULE, "kind prompt next hints policies runs")
    assert_keys(answers[2], RUN, "node executor response usage session item hooks attempts beat_outcome request")
    assert_keys(answers[3], BEAT, "request")


async def test_an_explanation_is_serialized_with_its_gates(herd: SimulatedHerd, reader: SqliteReader) -> None:
    record = find_schedule(reader, "triage/standup")
    explanation = load_next_explanation(reader, record, herd.now, has_live_node=True)

    assert_keys(
        serialize.serialize_explanation(explanation),
        "schedule now next_run_at source origin state steps scheduler gates hints rules last then facts fix beat run"
        " text",
    )
    assert_keys(serialize.serialize_gate(explanation.gates[-1]), "gate ok used max")


async def test_the_status_of_a_fleet_is_serialized(herd: SimulatedHerd, reader: SqliteReader) -> None:
    status = serialize.serialize_status(read_status(reader, herd.now, 7, zone=ZoneInfo("UTC")), "herd")

    assert_keys(
        status,
        "fleet now scheduler schedules today running cut_off late failing held needs_you accounts over_budget next",
    )
    assert status["held"] == [
        {
            "schedule": "triage/labels",
            "state": "paused",
            "until": "2026-03-02T04:00:00Z",
            "by": "human:you",
            "reason": "told to",
        }
    ]
    assert status["failing"] == [
        {"schedule": "triage/standup", "failures": 1, "error": "it was told to fail", "retry": None}
    ]


def test_the_spans_of_a_timeline_are_serialized() -> None:
    span = TimelineSpan(1, BeatOutcome.RAN, NOW, NOW, 1, RunStatus.SUCCEEDED, NOW, None)

    assert_keys(
        serialize.serialize_span(span, "triage/standup"),
        "schedule outcome due_at last_due_at count status started_at finished_at",
    )


def test_nodes_are_serialized() -> None:
    node = NodeRecord(id=7, host="web1", pid=1, version="1", started_at=NOW, seen_at=NOW, stopped_at=None)

    (answer,) = serialize.serialize_nodes([NodeView(record=node, state=NodeState.ALIVE)]).values()

    assert isinstance(answer, list)
    assert_keys(answer[0], "id host pid version state works labels running started_at seen_at lease_until stopped_at")


def test_hints_changes_and_output_lines_are_serialized() -> None:
    hint = HintRecord(
        id=1,
        schedule="triage/standup",
        origin="ai",
        every=MINUTE,
        at=None,
        reason="",
        expires_at=NOW + MINUTE,
        created_at=NOW,
        ended_at=None,
        ended_by="",
    )
    change = Change(id=1, at=NOW, who="human:you", what=ChangeKind.PAUSE, subject="triage/standup", after={"skips": 1})
    entry = LogEntry(at=NOW, run=make_run_record(), kind=LogEntryKind.OUT, text="done")

    assert_keys(
        serialize.serialize_hint(HintView(record=hint, state=HintState.ACTIVE)),
        "id schedule state every every_s at origin reason created_at expires_at ended_at ended_by",
    )
    assert_keys(serialize.serialize_change(change), "id at who what subject before after")
    assert_keys(serialize.serialize_log_entry(entry), "at schedule run stream text")
