"""Moving a fleet from a file to a database, ledger included, while nothing runs."""

from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import MissingExtra
from herdbeat.store.location import PostgresLocation
from herdbeat.store.sqlite.backup import CopyProgress
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock


def migrate_to_postgres(
    ledger: Path, destination: PostgresLocation, fleet: Fleet, progress: CopyProgress | None = None
) -> dict[str, int]:
    """How many rows of each table were copied. The file stays as it is.

    Raises Conflict if a node runs, or the database holds a fleet; StoreUnavailable if either cannot be used.
    """
    try:
        from herdbeat.store.postgres.import_sqlite import import_sqlite_ledger  # noqa: PLC0415 -- needs an optional package
    except ModuleNotFoundError as error:
        raise MissingExtra("A store in PostgreSQL", "postgres") from error
    with StateLock(ledger.parent):
        store = SqliteStore(ledger)  # opened once, it has the newest schema
        store.open()
        store.close()
        return import_sqlite_ledger(ledger, destination, fleet.name, progress)
