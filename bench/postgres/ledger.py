"""Create a ledger in a new database, and fill it with what a measurement needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.support.postgres_server import PostgresServer as Database

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.lateness import insert_far_schedules
from bench.postgres.server import fresh_database, vacuum
from bench.subprocesses import fresh_folder
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import StoreHandle, create_store, open_shared_store, store_location

DUE_INTERVAL = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def fleet_at(url: str, folder: Path, targets: tuple[Target, ...] = (), schedules: tuple[Schedule, ...] = ()) -> Fleet:
    """Return a fleet, without schedules if a measurement inserts its own directly into the ledger."""
    return Fleet(
        name="bench",
        zone=ZoneInfo("UTC"),
        targets=targets,
        schedules=schedules,
        store=url,
        server=ServerSettings(),
        home=str(folder),
    )


@contextmanager
def ledger(url: str, folder: Path) -> Iterator[StoreHandle]:
    """Open a store as any command does, on a ledger to which the fleet has been applied."""
    with open_ledger(url, folder) as store:
        now = database_time(store)
        store.write_now(lambda tx: apply_fleet(tx, fleet_at(url, folder), now))
        yield store


@contextmanager
def open_ledger(url: str, folder: Path) -> Iterator[StoreHandle]:
    """Open a store on a ledger as it is. Applying a fleet again would remove what was inserted into it directly."""
    store = create_store(store_location(fleet_at(url, folder)))
    store.open()
    try:
        yield store
    finally:
        store.close()


def database_time(store: StoreHandle) -> datetime:
    """Return the time of the database, which decides what is due."""
    with database_clock(store) as now:
        return now()


@contextmanager
def database_clock(store: StoreHandle) -> Iterator[Callable[[], datetime]]:
    """Return the same as a function that reuses one connection."""
    shared = open_shared_store(store)
    assert shared is not None
    try:
        yield shared.now
    finally:
        shared.close()


def insert_due_schedules(store: StoreHandle, beats: int, within: timedelta = timedelta(0)) -> datetime:
    """Insert that many schedules, each with its own target, and return the instant at which all are due."""
    now = database_time(store)
    insert_schedules(store, ScheduleBatch(name="due", count=beats, first_at=now + within, every=DUE_INTERVAL), now)
    return now + within


def insert_ticks(store: StoreHandle, rate: int, within: timedelta) -> datetime:
    """Insert schedules that together beat evenly at that rate, and return their first instant."""
    now = database_time(store)
    insert_schedules(
        store, ScheduleBatch(name="tick", count=rate, first_at=now + within, every=SECOND, spread=SECOND), now
    )
    return now + within


@contextmanager
def filled_database(postgres: Database, stored: int) -> Iterator[str]:
    """Create a template database with that many schedules, which are due in a year."""
    print(f"filling a database with {stored:,} schedules", flush=True)
    with fresh_database(postgres) as url, fresh_folder() as folder:
        with ledger(url, folder) as store:
            insert_far_schedules(store, stored)
        vacuum(url)
        yield url
