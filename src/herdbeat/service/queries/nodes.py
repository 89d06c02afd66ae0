"""Who runs a fleet: its nodes, and what each of them is."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import NodeRecord
from herdbeat.service.serialize import JsonObject, format_optional_timestamp
from herdbeat.store.reader import Reader

RECENTLY_STOPPED_WINDOW = timedelta(hours=1)
"""Who has gone since then is shown with those who live: a death is seen where one looks for it."""

MAX_NAMED_HOSTS = 3
"""Hosts that are named one by one."""


class NodeState(StrEnum):
    """What is known of a node."""

    ALIVE = "alive"
    LEFT = "left"
    DEAD = "dead"


def find_nodes(
    reader: Reader, now: datetime, *, limit: int, has_live_node: bool, include_stopped: bool
) -> list[NodeRecord]:
    """The newest first: who lives, and who has gone in the last hour, or `with_gone` at any time.

    `is_served` says whether this machine has a node: a file knows of a death only by its lock.
    """
    known = {each.id: each for each in (*reader.nodes(limit), *reader.nodes(limit, now))}
    found = [
        each
        for each in known.values()
        if include_stopped
        or resolve_node_state(each, now, has_live_node=has_live_node) is NodeState.ALIVE
        or (each.stopped_at or each.seen_at) >= now - RECENTLY_STOPPED_WINDOW
    ]
    return sorted(found, key=lambda each: each.id, reverse=True)[:limit]


def resolve_node_state(node: NodeRecord, now: datetime, *, has_live_node: bool) -> NodeState:
    if node.lease_until is None:
        if node.stopped_at is not None:
            return NodeState.LEFT
        return NodeState.ALIVE if has_live_node else NodeState.DEAD
    if node.stopped_at is None:
        return NodeState.ALIVE if node.lease_until > now else NodeState.DEAD
    # Whoever is found dead has held its lease to the end; who leaves does so before.
    return NodeState.DEAD if node.stopped_at == node.lease_until else NodeState.LEFT


def describe_nodes(nodes: Sequence[NodeRecord]) -> str:
    """2 nodes (db1, web1) run"""
    where = format_hosts(nodes)
    return f"1 node ({where}) runs" if len(nodes) == 1 else f"{len(nodes)} nodes ({where}) run"


def format_hosts(nodes: Iterable[NodeRecord]) -> str:
    """Where they are: each host once, or how many if there are many."""
    hosts = sorted({each.host for each in nodes})
    return ", ".join(hosts) if len(hosts) <= MAX_NAMED_HOSTS else f"{len(hosts)} hosts"


def serialize_nodes(nodes: Iterable[NodeRecord], now: datetime, *, has_live_node: bool) -> JsonObject:
    return {"items": [_serialize_node(each, now, has_live_node=has_live_node) for each in nodes]}


def _serialize_node(node: NodeRecord, now: datetime, *, has_live_node: bool) -> JsonObject:
    return {
        "id": format_short_id(node.id),
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "state": resolve_node_state(node, now, has_live_node=has_live_node),
        "works": node.works,
        "labels": list(node.labels),
        "running": node.running,
        "started_at": format_optional_timestamp(node.started_at),
        "seen_at": format_optional_timestamp(node.seen_at),
        "lease_until": format_optional_timestamp(node.lease_until),
        "stopped_at": format_optional_timestamp(node.stopped_at),
    }
