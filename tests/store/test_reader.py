"""Questions of people who look, asked of a ledger that the real engine wrote."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat.errors import ReadTimeout
from herdbeat.service.queries.schedule_state import resolve_condition
from herdbeat.store.name_lookup import names_with_prefix
from herdbeat.store.reader import Filter, ScheduleQuery, SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, open_herd


async def test_the_first_run_since_a_moment_is_found_by_halving(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("a", every="10m")
        await herd.advance(timedelta(hours=3))
        reader = SqliteReader(herd.store.path)

        found = [reader.first_run_since(MONDAY + timedelta(minutes=each)) for each in (-60, 0, 1, 10, 175, 999)]
        newest = reader.newest_run()
        reader.close()

        assert found == [1, 1, 2, 2, 19, newest + 1]


async def test_the_version_changes_when_anything_was_written_and_not_else(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("a", every="10m")
        await herd.tick()
        reader = SqliteReader(herd.store.path)

        first, same = reader.version(), reader.version()
        await herd.advance(timedelta(minutes=10))
        other = reader.version()
        reader.close()

        assert first == same
        assert other != first


async def test_names_are_found_by_their_beginning_without_reading_a_plan(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        for label in ("triage/standup", "triage/labels", "triangle", "backup"):
            herd.schedule(label, every="10m", late_after=timedelta(minutes=2))
        await herd.tick()
        ledger = herd.store.path

        found = {
            prefix: names_with_prefix(ledger, prefix, 10) for prefix in ("tri", "triage/", "triage/l", "x", "back/")
        }

        assert {prefix: [f"{each.target}/{each.name}" for each in rows] for prefix, rows in found.items()} == {
            "tri": ["triage/standup", "triage/labels", "triangle/default"],
            "triage/": ["triage/standup", "triage/labels"],
            "triage/l": ["triage/labels"],
            "x": [],
            "back/": [],
        }
        assert found["tri"][0].late_after == timedelta(minutes=2)


async def test_a_span_that_began_before_the_window_and_is_still_open_belongs_to_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("long", every="10m", runner=ScriptedRunner(holds=True))
        herd.schedule("short", every="10h")
        await herd.tick()
        herd.clock.advance(timedelta(hours=5))
        reader = SqliteReader(herd.store.path)

        spans = reader.spans([1, 2], herd.now - timedelta(hours=1), herd.now, 100)
        reader.close()

        assert [(each.schedule, each.status) for each in spans] == [(1, "running")]


async def test_an_outline_knows_what_a_state_is_decided_from(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("fails", every="10m", runner=ScriptedRunner(fails=9))
        herd.schedule("works", every="10m")
        await herd.tick()
        reader = SqliteReader(herd.store.path)

        outlines = reader.outlines(ScheduleQuery(now=herd.now))
        records = reader.schedules(Filter())
        reader.close()

        assert [resolve_condition(each, herd.now) for each in outlines] == [
            resolve_condition(each, herd.now) for each in records
        ]
        assert [(each.label, each.plan, each.last_run_at) for each in outlines] == [
            (each.label, each.plan, each.last_run_at) for each in records
        ]


async def test_one_busy_schedule_does_not_hide_the_runs_of_others(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("busy", every="1m")
        herd.schedule("rare", every="1h")
        await herd.advance(timedelta(hours=2))
        reader = SqliteReader(herd.store.path)

        spans, cut = reader.recent_spans([1, 2], herd.now - timedelta(hours=3), each=10, limit=10)
        reader.close()

        assert [each.schedule for each in spans].count(1) == 10
        assert [each.schedule for each in spans].count(2) == 3
        assert cut == {1}


async def test_a_run_that_is_open_since_long_is_among_the_recent_ones(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("long", every="10m", runner=ScriptedRunner(holds=True))
        await herd.tick()
        herd.clock.advance(timedelta(hours=5))
        reader = SqliteReader(herd.store.path)

        spans, _ = reader.recent_spans([1], herd.now - timedelta(hours=1), each=10, limit=10)
        reader.close()

        assert [(each.schedule, each.status) for each in spans] == [(1, "running")]


async def test_a_period_that_is_over_has_nothing_that_came_later(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("steady", every="10m")
        await herd.advance(timedelta(hours=2))
        reader = SqliteReader(herd.store.path)
        since, until = herd.now - timedelta(minutes=65), herd.now - timedelta(minutes=35)

        spans, cut = reader.recent_spans([1], since, until, each=10, limit=10)
        ranked = reader.schedules_between(since, until, 10)
        before = reader.schedules_between(MONDAY - timedelta(days=2), MONDAY - timedelta(days=1), 10)
        reader.close()

        assert [since <= each.due_at <= until for each in spans] == [True, True, True]
        assert (cut, ranked, before) == (set(), [1], [])


class WatchedReader(SqliteReader):
    """Remembers which statements were asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []

    def _fetch(self, statement: str, values: dict[str, object]) -> tuple[Sequence[str], list[Any]]:
        self.asked.append(statement)
        return super()._fetch(statement, values)


async def test_an_old_run_or_beat_is_found_without_reading_all_that_came_after(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("a", every="1m")
        await herd.advance(timedelta(hours=3))
        reader = WatchedReader(herd.store.path)

        run, beat, nobody = reader.run(2), reader.beat(2), reader.run(99_999)
        reader.close()

        assert (run and run.id, beat and beat.id, nobody) == (2, 2, None)
        assert not {"newest_runs", "newest_beats"} & set(reader.asked)  # they go from the newest to the oldest


async def test_a_read_that_takes_too_long_is_stopped_and_the_next_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdbeat.store.reader.PROGRESS_STEPS", 1)
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("steady", every="10m")
        await herd.advance(timedelta(hours=2))
        reader = SqliteReader(herd.store.path)

        reader.limit_reads(timedelta(0))
        with pytest.raises(ReadTimeout, match="more than 0 s") as caught:
            reader.beats(Filter())
        reader.limit_reads(timedelta(minutes=1))
        found = reader.beats(Filter())
        reader.close()

    assert caught.value.code == "read_timeout"
    assert len(found) == 13
