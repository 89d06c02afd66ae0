"""What can be asked, on its way through the socket and back."""

import json

import pytest
from tests.support.schedule_changes import RULE, TEN, YOU

from herdbeat.errors import UsageError
from herdbeat.service.commands.base import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    SkipBeats,
    command_from_json,
    command_to_json,
)

ACTS: list[ScheduleCommand] = [
    PauseSchedules(who=YOU, reason="x", until=TEN),
    ResumeSchedules(who=YOU),
    DisableSchedules(who=YOU),
    EnableSchedules(who=YOU),
    HintSchedules(who=RULE, every=0.5, lasts=60, reason="y"),
    HintSchedules(who=RULE, at=TEN),
    ClearHints(who="planner"),
    ResetSchedules(who=YOU),
    SkipBeats(who=YOU, count=3),
]


@pytest.mark.parametrize("command", ACTS, ids=lambda command: type(command).__name__)
def test_an_act_goes_through_the_socket_unchanged(command: ScheduleCommand) -> None:
    assert command_from_json(json.loads(json.dumps(command_to_json(command)))) == command


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"what": "dance", "who": YOU},
        {"what": "pause"},
        {"what": "pause", "who": ""},
        {"what": "pause", "who": YOU, "until": "soon"},
        {"what": "pause", "who": YOU, "until": 5},
        {"what": "pause", "who": YOU, "colour": "red"},
        {"what": "hint", "who": YOU, "every": "fast"},
        {"what": "hint", "who": YOU, "every": [1]},
        {"what": "hint", "who": YOU, "every": 10**400},
    ],
)
def test_what_is_no_act_is_refused_in_words(data: object) -> None:
    with pytest.raises(UsageError) as caught:
        command_from_json(data)

    assert caught.value.hint
