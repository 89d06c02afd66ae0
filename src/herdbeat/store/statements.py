"""Statements by name, and the connection that runs them, each for a whole batch of rows.

All SQL is in `sql/`, one file per table and dialect; none is in Python.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Row = Sequence[object]

RowCount: TypeAlias = Callable[[], int]
"""Returns how many rows a write has touched. Only calling it waits for the write."""

_NAME_LINE = "\n-- name: "
_FRAGMENT_PATTERN = re.compile(r"\{(?P<name>\w+)\}")
_SQL_FOLDER = Path(__file__).parent / "sql"
"""Not by importlib.resources: that loads what reads zip files, and every command would wait for it."""


@cache
def load_statements(dialect: str) -> Mapping[str, str]:
    """Return the statements of a dialect: those in `common`, and its own. `{name}` stands for another one's text."""
    statements = {**load_folder("common"), **load_folder(dialect)}

    def expand(text: str) -> str:
        return _FRAGMENT_PATTERN.sub(lambda part: expand(statements[part["name"]]), text) if "{" in text else text

    return {name: expand(text) for name, text in statements.items()}


def load_folder(folder: str) -> dict[str, str]:
    """Return the statements of one folder as they are written."""
    # Every command reads all of them: pathlib would take twice the time.
    with os.scandir(_SQL_FOLDER / folder) as entries:
        files = [entry.path for entry in entries if entry.name.endswith(".sql")]
    return {name: text for file in files for name, text in _split_statements(file)}


def load_file(name: str) -> dict[str, str]:
    """Return the statements of one file, for a command that has no time for more."""
    return dict(_split_statements(str(_SQL_FOLDER / name)))


@cache
def load_migrations(subfolder: str = "migrations") -> tuple[tuple[int, str], ...]:
    """Return numbered migrations: forward only, never edited after a release."""
    folder = _SQL_FOLDER / subfolder
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in names)


def _split_statements(file: str) -> Iterator[tuple[str, str]]:
    with open(file, "rb") as stream:  # noqa: PTH123 -- see load_folder
        _, *parts = f"\n{stream.read().decode()}".split(_NAME_LINE)
    for part in parts:
        name, _, body = part.partition("\n")
        yield name, body.strip().rstrip(";")


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
