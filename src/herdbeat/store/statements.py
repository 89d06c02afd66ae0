"""The connection below a transaction: it runs named statements, each for a whole batch of rows."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from herdbeat.store.sanitize import has_suspect_escapes, sanitize

Row = Sequence[object]

RowCount: TypeAlias = Callable[[], int]
"""Returns how many rows a write has touched. Only calling it waits for the write."""

dump_json = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def dump_sanitized(value: object) -> str:
    """Return JSON without the characters that no ledger can hold."""
    text = dump_json(value)
    return dump_json(sanitize(value)) if has_suspect_escapes(text) else text


class Connection(Protocol):
    """One connection and the statements it knows by name."""

    def query(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """Return all rows of an answer, each a row of values or a single value; `rows` are the keys it is about."""

    def query_one(self, name: str, **values: object) -> Any:
        """Return the only row of an answer; None if there is none."""

    def execute_many(self, name: str, rows: Sequence[object], **values: object) -> RowCount:
        """Write a batch. An empty one costs nothing. A later call may raise its error."""

    def execute_values(self, name: str, rows: Sequence[Row], **values: object) -> RowCount:
        """Write a batch the quickest way. Only for numbers and our own words: foreign text is not sanitized."""

    def execute(self, name: str, **values: object) -> RowCount:
        """Run one statement without a batch."""


def zero_rows() -> int:
    """The row count of an empty batch."""
    return 0
