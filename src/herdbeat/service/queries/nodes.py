"""The nodes of a fleet, and whether each of them is alive."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.records import NodeRecord
from herdbeat.store.reader import Reader

RECENTLY_STOPPED_WINDOW = timedelta(hours=1)
"""Nodes that stopped since then are listed with the live ones, so that a death is seen where people look for it."""

MAX_NAMED_HOSTS = 3
"""More hosts than that are counted, not named."""


class NodeState(StrEnum):
    ALIVE = "alive"
    LEFT = "left"  # stopped by itself
    DEAD = "dead"  # stopped without saying so


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    record: NodeRecord
    state: NodeState

    def was_seen_since(self, moment: datetime) -> bool:
        return self.state is NodeState.ALIVE or (self.record.stopped_at or self.record.seen_at) >= moment


def find_nodes(
    reader: Reader, now: datetime, *, limit: int, has_live_node: bool, include_stopped: bool
) -> list[NodeView]:
    """Return the live nodes and those that stopped in the last hour (`include_stopped`: ever), newest first.

    `has_live_node` says whether this machine runs one: a ledger in a file knows of a death only by its lock.
    """
    known = {each.id: each for each in (*reader.nodes(limit), *reader.nodes(limit, now))}
    views = [
        NodeView(record=known[node_id], state=resolve_node_state(known[node_id], now, has_live_node=has_live_node))
        for node_id in sorted(known, reverse=True)
    ]
    since = now - RECENTLY_STOPPED_WINDOW
    return [each for each in views if include_stopped or each.was_seen_since(since)][:limit]


def resolve_node_state(node: NodeRecord, now: datetime, *, has_live_node: bool) -> NodeState:
    if node.lease_until is None:
        if node.stopped_at is not None:
            return NodeState.LEFT
        return NodeState.ALIVE if has_live_node else NodeState.DEAD
    if node.stopped_at is None:
        return NodeState.ALIVE if node.lease_until > now else NodeState.DEAD
    # A dead node is recorded as stopped when its lease ran out; one that leaves stops before that.
    return NodeState.DEAD if node.stopped_at == node.lease_until else NodeState.LEFT


def describe_nodes(nodes: Sequence[NodeRecord]) -> str:
    """Return for example `2 nodes (db1, web1) run`."""
    where = format_hosts(nodes)
    return f"1 node ({where}) runs" if len(nodes) == 1 else f"{len(nodes)} nodes ({where}) run"


def format_hosts(nodes: Iterable[NodeRecord]) -> str:
    """Name each host once, or say how many there are if there are many."""
    hosts = sorted({each.host for each in nodes})
    return ", ".join(hosts) if len(hosts) <= MAX_NAMED_HOSTS else f"{len(hosts)} hosts"
