import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from herdbeat.domain.records import NodeRecord
from herdbeat.service.queries.nodes import NodeState, NodeView, resolve_node_state
from herdbeat.service.serialize import serialize_nodes
from herdbeat.testing.herd import MONDAY

HERE = NodeRecord(
    id=7,
    host="here",
    pid=1,
    version="test",
    started_at=MONDAY,
    seen_at=MONDAY,
    stopped_at=None,
    lease_until=MONDAY + timedelta(seconds=30),
)
SOON, LATER = MONDAY + timedelta(seconds=10), MONDAY + timedelta(seconds=31)


@pytest.mark.parametrize(
    ("node", "now", "standing"),
    [
        (HERE, SOON, NodeState.ALIVE),
        (HERE, LATER, NodeState.DEAD),
        (replace(HERE, stopped_at=SOON), LATER, NodeState.LEFT),
        (replace(HERE, stopped_at=HERE.lease_until), LATER, NodeState.DEAD),
        (replace(HERE, lease_until=None), LATER, NodeState.DEAD),
        (replace(HERE, lease_until=None, stopped_at=SOON), LATER, NodeState.LEFT),
    ],
    ids=["renews", "silent", "left", "found dead", "killed with its file", "left its file"],
)
def test_a_node_is_alive_dead_or_has_left(node: NodeRecord, now: datetime, standing: NodeState) -> None:
    assert resolve_node_state(node, now, is_holder=False) is standing


def test_a_file_whose_lock_is_held_has_a_node_that_lives() -> None:
    assert resolve_node_state(replace(HERE, lease_until=None), LATER, is_holder=True) is NodeState.ALIVE


def test_a_killed_node_was_called_seen_until_its_lease_had_run_out() -> None:
    found_dead = NodeView(record=replace(HERE, stopped_at=HERE.lease_until), state=NodeState.DEAD)
    left = NodeView(record=replace(HERE, stopped_at=SOON), state=NodeState.LEFT)

    assert (found_dead.last_seen_at, left.last_seen_at) == (HERE.seen_at, SOON)


def test_a_node_for_programs_has_a_short_id_and_its_state() -> None:
    (told,) = json.loads(json.dumps(serialize_nodes([NodeView(record=HERE, state=NodeState.ALIVE)])))["items"]

    assert told["id"] == "0007"
    assert told["state"] == "alive"
