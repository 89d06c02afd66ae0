"""Who runs a fleet: its nodes, and what each of them is."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import NodeRecord
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.store.reader import Reader

RECENT = timedelta(hours=1)
"""Who has gone since then is shown with those who live: a death is seen where one looks for it."""

NAMED = 3
"""Hosts that are named one by one."""


class Standing(StrEnum):
    """What is known of a node."""

    ALIVE = "alive"
    LEFT = "left"
    DEAD = "dead"


def find_nodes(reader: Reader, now: datetime, *, limit: int, is_served: bool, with_gone: bool) -> list[NodeRecord]:
    """The newest first: who lives, and who has gone in the last hour, or `with_gone` at any time.

    `is_served` says whether this machine has a node: a file knows of a death only by its lock.
    """
    known = {each.id: each for each in (*reader.nodes(limit), *reader.nodes(limit, now))}
    found = [
        each
        for each in known.values()
        if with_gone
        or standing_of(each, now, is_served=is_served) is Standing.ALIVE
        or (each.stopped_at or each.seen_at) >= now - RECENT
    ]
    return sorted(found, key=lambda each: each.id, reverse=True)[:limit]


def standing_of(node: NodeRecord, now: datetime, *, is_served: bool) -> Standing:
    if node.lease_until is None:
        if node.stopped_at is not None:
            return Standing.LEFT
        return Standing.ALIVE if is_served else Standing.DEAD
    if node.stopped_at is None:
        return Standing.ALIVE if node.lease_until > now else Standing.DEAD
    # Whoever is found dead has held its lease to the end; who leaves does so before.
    return Standing.DEAD if node.stopped_at == node.lease_until else Standing.LEFT


def crew_words(nodes: Sequence[NodeRecord]) -> str:
    """2 nodes (db1, web1) run"""
    where = hosts_of(nodes)
    return f"1 node ({where}) runs" if len(nodes) == 1 else f"{len(nodes)} nodes ({where}) run"


def hosts_of(nodes: Iterable[NodeRecord]) -> str:
    """Where they are: each host once, or how many if there are many."""
    hosts = sorted({each.host for each in nodes})
    return ", ".join(hosts) if len(hosts) <= NAMED else f"{len(hosts)} hosts"


def nodes_object(nodes: Iterable[NodeRecord], now: datetime, *, is_served: bool) -> Json:
    return {"items": [_object(each, now, is_served=is_served) for each in nodes]}


def _object(node: NodeRecord, now: datetime, *, is_served: bool) -> Json:
    return {
        "id": short_id(node.id),
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "state": standing_of(node, now, is_served=is_served),
        "works": node.works,
        "labels": list(node.labels),
        "running": node.running,
        "started_at": moment_or_null(node.started_at),
        "seen_at": moment_or_null(node.seen_at),
        "lease_until": moment_or_null(node.lease_until),
        "stopped_at": moment_or_null(node.stopped_at),
    }
