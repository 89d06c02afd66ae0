"""Three nodes and two people at one ledger at once: nothing is lost, nothing starts twice, no place is given twice."""

import pytest
from tests.support.concurrent_load import run_concurrent_load

from herdbeat.store.location import PostgresLocation


@pytest.mark.parametrize("seed", range(2))
def test_a_ledger_that_all_nodes_change_at_once_agrees_with_the_oracle(database: PostgresLocation, seed: int) -> None:
    started = run_concurrent_load(database, rounds=12, seed=seed)

    assert started > 40
