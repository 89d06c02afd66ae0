"""A usage limit that one node meets holds the account for all nodes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.agent_reports import reach_limit
from tests.support.postgres_nodes import ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Claim
from herdbeat.domain.target import AgentSpec, Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.reader import Filter

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAMES = [f"agent{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def _clock(database: PostgresLocation) -> None:
    set_clock(database, NOW)


def build_agents() -> Fleet:
    spec = AgentSpec(runtime="claude", working_directory=".", account="team")
    return replace(build_fleet(*NAMES), targets=tuple(Target(name=name, spec=spec) for name in NAMES))


def refuse(node: ManualNode, claims: list[Claim], reset_at: datetime | None) -> None:
    done = [FinishedRun(claim.run_id, NOW, reach_limit(reset_at)) for claim in claims]
    node.store.write_now(lambda tx: complete_runs(tx, NOW, done))


def pending_reasons(database: PostgresLocation) -> list[str]:
    reader = open_reader(database)
    try:
        return [beat.reason for beat in reader.beats(Filter(limit=100)) if beat.outcome == "pending"]
    finally:
        reader.close()


def test_what_one_node_is_refused_another_waits_for(database: PostgresLocation) -> None:
    with open_nodes(database, 3) as (first, second, later):
        first.store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        first.join(NOW)
        second.join(NOW)
        claims = first.claim(NOW, room=1).claims

        refuse(first, claims, NOW + HOUR)
        during = second.claim(NOW).claims
        waiting = pending_reasons(database)
        set_clock(database, NOW + HOUR)
        later.join(NOW + HOUR)  # after an hour without a heartbeat, the other two have no lease
        starts = []
        for second_after in range(3):
            at = NOW + HOUR + timedelta(seconds=second_after)
            set_clock(database, at)
            starts += [claim.label for claim in later.claim(at).claims]

    assert during == []
    assert waiting == ["rate_limited"] * len(NAMES)
    assert sorted(starts) == [f"{name}/default" for name in NAMES]


def test_two_nodes_that_are_refused_at_once_make_one_hold(database: PostgresLocation) -> None:
    with open_nodes(database, 2) as pair:
        pair[0].store.write_now(lambda tx: apply_fleet(tx, build_agents(), NOW))
        for node in pair:
            node.join(NOW)
        claims = [node.claim(NOW, room=3).claims for node in pair]

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda both: refuse(both[0], both[1], None), zip(pair, claims, strict=True)))

        (hold,) = pair[0].store.write_now(lambda tx: tx.hold_list_open())
    assert [len(each) for each in claims] == [3, 3]
    assert (hold.streak, hold.until) == (1, NOW + timedelta(minutes=15))
    assert pending_reasons(database) == ["rate_limited"] * len(NAMES)
