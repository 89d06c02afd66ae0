"""Who runs a fleet: its nodes, and what each of them is."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import NodeRecord
from herdbeat.service.objects import Json, moment_or_null
from herdbeat.store.reader import Reader


class Standing(StrEnum):
    """What is known of a node."""

    ALIVE = "alive"
    LEFT = "left"
    DEAD = "dead"


def find_nodes(reader: Reader, now: datetime, *, limit: int, is_served: bool, with_gone: bool) -> list[NodeRecord]:
    """The newest first. `is_served` says whether this machine has a node: a file knows of a death only by its lock."""
    found = reader.nodes(limit, None if with_gone else now)
    return [each for each in found if with_gone or standing_of(each, now, is_served=is_served) is Standing.ALIVE]


def standing_of(node: NodeRecord, now: datetime, *, is_served: bool) -> Standing:
    if node.lease_until is None:
        if node.stopped_at is not None:
            return Standing.LEFT
        return Standing.ALIVE if is_served else Standing.DEAD
    if node.stopped_at is None:
        return Standing.ALIVE if node.lease_until > now else Standing.DEAD
    # Whoever is found dead has held its lease to the end; who leaves does so before.
    return Standing.DEAD if node.stopped_at == node.lease_until else Standing.LEFT


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
