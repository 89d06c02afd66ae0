"""What can be asked, on its way through the socket and back."""

import json

import pytest
from tests.service.changer import RULE, TEN, YOU

from herdbeat.errors import UsageError
from herdbeat.service.acts import (
    Act,
    Clearing,
    Disabling,
    Enabling,
    Hinting,
    Pausing,
    Resetting,
    Resuming,
    Skipping,
    act_from_json,
    act_to_json,
)

ACTS: list[Act] = [
    Pausing(who=YOU, reason="x", until=TEN),
    Resuming(who=YOU),
    Disabling(who=YOU),
    Enabling(who=YOU),
    Hinting(who=RULE, every=0.5, lasts=60, reason="y"),
    Hinting(who=RULE, at=TEN),
    Clearing(who="planner"),
    Resetting(who=YOU),
    Skipping(who=YOU, count=3),
]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: type(act).__name__)
def test_an_act_goes_through_the_socket_unchanged(act: Act) -> None:
    assert act_from_json(json.loads(json.dumps(act_to_json(act)))) == act


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
        act_from_json(data)

    assert caught.value.hint
