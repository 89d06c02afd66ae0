"""The state machine of the ledger, deeper than every commit can wait for."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.scheduler.test_ledger_machine import Ledger

DEEP = settings(max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(2))
def test_no_order_of_events_loses_or_doubles_a_beat(part: int) -> None:
    run_state_machine_as_test(Ledger, settings=DEEP)
