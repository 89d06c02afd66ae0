"""From a sheet of SQL to what the driver takes: `:name` for a value, `:rows AS given (column type, …)` for a batch."""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from herdbeat.store.queries import load_statements

_ROWS_PATTERN = re.compile(r":rows AS (?P<name>\w+) \((?P<columns>[^)]*)\)")
_COMMENT_PATTERN = re.compile(r"--.*$", re.MULTILINE)
_PLACEHOLDER_PATTERN = re.compile(r"'[^']*'|(?<!:):(?P<name>[a-z]\w*)")
"""What stands in quotes is left alone, and so is the colon of a cast."""


class TranslatedStatement(NamedTuple):
    """Text for the driver, and the types of the columns of its batch, if it takes one."""

    text: bytes
    columns: tuple[str, ...]


@cache
def load_translated_statements(*files: str) -> Mapping[str, TranslatedStatement]:
    return {name: translate_statement(text) for name, text in load_statements(*files).items()}


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
