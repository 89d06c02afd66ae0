"""The readers of a ledger in a database: the same questions as of a file, in the words of PostgreSQL."""

import psycopg

from herdbeat.clock import Clock, MovedClock
from herdbeat.store.looking import SHEETS as LOOKED_FOR
from herdbeat.store.looking import LookReader
from herdbeat.store.micros import from_micros
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.asking import PATIENCE, PostgresAsking
from herdbeat.store.postgres.connecting import connect
from herdbeat.store.postgres.faults import place_of, unavailable
from herdbeat.store.postgres.migrate import is_migrated
from herdbeat.store.postgres.translate import statements
from herdbeat.store.reader import SHEETS as ASKED
from herdbeat.store.reader import Reader

OWN = "postgres/questions"
"""What has to be said otherwise here."""

SHEETS = ("postgres/fleet",)


def open_reader(place: PostgresPlace) -> Reader:
    return Reader(PostgresAsking(place, *ASKED, OWN))


def open_look(place: PostgresPlace) -> LookReader:
    return LookReader(PostgresAsking(place, *LOOKED_FOR, OWN))


def has_ledger(place: PostgresPlace) -> bool:
    with connect(place.url, patience=PATIENCE) as connection:
        return is_migrated(connection)


def clock_of(place: PostgresPlace, own: Clock) -> MovedClock | None:
    """The time of the database by our own clock; None if there is no ledger.

    The way to the server counts half, as it lies before and behind the answer. Connecting does not count.
    """
    try:
        with connect(place.url, patience=PATIENCE) as connection:
            if not is_migrated(connection):
                return None
            asked_at = own.now()
            row = connection.execute(statements(*SHEETS)["database_time"].text).fetchone()
            answered_at = own.now()
    except psycopg.Error as error:
        raise unavailable(place_of(place.url), error) from error
    assert row is not None
    return MovedClock(own=own, by=from_micros(row[0]) - (asked_at + (answered_at - asked_at) / 2))
