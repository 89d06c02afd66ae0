from datetime import timedelta
from typing import Any

import pytest
from tests.service.records import MINUTE, NOW, plan, schedule

from herdbeat.service.states import State, state_of
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.manual import Manual


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, State.OK),
        ({"is_new": True, "last_run_at": None}, State.NEW),
        ({"running": 1, "next_run_at": None}, State.RUNNING),
        ({"running": 1, "enabled": False}, State.RUNNING),
        ({"enabled": False, "next_run_at": None}, State.DISABLED),
        ({"disabled_by": "human:you"}, State.DISABLED),
        ({"paused": True, "failures": 3}, State.PAUSED),
        ({"paused": True, "paused_until": NOW + MINUTE}, State.PAUSED),
        ({"paused": True, "paused_until": NOW}, State.OK),
        ({"next_run_at": NOW - timedelta(seconds=30)}, State.OK),
        ({"next_run_at": NOW - timedelta(seconds=31)}, State.LATE),
        ({"waiting": 1, "next_run_at": None}, State.LATE),
        ({"failures": 1}, State.FAILING),
        ({"quarantine": "its trigger is broken", "next_run_at": None}, State.FAILING),
        ({"plan": plan(Manual()), "next_run_at": None}, State.WAITING),
        ({"plan": plan(Delay(NOW)), "next_run_at": None}, State.DONE),
        ({"plan": plan(Delay(NOW + MINUTE)), "last_run_at": None}, State.NEW),
    ],
)
def test_a_schedule_has_one_state(changes: dict[str, Any], state: State) -> None:
    assert state_of(schedule(**changes), NOW) is state
