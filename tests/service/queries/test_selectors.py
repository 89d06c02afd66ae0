"""What a person writes, and the schedules that are meant by it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from herdbeat.domain.selection import Selection
from herdbeat.errors import NotFound, UsageError
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import open_herd


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[SqliteReader]:
    async with open_herd(tmp_path) as herd:
        herd.schedule("queue", every="5m", tags=("ops", "fast"))
        herd.schedule("triage/check", every="5m", tags=("ops",), group="agents")
        herd.schedule("triage/standup", cron="0 9 * * *", group="agents")
        herd.schedule("report/weekly", cron="0 9 * * 1", group="reports")
        herd.schedule("old", every="1h")
        await herd.tick()
        herd.remove("old")
        await herd.tick()
        found = SqliteReader(herd.store.path)
        yield found
        found.close()


def labels(reader: SqliteReader, selection: Selection) -> list[str]:
    return [each.label for each in select_schedules(reader, selection)]


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        (Selection(names=("queue",)), ["queue"]),
        (Selection(names=("queue/default",)), ["queue"]),
        (Selection(names=("triage",)), ["triage/check", "triage/standup"]),
        (Selection(names=("triage/standup",)), ["triage/standup"]),
        (Selection(names=("triage/*",)), ["triage/check", "triage/standup"]),
        (Selection(names=("*/weekly",)), ["report/weekly"]),
        (Selection(names=("triage/standup", "queue", "triage")), ["queue", "triage/check", "triage/standup"]),
        (Selection(tags=("ops",)), ["queue", "triage/check"]),
        (Selection(tags=("fast",), groups=("reports",)), ["queue", "report/weekly"]),
        (Selection(names=("queue",), groups=("agents",)), ["queue", "triage/check", "triage/standup"]),
        (Selection(everything=True), ["queue", "triage/check", "triage/standup", "report/weekly"]),
    ],
)
def test_selectors_resolve_to_schedules(reader: SqliteReader, selection: Selection, meant: list[str]) -> None:
    assert labels(reader, selection) == meant


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(names=("triage/standdup",)), '"triage/standdup"; did you mean "triage/standup"?'),
        (Selection(names=("standup",)), '"standup"; did you mean "triage/standup"?'),
        (Selection(names=("tri",)), 'no target or schedule "tri"'),
        (Selection(names=("queue", "nowhere")), 'no target or schedule "nowhere"'),
        (Selection(names=("old",)), 'no target or schedule "old"'),
        (Selection(names=("nowhere/*",)), 'No schedule matches "nowhere/\\*"'),
        (Selection(tags=("opps",)), 'No schedule has the tag "opps"; did you mean "ops"?'),
        (Selection(groups=("report",)), 'No schedule has the group "report"; did you mean "reports"?'),
    ],
)
def test_an_unknown_selector_gets_a_suggestion(reader: SqliteReader, selection: Selection, message: str) -> None:
    with pytest.raises(NotFound, match=message.replace("?", r"\?")) as caught:
        select_schedules(reader, selection)

    assert "herdbeat list" in caught.value.hint


@pytest.mark.parametrize("selection", [Selection(), Selection(names=("queue",), everything=True)])
def test_an_empty_or_contradictory_selection_is_a_usage_error(reader: SqliteReader, selection: Selection) -> None:
    with pytest.raises(UsageError):
        select_schedules(reader, selection)
