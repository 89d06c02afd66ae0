"""Which program may use which schema: two that follow each other share a database, others are told why not."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.support.postgres_nodes import build_fleet, open_nodes

from herdbeat.clock import SystemClock
from herdbeat.errors import StoreUnavailable
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.postgres import migrate as migrating
from herdbeat.store.postgres.migrate import MIGRATIONS_FOLDER, migrate, min_compatible_schema
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.reader import Filter
from herdbeat.store.statements import load_migrations

KNOWN = load_migrations(MIGRATIONS_FOLDER)
NEWEST = KNOWN[-1][0]
NEXT = NEWEST + 1
ADDING = f"-- A column more.\n-- Understood by programs of schema {NEWEST}.\nALTER TABLE node ADD COLUMN mood text;"
BREAKING = "ALTER TABLE node RENAME COLUMN works TO toils;"
FIRST_PROMISED = 3
"""The first of the migrations that are made for databases which somebody has."""

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database: PostgresLocation) -> Iterator[Connection]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        yield connection


def newer_program(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(migrating, "load_migrations", lambda of: (*KNOWN, (NEXT, text)))


def this_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "load_migrations", lambda of: KNOWN)


def test_every_migration_lets_the_program_before_it_go_on() -> None:
    asked = [(number, min_compatible_schema(number, text)) for number, text in KNOWN if number >= FIRST_PROMISED]

    assert [number for number, since in asked if since >= number] == []
    assert min_compatible_schema(NEXT, ADDING) == NEWEST
    assert min_compatible_schema(NEXT, BREAKING) == NEXT


def test_a_node_keeps_running_beside_one_that_has_added_to_its_tables(
    database: PostgresLocation, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()
    with open_nodes(database, 1) as (old,):
        old.store.write_now(lambda tx: apply_fleet(tx, build_fleet("worker"), now))
        old.join(now)

        newer_program(monkeypatch, ADDING)
        migrate(connection)
        this_program(monkeypatch)

        assert len(old.claim(now).claims) == 1
        again = PostgresStore(database)
        again.open()
        assert list(again.write_now(lambda tx: tx.targets())) == ["worker"]
        again.close()
    reader = open_reader(database)
    assert len(reader.runs(Filter())) == 1
    reader.close()


def test_a_node_is_not_deprived_of_its_tables_while_it_is_at_work(
    database: PostgresLocation, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()
    with open_nodes(database, 1) as (old,):
        old.join(now)
        newer_program(monkeypatch, BREAKING)

        with pytest.raises(StoreUnavailable, match="cannot work with schema") as refused:
            migrate(connection)

        assert "herdbeat down" in refused.value.hint
        old.store.write_now(lambda tx: tx.leave_node(old.joined.node_id, now))
        migrate(connection)
    this_program(monkeypatch)
    with pytest.raises(StoreUnavailable, match="created by a newer version of herdbeat"):
        PostgresStore(database).open()
