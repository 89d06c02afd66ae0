"""The one place that knows which store belongs to a ledger. What a kind of store needs is loaded only for that kind."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from herdbeat.errors import MissingExtra
from herdbeat.store.places import PostgresLocation, StoreLocation

if TYPE_CHECKING:
    from herdbeat.clock import Clock
    from herdbeat.store.base import InconsistencyCandidates, Transaction
    from herdbeat.store.looking import QueryReader
    from herdbeat.store.reader import Reader
    from herdbeat.store.shared import SharedStore

T = TypeVar("T")

DEFAULT_LEASE = timedelta(seconds=30)


class StoreHandle(Protocol):
    """A store that somebody has opened, and has to close."""

    @property
    def location(self) -> StoreLocation: ...

    def open(self) -> None: ...

    async def write(self, work: "Callable[[Transaction], T]") -> T: ...

    def write_now(self, work: "Callable[[Transaction], T]") -> T: ...

    def close(self) -> None: ...


class LedgerAudit(Protocol):
    """Questions about the whole ledger. Any thread may ask."""

    @property
    def location(self) -> StoreLocation: ...

    def find_inconsistencies(
        self, now: datetime, after: int = 0, *, only_schedules: bool = False
    ) -> "InconsistencyCandidates": ...

    def read_transaction(self, work: "Callable[[Transaction], T]") -> T:
        """Let something look at the ledger that only reads. What it writes is refused, or undone."""
        ...

    def quarantined(self) -> list[tuple[str, str]]: ...

    def damage(self) -> list[str]: ...

    def old_beats(self, before: datetime, kept_since: datetime, limit: int) -> list[int]: ...

    def surplus_beats(self, most: int, kept_since: datetime) -> Iterator[list[int]]: ...

    def unused_plans(self, limit: int) -> list[int]: ...

    def oldest_open_run(self) -> datetime | None: ...

    def count_old_changes(self, before: datetime, most: int) -> int: ...

    def count_ended_hints(self, before: datetime) -> int: ...


def create_store(location: StoreLocation, *, lease: timedelta = DEFAULT_LEASE) -> StoreHandle:
    """Not opened yet. `lease` is for stores that several nodes share."""
    if isinstance(location, Path):
        from herdbeat.store.sqlite import SqliteStore  # noqa: PLC0415 -- as the module says

        return SqliteStore(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415
    return PostgresStore(location, lease=lease)


def open_reader(location: StoreLocation) -> "Reader":
    """Raises StoreUnavailable if nothing can be read there."""
    if isinstance(location, Path):
        from herdbeat.store.reader import SqliteReader  # noqa: PLC0415

        return SqliteReader(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import open_postgres_reader  # noqa: PLC0415
    return open_postgres_reader(location)


def open_query_reader(location: StoreLocation) -> "QueryReader":
    if isinstance(location, Path):
        from herdbeat.store.looking import SqliteQueryReader  # noqa: PLC0415

        return SqliteQueryReader(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import open_postgres_query_reader  # noqa: PLC0415
    return open_postgres_query_reader(location)


def open_audit(location: StoreLocation) -> LedgerAudit:
    if isinstance(location, Path):
        from herdbeat.store.audit import SqliteAudit  # noqa: PLC0415

        return SqliteAudit(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    return PostgresAudit(location)


def check_writable(location: PostgresLocation) -> None:
    """Raises StoreUnavailable, with what to do, if nothing can be added to the database."""
    with _require_postgres_extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    PostgresAudit(location).check_writable()


def open_shared_store(store: StoreHandle) -> "SharedStore | None":
    """What nodes that share this ledger have in common; None for a file, which has one node."""
    if isinstance(store.location, Path):
        return None
    from herdbeat.store.postgres.shared import PostgresSharedStore  # noqa: PLC0415
    from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415

    assert isinstance(store, PostgresStore)
    return PostgresSharedStore(store)


def ledger_exists(location: StoreLocation) -> bool:
    """Whether anything was ever kept there. A database is asked for it; a server that is away raises."""
    if isinstance(location, Path):
        return location.exists()
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import has_postgres_ledger  # noqa: PLC0415
    return has_postgres_ledger(location)


def select_clock(location: StoreLocation, own: "Clock") -> "Clock | None":
    """Whose time counts there: that of this machine, or of the database. None if nothing was ever kept there.

    Whoever writes without a node here has no other way to know it: a laptop that was ten minutes ahead could write
    times that no node had reached, and pause until a moment that had passed. Raises StoreUnavailable.
    """
    if isinstance(location, Path):
        return own if location.exists() else None
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import read_database_clock  # noqa: PLC0415
    return read_database_clock(location, own)


def exclusive_lock(location: StoreLocation) -> AbstractContextManager[object]:
    """For who writes while no node runs here. A database has no owner: whoever writes takes its locks there.

    Raises Conflict if a node has the file.
    """
    if isinstance(location, Path):
        from herdbeat.store.lock import StateLock  # noqa: PLC0415

        return StateLock(location.parent)
    return nullcontext()


@contextmanager
def _require_postgres_extra() -> Iterator[None]:
    """Around the imports of what only PostgreSQL needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("psycopg"):
            raise MissingExtra("A store in PostgreSQL", "postgres") from error
        raise
