"""Which program may use which schema: two that follow each other share a database, others are told why not."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.store.postgres.nodes import a_fleet, nodes

from herdbeat.clock import SystemClock
from herdbeat.errors import StoreUnavailable
from herdbeat.scheduler.arrange import arrange
from herdbeat.store.opening import reader_at
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres import migrate as migrating
from herdbeat.store.postgres.migrate import FOLDER, migrate, understood_by
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.queries import migrations
from herdbeat.store.reader import Filter

KNOWN = migrations(FOLDER)
NEWEST = KNOWN[-1][0]
NEXT = NEWEST + 1
ADDING = f"-- A column more.\n-- Understood by programs of schema {NEWEST}.\nALTER TABLE node ADD COLUMN mood text;"
BREAKING = "ALTER TABLE node RENAME COLUMN works TO toils;"
FIRST_PROMISED = 3
"""The first of the migrations that are made for databases which somebody has."""

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database: PostgresPlace) -> Iterator[Connection]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        yield connection


def newer_program(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(migrating, "migrations", lambda of: (*KNOWN, (NEXT, text)))


def this_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "migrations", lambda of: KNOWN)


def test_every_migration_lets_the_program_before_it_go_on() -> None:
    asked = [(number, understood_by(number, text)) for number, text in KNOWN if number >= FIRST_PROMISED]

    assert [number for number, since in asked if since >= number] == []
    assert understood_by(NEXT, ADDING) == NEWEST
    assert understood_by(NEXT, BREAKING) == NEXT


def test_a_node_goes_on_beside_one_that_has_added_to_its_tables(
    database: PostgresPlace, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()
    with nodes(database, 1) as (old,):
        old.store.write_now(lambda tx: arrange(tx, a_fleet("worker"), now))
        old.join(now)

        newer_program(monkeypatch, ADDING)
        migrate(connection)
        this_program(monkeypatch)

        assert len(old.claim(now).claims) == 1
        again = PostgresStore(database)
        again.open()
        assert list(again.write_now(lambda tx: tx.targets())) == ["worker"]
        again.close()
    reader = reader_at(database)
    assert len(reader.runs(Filter())) == 1
    reader.close()


def test_a_node_is_not_deprived_of_its_tables_while_it_is_at_work(
    database: PostgresPlace, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SystemClock().now()
    with nodes(database, 1) as (old,):
        old.join(now)
        newer_program(monkeypatch, BREAKING)

        with pytest.raises(StoreUnavailable, match="would not understand") as refused:
            migrate(connection)

        assert "herdbeat down" in refused.value.hint
        old.store.write_now(lambda tx: tx.leave_node(old.joined.node_id, now))
        migrate(connection)
    this_program(monkeypatch)
    with pytest.raises(StoreUnavailable, match="written by a newer herdbeat"):
        PostgresStore(database).open()
