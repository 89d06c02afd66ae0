"""The writing connection of the PostgreSQL store: named statements, with one array for each column of a batch.

In pipeline mode a write is sent without waiting: the server runs it while the next one is prepared. A query waits for
its answer, and so for everything that was sent before it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import psycopg

from herdbeat.store.postgres.errors import is_statement_error, to_store_unavailable
from herdbeat.store.sanitize import sanitize_text
from herdbeat.store.statements import Row, RowCount, load_statements, zero_rows

# ── batches as array literals, column by column: the driver would adapt every single value ──


def encode_array(values: Sequence[object], kind: str) -> str:
    """Return one array literal, for a cast to its type."""
    return encode_texts(values) if kind == "text" else encode_numbers(values)


def encode_numbers(values: Sequence[object]) -> str:
    return f"{{{','.join(map(str, values))}}}".replace("None", "NULL")


def encode_texts(values: Sequence[object]) -> str:
    return sanitize_text(f"{{{','.join(map(_quote_element, values))}}}")


def _quote_element(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# ── from our SQL to the driver's: `:name` is a value, `:rows AS given (column type, …)` a batch ──


_ROWS_PATTERN = re.compile(r":rows AS (?P<name>\w+) \((?P<columns>[^)]*)\)")
_COMMENT_PATTERN = re.compile(r"--.*$", re.MULTILINE)
_PLACEHOLDER_PATTERN = re.compile(r"'[^']*'|(?<!:):(?P<name>[a-z]\w*)")
"""Quoted text is left alone, and so is the colon of a cast."""


class TranslatedStatement(NamedTuple):
    """Text for the driver, and the column types of its batch, if it takes one."""

    text: bytes
    columns: tuple[str, ...]


@cache
def load_statement(name: str) -> TranslatedStatement:
    return translate_statement(load_statements("postgres")[name])


def translate_statement(text: str) -> TranslatedStatement:
    columns: list[str] = []

    def unnest(found: re.Match[str]) -> str:
        pairs = [each.split(maxsplit=1) for each in found["columns"].split(",")]
        if not columns:
            columns.extend(kind for _, kind in pairs)
        arrays = ", ".join(f":c{place}::{kind}[]" for place, (_, kind) in enumerate(pairs))
        return f"unnest({arrays}) AS {found['name']} ({', '.join(name for name, _ in pairs)})"

    whole = _ROWS_PATTERN.sub(unnest, _COMMENT_PATTERN.sub("", text)).replace("%", "%%")
    named = _PLACEHOLDER_PATTERN.sub(lambda found: f"%({found['name']})s" if found["name"] else found[0], whole)
    return TranslatedStatement(named.encode(), tuple(columns))


NOTIFYING_STATEMENTS = {
    *("add_schedules", "edit_schedules", "remove_schedules", "wake_schedules", "change_targets", "rearm_schedules"),
    *("set_pause", "set_disabled", "set_skips", "add_hint", "extend_hint", "end_hints_of"),
    *("retry_beat", "wake_beats", "wake_rate_limited", "reset_failures"),
}
"""Statements after which other nodes are notified. Not claims and completions: their node evaluates again itself."""

BoundValues = dict[str, object]
ErrorFactory = Callable[[], Exception]


class SentStatement:
    """A statement that was sent. Calling it waits and returns how many rows it touched."""

    __slots__ = ("_wait", "cursor")

    def __init__(self, cursor: psycopg.Cursor[Any], wait: Callable[[], None]) -> None:
        self.cursor = cursor
        self._wait = wait

    @property
    def has_result(self) -> bool:
        return self.cursor.pgresult is not None

    def __call__(self) -> int:
        if not self.has_result:
            self._wait()
        return self.cursor.rowcount


class PostgresConnection:
    """Runs the statements of the writer. Errors of the server are raised as StoreUnavailable."""

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        self._connection = connection
        self._place = place
        self._last: SentStatement | None = None
        self._expected: list[tuple[SentStatement, int, ErrorFactory]] = []
        self.has_pending_notify = False
        self.write_count = 0

    def reset(self) -> None:
        """Begin a new transaction: forget what the last one expected."""
        self._expected.clear()
        self._last, self.has_pending_notify = None, False

    def query(self, name: str, rows: Iterable[object] | None = None, **values: object) -> Any:
        """Rows of one column come as plain values. Without keys the answer is empty."""
        statement = load_statement(name)
        keys = list(rows or ())
        if statement.columns and not keys:
            return []
        return self.receive(self._send(statement, bind_values(statement, keys, values)))

    def send_query(self, name: str, rows: Iterable[object] | None = None, **values: object) -> SentStatement:
        """Send a query whose answer `receive` returns later: it arrives together with the next answer."""
        statement = load_statement(name)
        return self._send(statement, bind_values(statement, list(rows or ()), values))

    def receive(self, sent: SentStatement) -> Any:
        with self._translate_errors():
            found = sent.cursor.fetchall()
        self._check_expected()
        return [row[0] for row in found] if found and len(found[0]) == 1 else found

    def query_one(self, name: str, **values: object) -> Any:
        statement = load_statement(name)
        sent = self._send(statement, bind_values(statement, [], values))
        with self._translate_errors():
            row = sent.cursor.fetchone()
        self._check_expected()
        return row

    def execute_many(self, name: str, rows: Sequence[object], **values: object) -> RowCount:
        return self._execute_batch(name, rows, values) if rows else zero_rows

    def execute_values(self, name: str, rows: Sequence[Row], **values: object) -> RowCount:
        return self.execute_many(name, rows, **values)

    def execute(self, name: str, **values: object) -> RowCount:
        return self._execute_batch(name, [], values)

    def _execute_batch(self, name: str, rows: Sequence[object], values: BoundValues) -> SentStatement:
        statement = load_statement(name)
        self.has_pending_notify |= name in NOTIFYING_STATEMENTS
        self.write_count += 1
        return self._send(statement, bind_values(statement, rows, values))

    def expect_row_count(self, touched: RowCount, number: int, make_error: ErrorFactory) -> None:
        """Raise that error, with a later answer, if not exactly so many rows were touched."""
        if isinstance(touched, SentStatement):
            self._expected.append((touched, number, make_error))

    def flush(self) -> None:
        """Wait until everything that was sent is done. Its errors are raised here at the latest."""
        if self._last is not None and not self._last.has_result:
            self._wait()
        self._check_expected()

    def _check_expected(self) -> None:
        """Check the expected row counts of the statements that are answered."""
        if not self._expected:
            return
        expected, self._expected = self._expected, []
        for sent, number, make_error in expected:
            if not sent.has_result:
                self._expected.append((sent, number, make_error))
            elif sent.cursor.rowcount != number:
                raise make_error()

    def _wait(self) -> None:
        """Wait by a query. Pipeline.sync() hangs behind a write of megabytes: it waits before it has sent all of it."""
        with self._translate_errors():
            self._connection.execute("SELECT 1").fetchone()

    def _send(self, statement: TranslatedStatement, values: BoundValues) -> SentStatement:
        with self._translate_errors():
            self._last = SentStatement(self._connection.execute(statement.text, values), self._wait)
        return self._last

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if is_statement_error(error):
                raise
            raise to_store_unavailable(self._place, error) from error


def bind_values(statement: TranslatedStatement, rows: Sequence[Any], values: BoundValues) -> BoundValues:
    """Bind everything as untyped text: the statement has the types. Typed by the driver, 7 and 70,000 would be two
    statements for the server, and both prepared."""
    bound_values: BoundValues = {name: _encode_scalar(value) for name, value in values.items()}
    if len(statement.columns) == 1 and rows:
        singles = [row[0] if isinstance(row, tuple) else row for row in rows]
        bound_values["c0"] = encode_array(singles, statement.columns[0])
    elif statement.columns and rows:
        for place, (kind, each) in enumerate(zip(statement.columns, zip(*rows, strict=True), strict=True)):
            bound_values[f"c{place}"] = encode_array(each, kind)
    return bound_values


def _encode_scalar(value: object) -> object:
    match value:
        case None:
            return None
        case list() | tuple() | set() | frozenset():
            return encode_texts(list(value))
        case _:
            return sanitize_text(str(value))
