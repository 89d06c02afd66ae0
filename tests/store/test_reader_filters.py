"""Whatever is asked for, the same rows are found as by looking at each one; and not by looking at each one."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench.load.bulk_insert import ScheduleBatch, insert_schedules

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.store import reader as finding
from herdbeat.store.reader import Filter, SqliteReader, find_beat_ids, find_run_ids
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.statements import load_statements
from herdbeat.timestamps import to_micros

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BEATS = 120
SKIPPED = [BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED]
OUTCOMES = [BeatOutcome.RAN, *SKIPPED, BeatOutcome.PENDING, BeatOutcome.RUNNING]
STATUSES = list(RunStatus)
NAMES = [(None, None), ("alone-1", None), ("shared", None), ("shared", "s2"), ("nobody", None)]
MOMENTS = [None, NOW + 30 * MINUTE, NOW + BEATS * MINUTE]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beats of every outcome and runs of every status, spread over two schedules alone and five of one target."""
    path: Path = tmp_path_factory.mktemp("ledger") / "herdbeat.db"
    store = SqliteStore(path, synchronous="OFF")
    store.open()
    for name, count, room in (("alone", 2, None), ("shared", 5, 1)):
        lot = ScheduleBatch(name=name, count=count, first_at=NOW, every=MINUTE, shared_capacity=room)
        insert_schedules(store, lot, NOW)
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(1, BEATS + 1):
            _add(connection, number)
    return path


def _add(connection: sqlite3.Connection, number: int) -> None:
    due = NOW + number * MINUTE
    outcome = OUTCOMES[number * 5 // 3 % len(OUTCOMES)]
    last = due + 40 * MINUTE if outcome in SKIPPED and number % 2 else due
    micros = to_micros(due)
    connection.execute(
        "INSERT INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, outcome, source, created_at)"
        " SELECT ?, id, target_id, ?, ?, ?, ?, 'baseline-interval', ? FROM schedule WHERE id = ?",
        (number, f"interval:{number}", micros, to_micros(last), outcome, micros, number % 7 + 1),
    )
    connection.execute(
        "INSERT INTO run (id, beat_id, schedule_id, status, node_id, claimed_at) VALUES (?, ?, ?, ?, 1, ?)",
        (number, number, number % 7 + 1, STATUSES[number * 3 // 2 % len(STATUSES)], micros),
    )


@pytest.fixture
def reader(ledger: Path) -> Iterator[SqliteReader]:
    opened = SqliteReader(ledger)
    yield opened
    opened.close()


def is_of(label: str, target: str | None, name: str | None) -> bool:
    own_target, _, own_name = label.partition("/")
    return target is None or (own_target == target and name in (None, own_name))


@pytest.mark.parametrize("few", [finding.MAX_GATHERED_SCHEDULES, 1], ids=["few", "many"])
@pytest.mark.parametrize("short", [finding.MAX_GATHERED_BEATS, 1], ids=["short", "long"])
def test_every_filter_finds_the_beats_that_looking_at_each_one_finds(
    reader: SqliteReader, monkeypatch: pytest.MonkeyPatch, few: int, short: int
) -> None:
    monkeypatch.setattr(finding, "MAX_GATHERED_SCHEDULES", few)
    monkeypatch.setattr(finding, "MAX_GATHERED_BEATS", short)
    everything = reader.beats(Filter(limit=1_000))

    for (target, name), outcome, since, before in product(NAMES, [None, *OUTCOMES], MOMENTS, [None, 60]):
        wanted = Filter(target=target, name=name, outcome=outcome, since=since, before=before, limit=7)
        expected = [
            beat.id
            for beat in everything
            if is_of(beat.schedule, target, name)
            and (outcome is None or beat.outcome is outcome)
            and (since is None or beat.last_due_at >= since)
            and (before is None or beat.id < before)
        ]

        assert [beat.id for beat in reader.beats(wanted)] == expected[:7], wanted


@pytest.mark.parametrize("few", [finding.MAX_GATHERED_SCHEDULES, 1], ids=["few", "many"])
def test_every_filter_finds_the_runs_that_looking_at_each_one_finds(
    reader: SqliteReader, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(finding, "MAX_GATHERED_SCHEDULES", few)
    everything = reader.runs(Filter(limit=1_000))

    for (target, name), status, since, beat in product(NAMES, [None, *STATUSES], MOMENTS, [None, 60]):
        wanted = Filter(target=target, name=name, status=status, since=since, beat=beat, limit=7)
        expected = [
            run.id
            for run in everything
            if is_of(run.schedule, target, name)
            and (status is None or run.status is status)
            and (since is None or run.claimed_at >= since)
            and (beat is None or run.beat_id == beat)
        ]

        assert [run.id for run in reader.runs(wanted)] == expected[:7], wanted


class Watched:
    """Asks the ledger, and keeps how SQLite goes about it."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._sql = load_statements("sqlite")
        self.plans: list[str] = []

    def __call__(self, question: str, /, **values: Any) -> list[int]:
        sql = self._sql[question]
        values = {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
        self.plans += [row[3] for row in self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        return [number for (number,) in self._connection.execute(sql, values)]

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize(
    "wanted",
    [
        *(Filter(outcome=outcome) for outcome in (*SKIPPED, BeatOutcome.PENDING)),
        Filter(target="alone-1"),
        Filter(target="alone-1", outcome=BeatOutcome.RAN),
        Filter(target="nobody"),
        Filter(since=NOW),
    ],
    ids=str,
)
def test_a_rare_beat_is_found_without_reading_them_all(ledger: Path, wanted: Filter) -> None:
    """Once `beats NAME` read a million rows back from the newest, and took three seconds."""
    with closing(Watched(ledger)) as ask:
        find_beat_ids(ask, wanted)

        assert "SCAN beat" not in ask.plans


@pytest.mark.parametrize(
    "wanted",
    [
        *(Filter(status=status) for status in STATUSES if status is not RunStatus.SUCCEEDED),
        Filter(target="alone-1"),
        Filter(beat=7),
    ],
    ids=str,
)
def test_a_rare_run_is_found_without_reading_them_all(ledger: Path, wanted: Filter) -> None:
    with closing(Watched(ledger)) as ask:
        find_run_ids(ask, wanted)

        assert "SCAN run" not in ask.plans


@pytest.mark.parametrize("question", ["open_run_ids", "waiting_beat_ids", "overdue_ids", "upcoming_schedule_ids"])
def test_the_queries_of_status_do_not_read_the_whole_history(ledger: Path, question: str) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        values = {"limit": 10, "now": to_micros(NOW)}
        plan = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {load_statements('sqlite')[question]}", values)
        ]

    assert "USING" in plan[0]
    assert "beat_time" not in plan[0]
