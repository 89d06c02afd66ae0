"""What runs print, told while they go on: who may tell it, and whose word is the last."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.postgres_nodes import ManualNode, build_fleet, open_nodes, set_clock

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.store.base import FinishedRun
from herdbeat.store.location import PostgresLocation, open_reader, open_shared_store

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
DONE = Outcome(status=RunStatus.SUCCEEDED)
CANCELLED = Outcome(status=RunStatus.CANCELLED)


@pytest.fixture
def node(database: PostgresLocation) -> Iterator[ManualNode]:
    set_clock(database, NOW)
    with open_nodes(database, 1) as (found,):
        found.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        found.join(NOW)
        yield found


def claimed(node: ManualNode) -> int:
    return node.claim(NOW).claims[0].run_id


def tell(node: ManualNode, run_id: int, text: str) -> None:
    shared = open_shared_store(node.store)
    assert shared is not None
    with closing(shared):
        shared.publish_output({run_id: text})


def kept(place: PostgresLocation, run_id: int) -> str | None:
    with closing(open_reader(place)) as reader:
        return reader.run_output(run_id)


def test_the_newest_output_of_an_active_run_can_be_read(node: ManualNode, database: PostgresLocation) -> None:
    run_id = claimed(node)

    tell(node, run_id, "one")
    tell(node, run_id, "one two")

    assert kept(database, run_id) == "one two"


def test_the_output_stored_with_the_completion_replaces_earlier_output(
    node: ManualNode, database: PostgresLocation
) -> None:
    run_id = claimed(node)
    tell(node, run_id, "one")

    node.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(run_id, NOW, DONE, output="one two three")]))
    tell(node, run_id, "one two")

    assert kept(database, run_id) == "one two three"


def test_the_last_words_of_a_cancelled_run_come_after_its_end(node: ManualNode, database: PostgresLocation) -> None:
    run_id = claimed(node)

    node.store.write_now(lambda tx: complete_runs(tx, NOW, [FinishedRun(run_id, NOW, CANCELLED)]))
    tell(node, run_id, "cut")

    assert kept(database, run_id) == "cut"


def test_a_node_whose_lease_has_expired_publishes_no_output(node: ManualNode, database: PostgresLocation) -> None:
    run_id = claimed(node)
    set_clock(database, NOW + timedelta(minutes=10))

    tell(node, run_id, "late")

    assert kept(database, run_id) is None
