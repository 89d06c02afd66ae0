"""Many schedules at a glance: what comes next, which are meant, and how a page goes on."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.record_builders import MINUTE, NOW, make_schedule_record, make_schedule_spec

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Limits
from herdbeat.errors import NotFound
from herdbeat.service.queries.schedule_state import DisplayState, resolve_condition
from herdbeat.service.queries.schedules import NextRunKind, SchedulePage, list_schedules, resolve_next_run
from herdbeat.store.reader import ScheduleQuery, SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd
from herdbeat.triggers import Manual


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (NextRunKind.AT, NOW + 4 * MINUTE)),
        ({"running": 1, "next_run_at": None}, (NextRunKind.AFTER_RUN, None)),
        ({"running": 1}, (NextRunKind.AT, NOW + 4 * MINUTE)),
        ({"next_run_at": NOW - 12 * MINUTE}, (NextRunKind.OVERDUE, NOW - 12 * MINUTE)),
        ({"enabled": False}, (NextRunKind.NEVER, None)),
        ({"disabled_by": "human:you"}, (NextRunKind.NEVER, None)),
        ({"paused": True, "paused_until": NOW + MINUTE}, (NextRunKind.RESUMES, NOW + MINUTE)),
        ({"paused": True}, (NextRunKind.NEVER, None)),
        ({"quarantine": "its plan is odd"}, (NextRunKind.NEVER, None)),
        ({"plan": make_schedule_spec(Manual()), "next_run_at": None}, (NextRunKind.ON_CALL, None)),
        ({"next_run_at": None}, (NextRunKind.NEVER, None)),
    ],
)
def test_no_time_is_shown_that_will_not_happen(changes: dict[str, Any], expected: tuple[NextRunKind, object]) -> None:
    record = make_schedule_record(**changes)

    assert resolve_next_run(record, resolve_condition(record, NOW), None) == expected


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("triage/standup", every="5m", tags=("daily",), group="issues")
        herd.schedule("triage/labels", every="5m", group="issues", runner=ScriptedRunner(fails=9))
        herd.schedule("backup", every="1h", tags=("daily", "disk"))
        await herd.tick()
        yield herd


def listed(herd: SimulatedHerd, **wanted: Any) -> SchedulePage:
    reader = SqliteReader(herd.store.path)
    try:
        return list_schedules(reader, ScheduleQuery(now=herd.now, **wanted))
    finally:
        reader.close()


def labels(listing: SchedulePage) -> list[str]:
    return [each.record.label for each in listing.rows]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["triage/standup", "triage/labels", "backup"]),
        ({"names": ("triage",)}, ["triage/standup", "triage/labels"]),
        ({"names": ("triage/l*",)}, ["triage/labels"]),
        ({"names": ("*/default",)}, ["backup"]),
        ({"tags": ("daily",)}, ["triage/standup", "backup"]),
        ({"groups": ("issues",)}, ["triage/standup", "triage/labels"]),
        ({"tags": ("disk",), "names": ("triage/labels",)}, ["triage/labels", "backup"]),
        ({"state": DisplayState.FAILING}, ["triage/labels"]),
        ({"state": DisplayState.OK, "names": ("triage",)}, ["triage/standup"]),
        ({"state": DisplayState.PAUSED}, []),
    ],
)
async def test_names_tags_and_groups_add_up_and_a_state_narrows(
    herd: SimulatedHerd, wanted: dict[str, Any], found: list[str]
) -> None:
    listing = listed(herd, **wanted)

    assert labels(listing) == found
    assert listing.total == 3


async def test_every_state_can_be_selected_and_returns_only_its_schedules(herd: SimulatedHerd) -> None:
    herd.pause("backup")
    herd.disable("triage/standup")

    found = {state: labels(listed(herd, state=state)) for state in DisplayState}

    assert {state: names for state, names in found.items() if names} == {
        DisplayState.DISABLED: ["triage/standup"],
        DisplayState.FAILING: ["triage/labels"],
        DisplayState.PAUSED: ["backup"],
    }


async def test_pages_follow_each_other_without_loss(herd: SimulatedHerd) -> None:
    first = listed(herd, limit=2)
    second = listed(herd, limit=2, after=first.next_after)

    assert labels(first) + labels(second) == ["triage/standup", "triage/labels", "backup"]
    assert second.next_after is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"names": ("triage/standdup",)}, 'did you mean "triage/standup"?'),
        ({"names": ("bakup",)}, 'did you mean "backup"?'),
        ({"names": ("nothing/*",)}, 'No schedule matches "nothing/*".'),
        ({"tags": ("dayly",)}, 'has the tag "dayly"; did you mean "daily"?'),
        ({"groups": ("isues",)}, 'has the group "isues"; did you mean "issues"?'),
    ],
)
async def test_an_unknown_name_tag_or_group_gets_a_suggestion(
    herd: SimulatedHerd, wanted: dict[str, Any], said: str
) -> None:
    with pytest.raises(NotFound) as caught:
        listed(herd, **wanted)

    assert said in caught.value.message


async def test_the_strip_has_the_last_ten_beats_the_newest_last(herd: SimulatedHerd) -> None:
    await herd.advance(timedelta(hours=1))
    herd.pause("triage/standup")
    herd.clock.advance(timedelta(hours=2))
    herd.resume("triage/standup")
    await herd.tick()

    strips = {each.record.label: [mark.status or mark.outcome for mark in each.strip] for each in listed(herd).rows}

    assert strips["triage/standup"][-1] == "succeeded"
    assert len(strips["triage/standup"]) == 10
    assert set(strips["triage/labels"]) == {"failed"}


async def test_the_pace_of_a_list_is_that_of_the_hint_within_the_limits(herd: SimulatedHerd) -> None:
    herd.schedule("probe", every="5m", limits=Limits(at_least=MINUTE))
    await herd.tick()
    herd.hint("probe", Hint(origin="agent:x", every=timedelta(seconds=1), expires_at=herd.now + timedelta(hours=1)))

    (row,) = listed(herd, names=("probe",)).rows

    assert row.hinted_pace == MINUTE
    assert listed(herd, names=("backup",)).rows[0].hinted_pace is None
