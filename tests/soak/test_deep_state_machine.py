"""The state machine of the ledger, with more steps than every commit can wait for."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.scheduler.test_remote_state_machine import RemoteLedgerMachine
from tests.scheduler.test_state_machine import LedgerMachine
from tests.support.concurrent_load import run_concurrent_load
from tests.support.multi_node_machine import MultiNodeMachine

from herdbeat.store.location import PostgresLocation

DEEP = settings(max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
AMONG_NODES = settings(DEEP, max_examples=40, stateful_step_count=40)
"""Fewer examples: each has a database of its own, with three nodes."""

PARTS = range(1 if DEEP.derandomize else 2)
"""Without chance, as in CI, a second part would try the same examples again."""


@pytest.mark.soak
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("part", PARTS)
def test_no_order_of_events_loses_or_doubles_a_beat(part: int) -> None:
    run_state_machine_as_test(LedgerMachine, settings=DEEP)


@pytest.mark.soak
@pytest.mark.timeout(2_400)
def test_no_order_of_events_loses_a_beat_or_starts_a_second_process_on_an_engine() -> None:
    run_state_machine_as_test(RemoteLedgerMachine, settings=DEEP)


@pytest.mark.soak
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("part", PARTS)
def test_no_order_of_events_among_three_nodes_loses_or_doubles_a_beat(part: int) -> None:
    run_state_machine_as_test(MultiNodeMachine, settings=AMONG_NODES)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_a_long_concurrent_load_leaves_a_ledger_that_agrees_with_the_oracle(
    database: PostgresLocation, seed: int
) -> None:
    assert run_concurrent_load(database, rounds=150, seed=seed) > 500
