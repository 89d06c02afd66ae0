"""Several nodes in one process: each has its own store on the same database, whose clock a test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Jitter, Policies
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.scheduler.capacity import CatchupPacer
from herdbeat.scheduler.claim import ClaimContext, ClaimResult, claim_due
from herdbeat.scheduler.membership import NodeInfo, Registration, register_node
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.timestamps import to_micros
from herdbeat.triggers.interval import Interval

UTC_ZONE = ZoneInfo("UTC")
LEASE = timedelta(seconds=30)


def set_clock(place: PostgresLocation, now: datetime) -> None:
    """Set the time that the database reports, from now on and to all nodes."""
    body = f"SELECT {to_micros(now)}::bigint"
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(
            f"CREATE OR REPLACE FUNCTION herdbeat_now() RETURNS bigint LANGUAGE sql VOLATILE AS '{body}'".encode()
        )


def build_fleet(
    *names: str, room: int = 1, runs_on: str | None = None, name: str = "several", jitter: Jitter | None = None
) -> Fleet:
    """Build a fleet with a target for each name, each with one schedule that is due at once."""
    policies = Policies(zone=UTC_ZONE, timeout=timedelta(hours=1), catchup=Catchup.ONCE, runs_on=runs_on, jitter=jitter)
    return Fleet(
        name=name,
        zone=UTC_ZONE,
        targets=tuple(Target(name=each, spec=CallableSpec(call="m:f"), max_concurrent=room) for each in names),
        schedules=tuple(
            Schedule(target=each, name="default", trigger=Interval(timedelta(minutes=5)), policies=policies)
            for each in names
        ),
        store="",
        server=ServerSettings(),
    )


class ManualNode:
    """A node without a loop: a test calls each of its steps."""

    def __init__(self, place: PostgresLocation) -> None:
        self.store = PostgresStore(place, lease=LEASE)
        self.store.open()
        self.joined = Registration(0, (), 0)

    def join(self, now: datetime, *, labels: tuple[str, ...] = (), works: bool = True) -> Registration:
        who = NodeInfo(host="here", pid=1, version="test", labels=labels, works=works)
        self.joined = self.store.write_now(lambda tx: register_node(tx, now, who))
        return self.joined

    def claim(
        self, now: datetime, *, labels: tuple[str, ...] = (), fleet_limit: int | None = None, room: int = 100
    ) -> ClaimResult:
        node = ClaimContext(
            self.joined.node_id,
            room,
            CatchupPacer(10),
            self.joined.gaps,
            labels=frozenset(labels),
            fleet_limit=fleet_limit,
        )
        return self.store.write_now(lambda tx: claim_due(tx, now, node))


@contextmanager
def open_nodes(place: PostgresLocation, number: int) -> Iterator[list[ManualNode]]:
    opened = [ManualNode(place) for _ in range(number)]
    try:
        yield opened
    finally:
        for node in opened:
            node.store.close()
