"""Where a fleet keeps its ledger, and the only place that picks the store for it.

A kind of store is imported only when a ledger of that kind is opened, and commands that only read load no writer.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, MissingExtra, Problem
from herdbeat.redaction import redact_store_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdbeat.clock import Clock
    from herdbeat.domain.fleet import Fleet
    from herdbeat.domain.webhook_call import RefusedCall
    from herdbeat.store.audit import LedgerAudit
    from herdbeat.store.base import SharedStore, Transaction
    from herdbeat.store.reader import Reader


_SQLITE_PREFIX = "sqlite:"
_POSTGRES_PREFIXES = ("postgresql:", "postgres:")
STATE_FOLDER = ".herdbeat"
UNREADABLE_URL_MESSAGE = "The store URL is invalid."
URL_FORMAT_HINT = (
    "Write it as postgresql://USER@HOST:PORT/DATABASE, with a port from 1 to 65535 or without one, "
    "special characters of a password percent-encoded (/ is %2F, @ is %40)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresLocation:
    """A ledger in a database that many nodes share. Files of one node are in its state directory.

    The URL may hold a password, so it is never shown.
    """

    url: str = field(repr=False)
    state_dir: Path

    @property
    def display_url(self) -> str:
        """The URL to show: host, database and user."""
        return redact_store_url(self.url) or "postgresql://…"


StoreLocation: TypeAlias = Path | PostgresLocation
"""A ledger: the file of an SQLite one, or a database."""


def store_location(fleet: "Fleet") -> StoreLocation:
    """Return the ledger of a fleet. Raises ConfigError if its `store` is neither a file nor a database."""
    if fleet.store.startswith(_SQLITE_PREFIX):
        return Path(fleet.home) / fleet.store.removeprefix(_SQLITE_PREFIX)
    if fleet.store.startswith(_POSTGRES_PREFIXES):
        return PostgresLocation(url=fleet.store, state_dir=Path(fleet.home) / (fleet.state_dir or STATE_FOLDER))
    problem = Problem(
        code=Code.INVALID_VALUE,
        message="The store is neither a SQLite file nor a PostgreSQL database.",
        hint="Write store: sqlite:.herdbeat/herdbeat.db or store: postgresql://USER@HOST/DATABASE",
    )
    raise ConfigError([problem])


def format_location(location: StoreLocation) -> str:
    """Return the location to show."""
    return str(location) if isinstance(location, Path) else location.display_url


def resolve_state_dir(location: StoreLocation) -> Path:
    """Return the folder of the lock, the socket and the logs of this machine's node."""
    return location.parent if isinstance(location, Path) else location.state_dir


def name_ledger(location: StoreLocation) -> str:
    """Return what the lock of a state directory says of the ledger: nothing if it is a file in that folder."""
    return "" if isinstance(location, Path) else location.display_url


def require_sqlite_path(fleet: "Fleet") -> Path:
    """Return the file of an SQLite store. Raises ConfigError for a database."""
    location = store_location(fleet)
    if isinstance(location, Path):
        return location
    problem = Problem(
        code=Code.INVALID_VALUE,
        message="This command needs a SQLite ledger; the ledger of this fleet is in PostgreSQL.",
        hint="Use the PostgreSQL tools: pg_dump, pg_restore.",
    )
    raise ConfigError([problem])


T = TypeVar("T")

DEFAULT_LEASE = timedelta(seconds=30)


class StoreHandle(Protocol):
    """A store with its lifecycle: who opens it closes it."""

    @property
    def location(self) -> StoreLocation: ...

    def open(self) -> None: ...

    async def write(self, work: "Callable[[Transaction], T]") -> T: ...

    def write_now(self, work: "Callable[[Transaction], T]") -> T: ...

    def require_intact(self) -> None:
        """Raises StoreUnavailable if the ledger is no longer the one that was opened. Does nothing for a server."""

    def close(self) -> None: ...


