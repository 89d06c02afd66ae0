"""Word from node to node, and the clock they share."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.support.postgres_nodes import build_fleet, open_nodes, set_clock

from herdbeat.governor.state import Pause
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.store.base import SharedStore, Transaction
from herdbeat.store.location import PostgresLocation, open_shared_store

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
LONGEST = 10


def pause(tx: Transaction) -> None:
    tx.set_pause(1, Pause(by="human:you", reason="quiet"))


def run_by_hand(tx: Transaction) -> None:
    enqueue_manual(tx, NOW, 1, origin="human:you", event_id="7", queue=True)


class Listening:
    """Ears in a thread, as a node has them."""

    def __init__(self, shared: SharedStore) -> None:
        self.shared = shared
        self.heard = threading.Event()
        self._thread = threading.Thread(target=shared.listen, args=(self.heard.set,))
        self._thread.start()
        assert self.heard.wait(LONGEST)  # it has begun to listen
        self.heard.clear()

    def close(self) -> None:
        self.shared.close()
        self._thread.join()


@pytest.mark.parametrize("change", [pause, run_by_hand], ids=["a pause", "an event"])
def test_another_node_hears_of_a_change_at_once(
    database: PostgresLocation, change: Callable[[Transaction], None]
) -> None:
    with open_nodes(database, 2) as (first, second):
        first.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), NOW))
        shared = open_shared_store(second.store)
        assert shared is not None
        ears = Listening(shared)

        first.store.write_now(change)

        assert ears.heard.wait(LONGEST)
        ears.close()


def test_the_time_that_all_nodes_share_is_the_databases(database: PostgresLocation) -> None:
    set_clock(database, NOW)
    with open_nodes(database, 1) as (node,):
        shared = open_shared_store(node.store)
        assert shared is not None

        assert shared.now() == NOW
        shared.close()
