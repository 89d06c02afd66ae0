"""What a ledger asks of the SQL below it: a named statement for a whole batch, and its whole answer."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from herdbeat.store.clean import clean, is_suspect

Row = Sequence[object]

Touched: TypeAlias = Callable[[], int]
"""How many rows a write has touched. Until somebody asks, nobody waits for it."""

dump = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def dump_clean(value: object) -> str:
    """As JSON, without the letters that no ledger can hold."""
    text = dump(value)
    return dump(clean(value)) if is_suspect(text) else text


class Statements(Protocol):
    """One connection and the statements it knows by name."""

    def ask(self, name: str, rows: Iterable[object] = (), **values: object) -> Any:
        """The answer to a question, a row of values each, or a value each; `rows` are what it asks about."""
        ...

    def ask_one(self, name: str, **values: object) -> Any:
        """The only row of an answer; None if there is none."""
        ...

    def tell(self, name: str, rows: Sequence[object], **values: object) -> Touched:
        """Write a batch. Nothing to write costs nothing. What is wrong with it may be raised by what comes after it."""
        ...

    def put(self, name: str, rows: Sequence[Row], **values: object) -> Touched:
        """The same on the shortest way. Only for rows of numbers and our own words: foreign text may be poison."""
        ...

    def do(self, name: str, **values: object) -> Touched:
        """One statement without a batch."""
        ...


def nothing_touched() -> int:
    """For a batch without rows."""
    return 0
