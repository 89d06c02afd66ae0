"""How the PostgreSQL store speaks: a named statement with one array for each column of its batch.

On a connection in pipeline mode a write is sent and nobody waits for it: the server is at it while we prepare the next.
An answer is waited for, and with it everything that was sent before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from herdbeat.store.postgres import arrays
from herdbeat.store.postgres.faults import is_about_the_work, unavailable
from herdbeat.store.postgres.translate import Statement, statements
from herdbeat.store.statements import Row, Touched, nothing_touched

NEWS = frozenset(
    [
        "add_schedules",
        "edit_schedules",
        "remove_schedules",
        "change_targets",
        "arm_again",
        "set_pause",
        "set_disabled",
        "set_skips",
        "add_hint",
        "extend_hint",
        "end_hints",
        "end_hints_of",
        "retry_beat",
        "wake_beats",
        "wake_schedules",
        "forget_failures",
    ]
)
"""What other nodes should hear of at once. Claims and finishes are no news: whoever writes them looks again itself."""

SHEETS = ("both", "postgres/ledger", "postgres/fleet", "postgres/upkeep", "postgres/acts")

Bound = dict[str, object]


Wrong = Callable[[], Exception]


class Sent:
    """A statement on its way. Called, it waits, and says how many rows were touched."""

    __slots__ = ("_wait", "cursor")

    def __init__(self, cursor: psycopg.Cursor[Any], wait: Callable[[], None]) -> None:
        self.cursor = cursor
        self._wait = wait

    @property
    def is_answered(self) -> bool:
        return self.cursor.pgresult is not None

    def __call__(self) -> int:
        if not self.is_answered:
            self._wait()
        return self.cursor.rowcount


class PostgresStatements:
    """One connection and the statements it knows. What is about the server is raised as StoreUnavailable."""

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        self._connection = connection
        self._place = place
        self._known = statements(*SHEETS)
        self._last: Sent | None = None
        self._expected: list[tuple[Sent, int, Wrong]] = []
        self.has_news = False
        self.told = 0

    def forget(self) -> None:
        """A new transaction begins: nothing of the last one is waited for."""
        self._expected.clear()
        self._last, self.has_news = None, False

    def ask(self, name: str, rows: Iterable[object] | None = None, **values: object) -> Any:
        """Rows of one value come as those values. Asked about nothing, it answers nothing."""
        statement = self._known[name]
        asked = None if rows is None else list(rows)
        if statement.columns and not asked:
            return []
        return self.answer(self._send(statement, bound(statement, asked or [], values)))

    def ahead(self, name: str, rows: Iterable[object] | None = None, **values: object) -> Sent:
        """Ask now what will be wanted later, by `answer`: it comes together with the next answer."""
        statement = self._known[name]
        return self._send(statement, bound(statement, list(rows or ()), values))

    def answer(self, sent: Sent) -> Any:
        with self._told():
            found = sent.cursor.fetchall()
        self._look_back()
        return [row[0] for row in found] if found and len(found[0]) == 1 else found

    def ask_one(self, name: str, **values: object) -> Any:
        statement = self._known[name]
        sent = self._send(statement, bound(statement, [], values))
        with self._told():
            row = sent.cursor.fetchone()
        self._look_back()
        return row

    def tell(self, name: str, rows: Sequence[object], **values: object) -> Touched:
        if not rows:
            return nothing_touched
        return self._tell(name, rows, values)

    def put(self, name: str, rows: Sequence[Row], **values: object) -> Touched:
        return self.tell(name, rows, **values)

    def do(self, name: str, **values: object) -> Touched:
        return self._tell(name, [], values)

    def _tell(self, name: str, rows: Sequence[object], values: Bound) -> Sent:
        statement = self._known[name]
        self.has_news |= name in NEWS
        self.told += 1
        return self._send(statement, bound(statement, rows, values))

    def expect(self, touched: Touched, number: int, wrong: Wrong) -> None:
        """Raise that, with a later answer, if not so many rows were touched."""
        if isinstance(touched, Sent):
            self._expected.append((touched, number, wrong))

    def settle(self) -> None:
        """Wait until everything that was sent is done. What was wrong with it is raised here at the latest."""
        if self._last is not None and not self._last.is_answered:
            self._wait()
        self._look_back()

    def _look_back(self) -> None:
        """Has what was expected come true? Only of what is answered."""
        if not self._expected:
            return
        waited_for, self._expected = self._expected, []
        for each in waited_for:
            sent, number, wrong = each
            if not sent.is_answered:
                self._expected.append(each)
            elif sent.cursor.rowcount != number:
                raise wrong()

    def _wait(self) -> None:
        """By a question of its own. Pipeline.sync() would wait for ever behind a write of megabytes: it waits for the
        answer without having sent all of it."""
        with self._told():
            self._connection.execute("SELECT 1").fetchone()

    def _send(self, statement: Statement, values: Bound) -> Sent:
        with self._told():
            self._last = Sent(self._connection.execute(statement.text, values), self._wait)
        return self._last

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if is_about_the_work(error):
                raise
            raise unavailable(self._place, error) from error


def bound(statement: Statement, rows: Sequence[Any], values: Bound) -> Bound:
    """Everything as text of no type: what a value is, the statement says. Typed by the driver, 7 and 70,000 would be
    two statements for the server, and both prepared."""
    taken: Bound = {name: _scalar(value) for name, value in values.items()}
    if not statement.columns or not rows:
        return taken
    if len(statement.columns) == 1:
        singles = [row[0] if isinstance(row, tuple) else row for row in rows]
        taken["c0"] = arrays.column(singles, statement.columns[0])
        return taken
    for place, (kind, each) in enumerate(zip(statement.columns, zip(*rows, strict=True), strict=True)):
        taken[f"c{place}"] = arrays.column(each, kind)
    return taken


def _scalar(value: object) -> object:
    match value:
        case None:
            return None
        case list() | tuple() | set() | frozenset():
            return arrays.texts(list(value))
        case _:
            return arrays.clean(str(value))
