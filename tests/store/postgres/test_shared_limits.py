"""What a whole fleet shares, while two nodes reach for it at the same moment."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.support.postgres_nodes import ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.claim import ClaimResult
from herdbeat.scheduler.complete import complete_runs
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
TARGETS = [f"t{number}" for number in range(24)]
ROUNDS = 15
AT_ONCE = 2
"""So little that neither node has everything before the other comes."""


@pytest.fixture(autouse=True)
def _clock(database: PostgresLocation) -> None:
    set_clock(database, NOW)


def race(pair: list[ManualNode], fleet_limit: int | None = None) -> list[ClaimResult]:
    """Each claims again and again, as fast as it can, until nothing is due."""

    def claim_all(node: ManualNode) -> list[ClaimResult]:
        return [node.claim(NOW, fleet_limit=fleet_limit, room=AT_ONCE) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(len(pair)) as pool:
        return [turn for turns in pool.map(claim_all, pair) for turn in turns]


@pytest.mark.parametrize("budget", [Budget(runs_per_day=7), Budget(runs_per_day=7, usd_per_day=100.0)])
def test_two_nodes_that_race_spend_a_fleets_budget_once(database: PostgresLocation, budget: Budget) -> None:
    with open_nodes(database, 2) as pair:
        pair[0].store.write_now(lambda tx: apply_fleet(tx, replace(build_fleet(*TARGETS), budget=budget), NOW))
        for node in pair:
            node.join(NOW)

        turns = race(pair)

        claims = [each for turn in turns for each in turn.claims]
        done = [FinishedRun(each.run_id, NOW, Outcome(status=RunStatus.SUCCEEDED)) for each in claims[:1]]
        pair[1].store.write_now(lambda tx: complete_runs(tx, NOW, done))
    assert len(claims) == 7
    reader = open_reader(database)
    reasons = Counter((beat.outcome, beat.reason) for beat in reader.beats(Filter(limit=100)))
    reader.close()
    assert sum(count for (_, reason), count in reasons.items() if reason == "budget_exceeded") == len(TARGETS) - 7


def test_two_nodes_that_race_keep_the_limit_of_the_whole_fleet(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as pair:
        pair[0].store.write_now(lambda tx: apply_fleet(tx, build_fleet(*TARGETS), NOW))
        for node in pair:
            node.join(NOW)

        turns = race(pair, fleet_limit=5)

    assert sum(len(turn.claims) for turn in turns) == 5


def test_two_nodes_with_the_same_host_and_pid_are_two_nodes(database: PostgresLocation) -> None:
    """As in two containers of the same name, where each is process 1."""
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("a", "b"), NOW))
        first.join(NOW)
        second.join(NOW)
        (mine, *_) = first.claim(NOW).claims

        second.store.write_now(lambda tx: tx.leave_node(second.joined.node_id, NOW))

        closed = first.store.write_now(
            lambda tx: complete_runs(tx, NOW, [FinishedRun(mine.run_id, NOW, Outcome(status=RunStatus.SUCCEEDED))])
        ).completed
    assert first.joined.node_id != second.joined.node_id
    assert [each.status for each in closed] == [RunStatus.SUCCEEDED]
