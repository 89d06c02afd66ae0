import sqlite3

import pytest

from herdbeat.store.sqlite.connection import BATCH_SIZES, split_batches

INSERT = """INSERT INTO note
WITH given (id, text) AS (VALUES :rows) SELECT id, text, :by, :now FROM given WHERE id IS NOT NULL"""
UPDATE = "WITH given (id) AS (VALUES :rows) UPDATE note SET by = :by, now = :now FROM given WHERE note.id = given.id"


@pytest.fixture
def connection() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, by TEXT, now INTEGER)")
    return connection


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 129, 255, 256, 257, 500, 1_000])
def test_every_row_is_bound_once_whatever_their_number(connection: sqlite3.Connection, count: int) -> None:
    rows = [(number, f"note {number}") for number in range(count)]

    for sql, bound in split_batches(INSERT, rows, {"by": "ann", "now": 7}):
        connection.execute(sql, bound)

    stored = connection.execute("SELECT id, text, by, now FROM note ORDER BY id").fetchall()
    assert stored == [(number, f"note {number}", "ann", 7) for number in range(count)]


def test_the_padding_of_a_batch_changes_nothing(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO note (id) VALUES (?)", [(number,) for number in range(10)])

    for sql, bound in split_batches(UPDATE, [(2,), (5,), (8,)], {"by": "ann", "now": 7}):
        connection.execute(sql, bound)

    assert connection.execute("SELECT id, now FROM note WHERE by = 'ann'").fetchall() == [(2, 7), (5, 7), (8, 7)]


def test_few_statements_are_ever_prepared() -> None:
    given = {"by": "ann", "now": 2}

    texts = {sql for count in range(1, 2_000, 7) for sql, _ in split_batches(UPDATE, [(0,)] * count, given)}

    assert len(texts) == len(BATCH_SIZES)
