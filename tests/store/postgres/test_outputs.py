"""What runs print, told while they go on: who may tell it, and whose word is the last."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.store.postgres.nodes import Joining, a_fleet, nodes, set_clock

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.scheduler.arrange import arrange
from herdbeat.scheduler.finish import finish
from herdbeat.store.base import FinishedRun
from herdbeat.store.opening import reader_at, shared_by
from herdbeat.store.places import PostgresPlace

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
DONE = Outcome(status=RunStatus.SUCCEEDED)
CANCELLED = Outcome(status=RunStatus.CANCELLED)


@pytest.fixture
def node(database: PostgresPlace) -> Iterator[Joining]:
    set_clock(database, NOW)
    with nodes(database, 1) as (found,):
        found.store.write_now(lambda tx: arrange(tx, a_fleet("worker"), NOW))
        found.join(NOW)
        yield found


def claimed(node: Joining) -> int:
    return node.claim(NOW).claims[0].run_id


def tell(node: Joining, run_id: int, text: str) -> None:
    shared = shared_by(node.store)
    assert shared is not None
    with closing(shared):
        shared.tell_outputs({run_id: text})


def kept(place: PostgresPlace, run_id: int) -> str | None:
    with closing(reader_at(place)) as reader:
        return reader.output_of(run_id)


def test_what_a_run_says_is_there_while_it_runs_and_the_newest_counts(node: Joining, database: PostgresPlace) -> None:
    run_id = claimed(node)

    tell(node, run_id, "one")
    tell(node, run_id, "one two")

    assert kept(database, run_id) == "one two"


def test_what_a_run_brings_along_at_its_end_is_the_last_word(node: Joining, database: PostgresPlace) -> None:
    run_id = claimed(node)
    tell(node, run_id, "one")

    node.store.write_now(lambda tx: finish(tx, NOW, [FinishedRun(run_id, NOW, DONE, output="one two three")]))
    tell(node, run_id, "one two")

    assert kept(database, run_id) == "one two three"


def test_the_last_words_of_a_cancelled_run_come_after_its_end(node: Joining, database: PostgresPlace) -> None:
    run_id = claimed(node)

    node.store.write_now(lambda tx: finish(tx, NOW, [FinishedRun(run_id, NOW, CANCELLED)]))
    tell(node, run_id, "cut")

    assert kept(database, run_id) == "cut"


def test_a_node_whose_lease_is_over_tells_nothing(node: Joining, database: PostgresPlace) -> None:
    run_id = claimed(node)
    set_clock(database, NOW + timedelta(minutes=10))

    tell(node, run_id, "late")

    assert kept(database, run_id) is None
