"""The same story told to a file and to a database: whoever reads either hears the same."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.store_contract import FIVE_MINUTES, HOURLY, build_fleet

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.domain.hint import Hint
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import ReadTimeout
from herdbeat.governor.state import Pause
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, claim_due
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import (
    PostgresLocation,
    StoreHandle,
    StoreLocation,
    create_store,
    ledger_exists,
    open_audit,
    open_reader,
)
from herdbeat.store.reader import Filter, Reader, ScheduleQuery

NOW = datetime(2026, 3, 2, 3, 0, 0, 123_456, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
IDENTITY = NodeInfo(host="here", pid=1, version="test", labels=("gpu",))


def write_sample_history(store: StoreHandle) -> None:
    """Two schedules; one has failed, one is paused and hinted, and somebody has changed something."""
    store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES, hour=HOURLY), NOW))
    node = store.write_now(lambda tx: register_node(tx, NOW, IDENTITY)).node_id
    claimed = store.write_now(lambda tx: claim_due(tx, NOW, ClaimContext(node, 10, CatchupPacer(10))))
    failed = Outcome(status=RunStatus.FAILED, error='it said "no"', code=3, response={"a": [1]}, usage={"tokens": 5})
    ended = [FinishedRun(each.run_id, NOW, failed, log="a.log") for each in claimed.claims]
    store.write_now(lambda tx: complete_runs(tx, NOW + timedelta(seconds=1), ended))
    ids = {
        label: number for (_, label), (number, _) in store.write_now(lambda tx: tx.schedule_list_by_target([1])).items()
    }
    hint = Hint(origin="human:you", every=timedelta(seconds=30), reason="look", expires_at=LATER, created_at=NOW)
    store.write_now(lambda tx: tx.add_hint(ids["hour"], hint, NOW))
    store.write_now(lambda tx: tx.set_pause(ids["hour"], Pause(until=LATER, by="human:you", reason="quiet")))
    change = Change(at=NOW, who="human:you", what=ChangeKind.EDIT, subject="worker/hour", before=None, after={"x": 1})
    store.write_now(lambda tx: tx.add_changes([change]))


@pytest.fixture
def both(tmp_path: Path, database: PostgresLocation) -> Iterator[tuple[Reader, Reader]]:
    places: tuple[StoreLocation, ...] = (tmp_path / "herdbeat.db", database)
    for place in places:
        store = create_store(place)
        store.open()
        write_sample_history(store)
        store.close()
    readers = open_reader(places[0]), open_reader(places[1])
    yield readers
    for reader in readers:
        reader.close()


QUESTIONS: dict[str, Callable[[Reader], Any]] = {
    "beats": lambda reader: reader.beats(Filter()),
    "beats of a schedule": lambda reader: reader.beats(Filter(target="worker", name="pace", outcome=BeatOutcome.RAN)),
    "beats that waited": lambda reader: reader.beats(Filter(outcome=BeatOutcome.PENDING)),
    "beats since": lambda reader: reader.beats(Filter(since=NOW, until=LATER)),
    "runs": lambda reader: reader.runs(Filter()),
    "failed runs": lambda reader: reader.runs(Filter(target="worker", status=RunStatus.FAILED, include_declined=False)),
    "one run": lambda reader: reader.run(1),
    "schedules": lambda reader: reader.schedules(Filter()),
    "failing": lambda reader: reader.failing_schedules(10),
    "held": lambda reader: reader.paused_or_disabled_schedules(10),
    "overdue": lambda reader: reader.overdue_schedules(LATER, 10),
    "soonest": lambda reader: reader.upcoming_schedules(NOW, 10),
    "neighbours": lambda reader: reader.adjacent_beats(1, LATER),
    "beat at": lambda reader: reader.beat_at("worker", "pace", NOW),
    "trace": lambda reader: reader.beat_trace(1),
    "last node": lambda reader: [(node.host, node.labels, node.running) for node in reader.nodes(5)],
    "usage": lambda reader: reader.last_usage(1, 5),
    "briefs": lambda reader: reader.run_specs([1, 2]),
    "targets": lambda reader: reader.targets([1]),
    "changes": lambda reader: [(each.what, each.subject) for each in reader.changes(Filter(target="worker"))],
    "hints": lambda reader: reader.hints([1, 2], ended_since=NOW),
    "all hints": lambda reader: reader.hints(None),
    "found by name": lambda reader: reader.find(ScheduleQuery(now=NOW, names=("worker/p*",))),
    "found by target": lambda reader: reader.find(ScheduleQuery(now=NOW, names=("worker",))),
    "found by state": lambda reader: reader.find(ScheduleQuery(now=NOW, state="paused")),
    "found by no pattern": lambda reader: reader.find(ScheduleQuery(now=NOW, names=("w_rker/pace", "nobody"))),
    "by tag": lambda reader: reader.find(ScheduleQuery(now=NOW, tags=("nightly",))),
    "marks": lambda reader: reader.tags_and_groups(),
    "near": lambda reader: reader.similar_names("worker/pase"),
    "strips": lambda reader: reader.recent_beat_marks([1, 2], 5),
    "details": lambda reader: reader.details(1),
    "spans": lambda reader: reader.spans([1, 2], NOW, LATER, 10),
    "lateness of nodes": lambda reader: list(reader.lateness_by_node(10).values()),
    "stuck": lambda reader: reader.stuck_schedules(10),
    "startable": lambda reader: reader.has_startable_schedule(NOW),
    "recent spans": lambda reader: reader.recent_spans([1, 2], NOW, each=2, limit=10),
    "past spans": lambda reader: reader.recent_spans([1, 2], NOW, LATER, each=2, limit=10),
    "past failures": lambda reader: reader.failures_since(NOW, 10, LATER),
    "schedules of a period": lambda reader: reader.schedules_between(NOW, LATER, 10),
    "changes of a period": lambda reader: [each.what for each in reader.changes(Filter(since=NOW, until=LATER))],
    "number of runs": lambda reader: reader.count_runs(Filter(limit=3)),
    "number of beats": lambda reader: reader.count_beats(Filter(limit=3)),
    "first runs": lambda reader: reader.first_runs([1, 2]),
    "failures since": lambda reader: reader.failures_since(NOW, 10),
    "latest": lambda reader: reader.latest_schedules(NOW, 10),
    "outlines": lambda reader: reader.outlines(ScheduleQuery(now=NOW)),
    "outlines by tag": lambda reader: reader.outlines(ScheduleQuery(now=NOW, tags=("nightly",))),
    "first run since": lambda reader: reader.first_run_since(NOW),
    "active": lambda reader: reader.active_schedules(NOW, 10),
    "lateness": lambda reader: reader.recent_lateness(10),
}


def test_the_readers_of_both_dialects_give_the_same_answers(both: tuple[Reader, Reader]) -> None:
    file, database = both

    for name, question in QUESTIONS.items():
        assert question(database) == question(file), name


def test_the_audits_of_both_dialects_agree(tmp_path: Path, database: PostgresLocation) -> None:
    places: tuple[StoreLocation, ...] = (tmp_path / "herdbeat.db", database)
    answers = []
    for place in places:
        store = create_store(place)
        store.open()
        write_sample_history(store)
        store.close()
        audit = open_audit(place)
        looked = (
            audit.find_inconsistencies(NOW),
            audit.quarantined(),
            audit.damage(),
            list(audit.surplus_beats(0, LATER)),
            audit.unused_plans(10),
            audit.count_ended_hints(LATER),
            audit.read_transaction(lambda tx: tx.schedule_count_open([1, 2])),
        )
        answers.append((ledger_exists(place), *looked[:3], *looked[4:]))

    assert answers[0] == answers[1]


def test_a_query_that_takes_too_long_is_stopped_and_the_next_one_answers(
    both: tuple[Reader, Reader], database: PostgresLocation
) -> None:
    _, reader = both
    reader.limit_reads(timedelta(milliseconds=100))

    with psycopg.connect(database.url) as other:
        other.execute("LOCK TABLE beat IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ReadTimeout, match=r"more than 0.1 s"):
            reader.beats(Filter())
    reader.limit_reads(timedelta(seconds=30))

    assert reader.beats(Filter(limit=1)) != []
