"""The one place that knows which store belongs to a ledger. What a kind of store needs is loaded only for that kind."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from herdbeat.errors import MissingExtra
from herdbeat.store.places import LedgerPlace, PostgresPlace

if TYPE_CHECKING:
    from herdbeat.clock import Clock
    from herdbeat.store.base import Suspects, Transaction
    from herdbeat.store.looking import LookReader
    from herdbeat.store.reader import Reader
    from herdbeat.store.shared import Shared

T = TypeVar("T")

LEASE = timedelta(seconds=30)


class OpenStore(Protocol):
    """A store that somebody has opened, and has to close."""

    @property
    def place(self) -> LedgerPlace: ...

    def open(self) -> None: ...

    async def write(self, work: "Callable[[Transaction], T]") -> T: ...

    def write_now(self, work: "Callable[[Transaction], T]") -> T: ...

    def close(self) -> None: ...


class Audit(Protocol):
    """Questions about the whole ledger. Any thread may ask."""

    @property
    def place(self) -> LedgerPlace: ...

    def suspects(self, now: datetime, after: int = 0, *, only_schedules: bool = False) -> "Suspects": ...

    def peek(self, look: "Callable[[Transaction], T]") -> T:
        """Let something look at the ledger that only reads. What it writes is refused, or undone."""
        ...

    def quarantined(self) -> list[tuple[str, str]]: ...

    def damage(self) -> list[str]: ...

    def old_beats(self, before: datetime, kept_since: datetime, limit: int) -> list[int]: ...

    def surplus_beats(self, most: int, kept_since: datetime) -> Iterator[list[int]]: ...

    def unused_plans(self, limit: int) -> list[int]: ...

    def oldest_open_run(self) -> datetime | None: ...

    def old_changes(self, before: datetime, most: int) -> int: ...

    def ended_hints(self, before: datetime) -> int: ...


def store_at(place: LedgerPlace, *, lease: timedelta = LEASE) -> OpenStore:
    """Not opened yet. `lease` is for stores that several nodes share."""
    if isinstance(place, Path):
        from herdbeat.store.sqlite import SqliteStore  # noqa: PLC0415 -- as the module says

        return SqliteStore(place)
    with _extra():
        from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415
    return PostgresStore(place, lease=lease)


def reader_at(place: LedgerPlace) -> "Reader":
    """Raises StoreUnavailable if nothing can be read there."""
    if isinstance(place, Path):
        from herdbeat.store.reader import SqliteReader  # noqa: PLC0415

        return SqliteReader(place)
    with _extra():
        from herdbeat.store.postgres.reader import open_reader  # noqa: PLC0415
    return open_reader(place)


def look_at(place: LedgerPlace) -> "LookReader":
    if isinstance(place, Path):
        from herdbeat.store.looking import SqliteLook  # noqa: PLC0415

        return SqliteLook(place)
    with _extra():
        from herdbeat.store.postgres.reader import open_look  # noqa: PLC0415
    return open_look(place)


def audit_at(place: LedgerPlace) -> Audit:
    if isinstance(place, Path):
        from herdbeat.store.audit import SqliteAudit  # noqa: PLC0415

        return SqliteAudit(place)
    with _extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    return PostgresAudit(place)


def try_writing(place: PostgresPlace) -> None:
    """Raises StoreUnavailable, with what to do, if nothing can be added to the database."""
    with _extra():
        from herdbeat.store.postgres.audit import PostgresAudit  # noqa: PLC0415
    PostgresAudit(place).try_writing()


def shared_by(store: OpenStore) -> "Shared | None":
    """What nodes that share this ledger have in common; None for a file, which has one node."""
    if isinstance(store.place, Path):
        return None
    from herdbeat.store.postgres.shared import PostgresShared  # noqa: PLC0415
    from herdbeat.store.postgres.store import PostgresStore  # noqa: PLC0415

    assert isinstance(store, PostgresStore)
    return PostgresShared(store)


def is_there(place: LedgerPlace) -> bool:
    """Whether anything was ever kept there. A database is asked for it; a server that is away raises."""
    if isinstance(place, Path):
        return place.exists()
    with _extra():
        from herdbeat.store.postgres.reader import has_ledger  # noqa: PLC0415
    return has_ledger(place)


def clock_at(place: LedgerPlace, own: "Clock") -> "Clock | None":
    """Whose time counts there: that of this machine, or of the database. None if nothing was ever kept there.

    Whoever writes without a node here has no other way to know it: a laptop that was ten minutes ahead could write
    times that no node had reached, and pause until a moment that had passed. Raises StoreUnavailable.
    """
    if isinstance(place, Path):
        return own if place.exists() else None
    with _extra():
        from herdbeat.store.postgres.reader import clock_of  # noqa: PLC0415
    return clock_of(place, own)


def alone_at(place: LedgerPlace) -> AbstractContextManager[object]:
    """For who writes while no node runs here. A database has no owner: whoever writes takes its locks there.

    Raises Conflict if a node has the file.
    """
    if isinstance(place, Path):
        from herdbeat.store.lock import StateLock  # noqa: PLC0415

        return StateLock(place.parent)
    return nullcontext()


@contextmanager
def _extra() -> Iterator[None]:
    """Around the imports of what only PostgreSQL needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("psycopg"):
            raise MissingExtra("A store in PostgreSQL", "postgres") from error
        raise
