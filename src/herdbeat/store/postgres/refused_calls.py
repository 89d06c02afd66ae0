"""Refused webhook calls in a database, where every server that shares the ledger sees those of all.

They go on a connection of their own: a flood of bad calls does not reach the connection of a node.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import psycopg

from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.connection import connect
from herdbeat.store.postgres.errors import display_url, to_store_unavailable
from herdbeat.store.postgres.statements import PostgresConnection
from herdbeat.timestamps import from_micros, to_micros

TIMEOUT = timedelta(seconds=5)


def add_refused_calls(
    location: PostgresLocation, calls: Sequence[RefusedCall], *, most: int, most_of_schedule: int
) -> None:
    """Write new calls, and keep so many of each schedule and so many in all. Raises StoreUnavailable."""
    rows = [
        (to_micros(each.at), each.schedule, each.peer, each.size, each.status, each.reason, each.detail)
        for each in calls
    ]
    with _open_connection(location) as connection:
        connection.execute_values("add_refused_calls", rows)()
        connection.execute("drop_refused_calls", most=most, most_of_schedule=most_of_schedule)()


def list_refused_calls(location: PostgresLocation) -> list[RefusedCall]:
    """Return them, the oldest first. Raises StoreUnavailable."""
    with _open_connection(location) as connection:
        return [
            RefusedCall(
                at=from_micros(at),
                schedule=schedule,
                peer=peer,
                size=size,
                status=status,
                reason=reason,
                detail=detail,
            )
            for at, schedule, peer, size, status, reason, detail in connection.query("list_refused_calls")
        ]


@contextmanager
def _open_connection(location: PostgresLocation) -> Iterator[PostgresConnection]:
    raw = connect(location.url, timeout=TIMEOUT, use_prepared=False)
    try:
        with raw.transaction():
            yield PostgresConnection(raw, display_url(location.url))
    except psycopg.Error as error:
        raise to_store_unavailable(display_url(location.url), error) from error
    finally:
        raw.close()
