from datetime import timedelta
from typing import Any

import pytest
from tests.support.record_builders import MINUTE, NOW, make_schedule_record, make_schedule_spec

from herdbeat.domain.beat import SkipReason
from herdbeat.service.queries.schedule_state import (
    DisplayState,
    Hold,
    find_blocking_reason,
    find_hold,
    resolve_condition,
    to_documented_status,
)
from herdbeat.triggers import Manual
from herdbeat.triggers.delay import Delay


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
    assert resolve_condition(make_schedule_record(**changes), NOW).state is state


def test_facts_hold_beside_the_state_that_is_shown() -> None:
    record = make_schedule_record(running=1, enabled=False, paused=True, quarantine="odd", next_run_at=NOW - MINUTE)

    condition = resolve_condition(record, NOW)

    assert condition.state is DisplayState.RUNNING
    assert (condition.is_enabled, condition.is_paused, condition.is_quarantined) == (False, True, True)
    assert condition.late_since == NOW - MINUTE


@pytest.mark.parametrize(
    ("changes", "hold"),
    [
        ({}, None),
        ({"enabled": False}, None),  # its file says so: nobody has stopped it
        ({"disabled_by": "human:you", "paused": True}, Hold(DisplayState.DISABLED, "human:you")),
        (
            {"running": 1, "paused": True, "paused_by": "policy", "paused_reason": "5 failures"},
            Hold(DisplayState.PAUSED, "policy", "5 failures"),
        ),
        ({"paused": True, "paused_until": NOW}, None),
    ],
)
def test_a_hold_says_who_stopped_a_schedule(changes: dict[str, Any], hold: Hold | None) -> None:
    assert find_hold(make_schedule_record(**changes), NOW) == hold


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "idle"),
        ({"paused": True, "failures": 2}, "idle"),
        ({"disabled_by": "human:you"}, "disabled"),
        ({"running": 1, "enabled": False}, "running"),
    ],
)
def test_the_documented_status_knows_three_words(changes: dict[str, Any], status: str) -> None:
    assert to_documented_status(make_schedule_record(**changes)) == status


def test_reasons_not_to_start_come_in_the_documented_order() -> None:
    """Each step takes the first reason away; the next one shows."""
    fixes: list[dict[str, Any]] = [
        {},
        {"plan": make_schedule_spec()},
        {"enabled": True},
        {"quarantine": None},
        {"paused": False},
        {"running": 0},
        {"target_running": 0},
        {"next_run_at": NOW},
    ]
    changes: dict[str, Any] = {
        "plan": make_schedule_spec(Manual()),
        "enabled": False,
        "quarantine": "odd",
        "paused": True,
        "running": 1,
        "target_running": 1,
    }

    reasons = [find_blocking_reason(make_schedule_record(**(changes := changes | fix)), NOW) for fix in fixes]

    assert reasons == [
        SkipReason.UNSUPPORTED_TYPE,
        SkipReason.DISABLED,
        SkipReason.CONFIG_ERROR,
        SkipReason.PAUSED,
        SkipReason.ALREADY_RUNNING,
        SkipReason.AT_CAPACITY,
        SkipReason.NOT_DUE,
        None,
    ]
