"""The readers of a ledger in a database: the same questions as of a file, in the words of PostgreSQL."""

import psycopg

from herdbeat.clock import Clock, OffsetClock
from herdbeat.store.looking import QUERY_READER_SQL_FILES as LOOKED_FOR
from herdbeat.store.looking import QueryReader
from herdbeat.store.micros import from_micros
from herdbeat.store.places import PostgresLocation
from herdbeat.store.postgres.asking import READ_TIMEOUT, PostgresReadConnection
from herdbeat.store.postgres.connecting import connect
from herdbeat.store.postgres.faults import display_url, to_store_unavailable
from herdbeat.store.postgres.migrate import is_migrated
from herdbeat.store.postgres.translate import load_translated_statements
from herdbeat.store.reader import READER_SQL_FILES as ASKED
from herdbeat.store.reader import Reader

POSTGRES_READER_SQL_FILE = "postgres/questions"
"""What has to be said otherwise here."""

CLOCK_SQL_FILES = ("postgres/fleet",)


def open_postgres_reader(location: PostgresLocation) -> Reader:
    return Reader(PostgresReadConnection(location, *ASKED, POSTGRES_READER_SQL_FILE))


def open_postgres_query_reader(location: PostgresLocation) -> QueryReader:
    return QueryReader(PostgresReadConnection(location, *LOOKED_FOR, POSTGRES_READER_SQL_FILE))


def has_postgres_ledger(location: PostgresLocation) -> bool:
    with connect(location.url, timeout=READ_TIMEOUT) as connection:
        return is_migrated(connection)


def read_database_clock(location: PostgresLocation, own: Clock) -> OffsetClock | None:
    """The time of the database by our own clock; None if there is no ledger.

    The way to the server counts half, as it lies before and behind the answer. Connecting does not count.
    """
    try:
        with connect(location.url, timeout=READ_TIMEOUT) as connection:
            if not is_migrated(connection):
                return None
            asked_at = own.now()
            row = connection.execute(load_translated_statements(*CLOCK_SQL_FILES)["database_time"].text).fetchone()
            answered_at = own.now()
    except psycopg.Error as error:
        raise to_store_unavailable(display_url(location.url), error) from error
    assert row is not None
    return OffsetClock(base=own, offset=from_micros(row[0]) - (asked_at + (answered_at - asked_at) / 2))
