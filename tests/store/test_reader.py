"""Questions of people who look, asked of a ledger that the real engine wrote."""

from datetime import timedelta
from pathlib import Path

from herdbeat.store.name_lookup import names_with_prefix
from herdbeat.store.reader import SqliteReader
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
