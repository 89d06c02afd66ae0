"""Many schedules at a glance: what comes next, which are meant, and how a page goes on."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.service.records import MINUTE, NOW, plan, schedule

from herdbeat.errors import NotFound
from herdbeat.service.listing import Listing, Next, list_schedules, next_of
from herdbeat.service.states import State, state_of
from herdbeat.store.looking import Look, SqliteLook
from herdbeat.testing.herd import MONDAY, Herd, ScriptedRunner, open_herd
from herdbeat.triggers import Manual


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (Next.AT, NOW + 4 * MINUTE)),
        ({"running": 1, "next_run_at": None}, (Next.AFTER_RUN, None)),
        ({"running": 1}, (Next.AT, NOW + 4 * MINUTE)),
        ({"next_run_at": NOW - 12 * MINUTE}, (Next.OVERDUE, NOW - 12 * MINUTE)),
        ({"enabled": False}, (Next.NEVER, None)),
        ({"disabled_by": "human:you"}, (Next.NEVER, None)),
        ({"paused": True, "paused_until": NOW + MINUTE}, (Next.RESUMES, NOW + MINUTE)),
        ({"paused": True}, (Next.NEVER, None)),
        ({"quarantine": "its plan is odd"}, (Next.NEVER, None)),
        ({"plan": plan(Manual()), "next_run_at": None}, (Next.ON_CALL, None)),
        ({"next_run_at": None}, (Next.NEVER, None)),
    ],
)
def test_no_time_is_shown_that_will_not_happen(changes: dict[str, Any], expected: tuple[Next, object]) -> None:
    record = schedule(**changes)

    assert next_of(record, state_of(record, NOW), None) == expected


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[Herd]:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("triage/standup", every="5m", tags=("daily",), group="issues")
        herd.schedule("triage/labels", every="5m", group="issues", runner=ScriptedRunner(fails=9))
        herd.schedule("backup", every="1h", tags=("daily", "disk"))
        await herd.tick()
        yield herd


def listed(herd: Herd, **wanted: Any) -> Listing:
    reader = SqliteLook(herd.store.path)
    try:
        return list_schedules(reader, Look(now=herd.now, **wanted))
    finally:
        reader.close()


def labels(listing: Listing) -> list[str]:
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
        ({"state": State.FAILING}, ["triage/labels"]),
        ({"state": State.OK, "names": ("triage",)}, ["triage/standup"]),
        ({"state": State.PAUSED}, []),
    ],
)
async def test_names_tags_and_groups_add_up_and_a_state_narrows(
    herd: Herd, wanted: dict[str, Any], found: list[str]
) -> None:
    listing = listed(herd, **wanted)

    assert labels(listing) == found
    assert listing.total == 3


async def test_every_state_can_be_asked_for_and_gives_just_those(herd: Herd) -> None:
    herd.pause("backup")
    herd.disable("triage/standup")

    found = {state: labels(listed(herd, state=state)) for state in State}

    assert {state: names for state, names in found.items() if names} == {
        State.DISABLED: ["triage/standup"],
        State.FAILING: ["triage/labels"],
        State.PAUSED: ["backup"],
    }


async def test_pages_follow_each_other_without_loss(herd: Herd) -> None:
    first = listed(herd, limit=2)
    second = listed(herd, limit=2, after=first.next_after)

    assert labels(first) + labels(second) == ["triage/standup", "triage/labels", "backup"]
    assert second.next_after is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"names": ("triage/standdup",)}, 'did you mean "triage/standup"?'),
        ({"names": ("bakup",)}, 'did you mean "backup"?'),
        ({"names": ("nothing/*",)}, 'No schedule fits "nothing/*".'),
        ({"tags": ("dayly",)}, 'has the tag "dayly"; did you mean "daily"?'),
        ({"groups": ("isues",)}, 'has the group "isues"; did you mean "issues"?'),
    ],
)
async def test_what_nothing_has_is_guessed(herd: Herd, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(NotFound) as caught:
        listed(herd, **wanted)

    assert said in caught.value.message


async def test_the_strip_has_the_last_ten_beats_the_newest_last(herd: Herd) -> None:
    await herd.advance(timedelta(hours=1))
    herd.pause("triage/standup")
    herd.clock.advance(timedelta(hours=2))
    herd.resume("triage/standup")
    await herd.tick()

    strips = {each.record.label: [mark.status or mark.outcome for mark in each.strip] for each in listed(herd).rows}

    assert strips["triage/standup"][-1] == "succeeded"
    assert len(strips["triage/standup"]) == 10
    assert set(strips["triage/labels"]) == {"failed"}
