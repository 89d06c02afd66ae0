"""A ledger of ours in a database that is new: made, and filled with what a measurement needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.support.postgres_server import PostgresServer as Database

from bench.alone import fresh_folder
from bench.load.lateness import put_far
from bench.load.stock import Lot, put
from bench.postgres.server import fresh_database, tidy
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import StoreHandle, create_store, open_shared_store, store_location

EVERY = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def fleet_at(url: str, folder: Path) -> Fleet:
    """A fleet without files: what it runs is put into the ledger by hand."""
    return Fleet(
        name="bench",
        zone=ZoneInfo("UTC"),
        targets=(),
        schedules=(),
        store=url,
        server=ServerSettings(),
        home=str(folder),
    )


@contextmanager
def ledger(url: str, folder: Path) -> Iterator[StoreHandle]:
    """A store as any command opens it, on a ledger that knows whose it is."""
    fleet = fleet_at(url, folder)
    store = create_store(store_location(fleet))
    store.open()
    try:
        now = time_of(store)
        store.write_now(lambda tx: apply_fleet(tx, fleet, now))
        yield store
    finally:
        store.close()


def time_of(store: StoreHandle) -> datetime:
    """The database's own: it decides what is due."""
    with clock_of(store) as now:
        return now()


@contextmanager
def clock_of(store: StoreHandle) -> Iterator[Callable[[], datetime]]:
    """The same, to be asked often over one connection."""
    shared = open_shared_store(store)
    assert shared is not None
    try:
        yield shared.now
    finally:
        shared.close()


def put_due(store: StoreHandle, beats: int, within: timedelta = timedelta(0)) -> datetime:
    """So many schedules, each with a target of its own, that are all due at the returned moment."""
    now = time_of(store)
    put(store, Lot(name="due", count=beats, first_at=now + within, every=EVERY), now)
    return now + within


def put_ticks(store: StoreHandle, rate: int, within: timedelta) -> datetime:
    """Schedules that beat at that rate together from the returned moment on, evenly."""
    now = time_of(store)
    put(store, Lot(name="tick", count=rate, first_at=now + within, every=SECOND, spread=SECOND), now)
    return now + within


@contextmanager
def filled(of: Database, stored: int) -> Iterator[str]:
    """A database with so many schedules that are a year away, to make copies of."""
    print(f"filling a database with {stored:,} schedules", flush=True)
    with fresh_database(of) as url, fresh_folder() as folder:
        with ledger(url, folder) as store:
            put_far(store, stored)
        tidy(url)
        yield url
