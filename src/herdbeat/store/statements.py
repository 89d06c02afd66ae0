"""What a ledger asks of the SQL below it: a named statement for a whole batch, and its whole answer."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from herdbeat.store.sanitize import has_suspect_escapes, sanitize

Row = Sequence[object]

RowCount: TypeAlias = Callable[[], int]
"""How many rows a write has touched. Until somebody asks, nobody waits for it."""

dump_json = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def dump_sanitized(value: object) -> str:
    """As JSON, without the letters that no ledger can hold."""
    text = dump_json(value)
    return dump_json(sanitize(value)) if has_suspect_escapes(text) else text


class Connection(Protocol):
    """One connection and the statements it knows by name."""

    def query(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """The answer to a question, a row of values each, or a value each; `rows` are what it asks about."""
        ...

    def query_one(self, name: str, **values: object) -> Any:
        """The only row of an answer; None if there is none."""
        ...

    def execute_many(self, name: str, rows: Sequence[object], **values: object) -> RowCount:
        """Write a batch. Nothing to write costs nothing. What is wrong with it may be raised by what comes after it."""
        ...

    def execute_values(self, name: str, rows: Sequence[Row], **values: object) -> RowCount:
        """The same on the shortest way. Only for rows of numbers and our own words: foreign text may be poison."""
        ...

    def execute(self, name: str, **values: object) -> RowCount:
        """One statement without a batch."""
        ...


def zero_rows() -> int:
    """For a batch without rows."""
    return 0