def create_store(location: StoreLocation, *, lease: timedelta = DEFAULT_LEASE) -> StoreHandle:
    """Return a store that is not open yet. `lease` is for stores that several nodes share."""
    if isinstance(location, Path):
        from herdbeat.store.sqlite.store import SqliteStore  # noqa: PLC0415 - see the module docstring

        return SqliteStore(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415
    return PostgresStore(location, lease=lease)


def open_reader(location: StoreLocation) -> "Reader":
    """Raises StoreUnavailable if the ledger cannot be read."""
    if isinstance(location, Path):
        from herdbeat.store.reader import SqliteReader  # noqa: PLC0415

        return SqliteReader(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import PostgresReader  # noqa: PLC0415
    return PostgresReader(location)


def open_audit(location: StoreLocation) -> "LedgerAudit":
    if isinstance(location, Path):
        from herdbeat.store.audit import SqliteAudit  # noqa: PLC0415

        return SqliteAudit(location)
    with _require_postgres_extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    return PostgresAudit(location)


def check_writable(location: PostgresLocation) -> None:
    """Raises StoreUnavailable, with a hint, if the database takes no new rows."""
    with _require_postgres_extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    PostgresAudit(location).check_writable()


def add_refused_calls(
    location: PostgresLocation, calls: "Sequence[RefusedCall]", *, most: int, most_of_schedule: int
) -> None:
    """Write refused webhook calls where all servers see them. Raises StoreUnavailable."""
    with _require_postgres_extra():
        from herdbeat.store.postgres import refused_calls  # noqa: PLC0415
    refused_calls.add_refused_calls(location, calls, most=most, most_of_schedule=most_of_schedule)


def list_refused_calls(location: PostgresLocation) -> "list[RefusedCall]":
    """Return those of all servers, the oldest first. Raises StoreUnavailable."""
    with _require_postgres_extra():
        from herdbeat.store.postgres import refused_calls  # noqa: PLC0415
    return refused_calls.list_refused_calls(location)


def open_shared_store(store: StoreHandle) -> "SharedStore | None":
    """Return the shared side of a store; None for a file, which has one node."""
    if isinstance(store.location, Path):
        return None
    from herdbeat.store.postgres.notify import PostgresSharedStore  # noqa: PLC0415
    from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415

    assert isinstance(store, PostgresStore)
    return PostgresSharedStore(store)


def ledger_exists(location: StoreLocation) -> bool:
    """Whether there is a ledger. Raises StoreUnavailable if a database cannot be asked."""
    if isinstance(location, Path):
        return location.exists()
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import has_postgres_ledger  # noqa: PLC0415
    return has_postgres_ledger(location)


def select_clock(location: StoreLocation, own: "Clock") -> "Clock | None":
    """Return the clock of a ledger: this machine's for a file, the database's own else. None if there is no ledger.

    A command that writes without a node needs it: a laptop that was ten minutes ahead wrote times that no node had
    reached, and paused until a moment that had passed. Raises StoreUnavailable.
    """
    if isinstance(location, Path):
        return own if location.exists() else None
    with _require_postgres_extra():
        from herdbeat.store.postgres.reader import read_database_clock  # noqa: PLC0415
    return read_database_clock(location, own)


def exclusive_lock(location: StoreLocation) -> AbstractContextManager[object]:
    """Return the lock for writing without a node. A database needs none: its transactions take row locks.

    Entering it raises Conflict if a node has the file.
    """
    if isinstance(location, Path):
        from herdbeat.store.state_lock import StateLock  # noqa: PLC0415

        return StateLock(location.parent)
    return nullcontext()


@contextmanager
def _require_postgres_extra() -> Iterator[None]:
    """Raises MissingExtra if an import within it needs the PostgreSQL driver and it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("psycopg"):
            raise MissingExtra("A store in PostgreSQL", "postgres") from error
        raise
