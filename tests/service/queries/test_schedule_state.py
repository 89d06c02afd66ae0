from datetime import timedelta
from typing import Any

import pytest
from tests.support.record_builders import MINUTE, NOW, make_schedule_record, make_schedule_spec

from herdbeat.service.queries.schedule_state import DisplayState, resolve_display_state
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.event import Manual


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, DisplayState.OK),
        ({"is_new": True, "last_run_at": None}, DisplayState.NEW),
        ({"running": 1, "next_run_at": None}, DisplayState.RUNNING),
        ({"running": 1, "enabled": False}, DisplayState.RUNNING),
        ({"enabled": False, "next_run_at": None}, DisplayState.DISABLED),
        ({"disabled_by": "human:you"}, DisplayState.DISABLED),
        ({"paused": True, "failures": 3}, DisplayState.PAUSED),
        ({"paused": True, "paused_until": NOW + MINUTE}, DisplayState.PAUSED),
        ({"paused": True, "paused_until": NOW}, DisplayState.OK),
        ({"next_run_at": NOW - timedelta(seconds=30)}, DisplayState.OK),
        ({"next_run_at": NOW - timedelta(seconds=31)}, DisplayState.LATE),
        ({"waiting": 1, "next_run_at": None}, DisplayState.LATE),
        ({"failures": 1}, DisplayState.FAILING),
        ({"quarantine": "its trigger is broken", "next_run_at": None}, DisplayState.FAILING),
        ({"plan": make_schedule_spec(Manual()), "next_run_at": None}, DisplayState.WAITING),
        ({"plan": make_schedule_spec(Delay(NOW)), "next_run_at": None}, DisplayState.DONE),
        ({"plan": make_schedule_spec(Delay(NOW + MINUTE)), "last_run_at": None}, DisplayState.NEW),
    ],
)
def test_a_schedule_has_one_state(changes: dict[str, Any], state: DisplayState) -> None:
    assert resolve_display_state(make_schedule_record(**changes), NOW) is state
