"""The readers of a ledger in a database: the same questions as of a file, in the words of PostgreSQL."""

from herdbeat.store.looking import SHEETS as LOOKED_FOR
from herdbeat.store.looking import LookReader
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.asking import PATIENCE, PostgresAsking
from herdbeat.store.postgres.connecting import connect
from herdbeat.store.postgres.migrate import is_migrated
from herdbeat.store.reader import SHEETS as ASKED
from herdbeat.store.reader import Reader

OWN = "postgres/questions"
"""What has to be said otherwise here."""


def open_reader(place: PostgresPlace) -> Reader:
    return Reader(PostgresAsking(place, *ASKED, OWN))


def open_look(place: PostgresPlace) -> LookReader:
    return LookReader(PostgresAsking(place, *LOOKED_FOR, OWN))


def has_ledger(place: PostgresPlace) -> bool:
    with connect(place.url, patience=PATIENCE) as connection:
        return is_migrated(connection)
