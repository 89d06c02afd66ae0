"""From a sheet of SQL to what the driver takes: `:name` for a value, `:rows AS given (column type, …)` for a batch."""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from herdbeat.store.queries import queries

_ROWS = re.compile(r":rows AS (?P<name>\w+) \((?P<columns>[^)]*)\)")
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_VALUE = re.compile(r"'[^']*'|(?<!:):(?P<name>[a-z]\w*)")
"""What stands in quotes is left alone, and so is the colon of a cast."""


class Statement(NamedTuple):
    """Text for the driver, and the types of the columns of its batch, if it takes one."""

    text: bytes
    columns: tuple[str, ...]


@cache
def statements(*sheets: str) -> Mapping[str, Statement]:
    return {name: translated(text) for name, text in queries(*sheets).items()}


def translated(text: str) -> Statement:
    columns: list[str] = []

    def unnest(found: re.Match[str]) -> str:
        pairs = [each.split(maxsplit=1) for each in found["columns"].split(",")]
        if not columns:
            columns.extend(kind for _, kind in pairs)
        arrays = ", ".join(f":c{place}::{kind}[]" for place, (_, kind) in enumerate(pairs))
        return f"unnest({arrays}) AS {found['name']} ({', '.join(name for name, _ in pairs)})"

    whole = _ROWS.sub(unnest, _COMMENT.sub("", text)).replace("%", "%%")
    named = _VALUE.sub(lambda found: f"%({found['name']})s" if found["name"] else found[0], whole)
    return Statement(named.encode(), tuple(columns))
