"""How the PostgreSQL store speaks: a named statement with one array for each column of its batch."""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from herdbeat.store.postgres import arrays
from herdbeat.store.postgres.faults import is_about_the_work, unavailable
from herdbeat.store.postgres.translate import Statement, statements
from herdbeat.store.statements import Row

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

SHEETS = ("postgres/ledger", "postgres/fleet", "postgres/upkeep", "postgres/acts")

Bound = dict[str, object]


class PostgresStatements:
    """One connection and the statements it knows. What is about the server is raised as StoreUnavailable."""

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        self._connection = connection
        self._place = place
        self._known = statements(*SHEETS)
        self.has_news = False

    def ask(self, name: str, rows: Iterable[object] | None = None, **values: object) -> Any:
        """Rows of one value come as those values. Asked about nothing, it answers nothing."""
        statement = self._known[name]
        asked = None if rows is None else list(rows)
        if statement.columns and not asked:
            return []
        found = self._run(statement, bound(statement, asked or [], values)).fetchall()
        return [row[0] for row in found] if found and len(found[0]) == 1 else found

    def ask_one(self, name: str, **values: object) -> Any:
        statement = self._known[name]
        return self._run(statement, bound(statement, [], values)).fetchone()

    def tell(self, name: str, rows: Sequence[object], **values: object) -> int:
        if not rows:
            return 0
        statement = self._known[name]
        self.has_news |= name in NEWS
        return self._run(statement, bound(statement, rows, values)).rowcount

    def put(self, name: str, rows: Sequence[Row], **values: object) -> int:
        return self.tell(name, rows, **values)

    def do(self, name: str, **values: object) -> int:
        statement = self._known[name]
        self.has_news |= name in NEWS
        return self._run(statement, bound(statement, [], values)).rowcount

    def _run(self, statement: Statement, values: Bound) -> psycopg.Cursor[Any]:
        try:
            return self._connection.execute(statement.text, values)
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
