"""One word, two meanings: a name comes first, the id of a run second."""

from pathlib import Path

import pytest

from herdbeat.domain.ids import format_short_id
from herdbeat.errors import NotFound
from herdbeat.service.queries.selectors import find_latest_run, resolve_selector
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import ScriptedRunner, open_herd


async def test_a_name_is_a_name_also_if_it_could_be_a_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule(format_short_id(1), every="5m")
        herd.schedule("triage/one", every="5m")
        herd.schedule("triage/two", every="5m")
        await herd.tick()
        reader = SqliteReader(herd.store.path)

        by_name, by_id, by_target = (
            resolve_selector(reader, word) for word in (format_short_id(1), format_short_id(2), "triage")
        )

        assert ([each.label for each in by_name.schedules], by_name.run) == ([format_short_id(1)], None)
        assert by_id.run is not None
        assert by_id.run.id == 2
        assert [each.label for each in by_target.schedules] == ["triage/one", "triage/two"]
        with pytest.raises(NotFound, match='no target, schedule or run "triag"; did you mean "triage"'):
            resolve_selector(reader, "triag")
        reader.close()


async def test_the_latest_run_is_found_unless_the_schedule_never_ran(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        herd.schedule("never", cron="0 9 * * *")
        herd.schedule("api", every="5m", runner=ScriptedRunner(fails=1))
        await herd.tick()
        reader = SqliteReader(herd.store.path)
        (never,), (api,) = resolve_selector(reader, "never").schedules, resolve_selector(reader, "api").schedules

        found = find_latest_run(reader, api)

        assert (found.schedule, found.status) == ("api", "failed")
        with pytest.raises(NotFound, match='"never" has never run'):
            find_latest_run(reader, never)
        reader.close()
