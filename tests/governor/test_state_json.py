import json
from datetime import datetime

import pytest
from hypothesis import given
from tests.support.governor_builders import NOW, every, limits, make_hint, state
from tests.support.governor_strategies import decision_inputs

from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.state import (
    decision_from_json,
    decision_to_json,
    decision_to_text,
    state_from_json,
    state_to_json,
)
from herdbeat.service.queries.replay import ReplayVerdict, decide_again
from herdbeat.triggers import load_trigger


@given(decision_inputs())
def test_stored_inputs_replay_to_the_stored_decision(question: tuple[datetime, ScheduleState]) -> None:
    now, given_state = question
    stored = json.dumps({"state": state_to_json(given_state), "decision": decision_to_json(decide(now, given_state))})

    read = json.loads(stored)

    replayed = state_from_json(read["state"], load_trigger)
    assert replayed == given_state
    assert decide(now, replayed)._replace(inputs=None) == decision_from_json(read["decision"])


@given(decision_inputs())
def test_the_text_of_any_decision_equals_that_of_the_encoder(question: tuple[datetime, ScheduleState]) -> None:
    decision = decide(*question)

    assert decision_to_text(decision) == json.dumps(decision_to_json(decision), separators=(",", ":"))


def test_the_text_of_a_plain_decision_equals_that_of_the_encoder() -> None:
    decision = decide(NOW, state(every("5m")))

    assert decision_to_text(decision) == json.dumps(decision_to_json(decision), separators=(",", ":"))


def test_a_stored_decision_has_the_keys_of_the_api() -> None:
    decision = decide(NOW, state(every("5m"), hints=(make_hint(every="5s"),), limits=limits("15s")))

    assert decision_to_json(decision._replace(inputs=None)) == {
        "next_run_at": "2026-03-02T03:00:15Z",
        "due_at": "2026-03-02T03:00:15Z",
        "revisit_at": None,
        "source": "clamped-min",
        "origin": "rule:surge",
        "steps": [
            {
                "kind": "candidate",
                "text": "baseline every 5m",
                "at": "2026-03-02T03:05:00Z",
                "source": "baseline-interval",
                "won": False,
            },
            {
                "kind": "candidate",
                "text": "hint every 5s by rule:surge, 1h left",
                "at": "2026-03-02T03:00:05Z",
                "source": "ai-interval",
                "origin": "rule:surge",
                "won": True,
            },
            {
                "kind": "clamp",
                "text": "min_interval 15s moves it later",
                "at": "2026-03-02T03:00:15Z",
                "source": "clamped-min",
            },
        ],
    }


@given(decision_inputs())
def test_any_stored_decision_is_replayed_from_its_own_inputs(question: tuple[datetime, ScheduleState]) -> None:
    now, given_state = question
    stored = json.loads(decision_to_text(decide(now, given_state)))

    replay = decide_again(stored, given_state.schedule, given_state.timing, load_trigger)

    assert replay.verdict is ReplayVerdict.SAME, replay


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"next_run_at": "2026-03-02T03:06:00Z"}, ReplayVerdict.DIFFERENT),
        ({"source": "baseline-cron"}, ReplayVerdict.DIFFERENT),
        ({"steps": []}, ReplayVerdict.DIFFERENT),
        ({"inputs": {"now": "yesterday"}}, ReplayVerdict.UNREADABLE),
        ({"inputs": {}}, ReplayVerdict.UNREADABLE),
    ],
)
def test_a_changed_decision_is_found_by_its_replay(change: dict[str, object], verdict: ReplayVerdict) -> None:
    given_state = state(every("5m"))
    stored = json.loads(decision_to_text(decide(NOW, given_state))) | change

    replay = decide_again(stored, given_state.schedule, given_state.timing, load_trigger)

    assert replay.verdict is verdict
