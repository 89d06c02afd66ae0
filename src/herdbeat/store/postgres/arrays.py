"""Batches as PostgreSQL array literals, column by column: the driver would look at every single value."""

import re
from collections.abc import Sequence

_POISON = re.compile("[\x00\ud800-\udfff]")
_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def column(values: Sequence[object], kind: str) -> str:
    """One array, for a cast to its type."""
    return texts(values) if kind == "text" else numbers(values)


def numbers(values: Sequence[object]) -> str:
    return f"{{{','.join(map(str, values))}}}".replace("None", "NULL")


def texts(values: Sequence[object]) -> str:
    return clean(f"{{{','.join(map(_quoted, values))}}}")


def clean(text: str) -> str:
    """Without what no ledger can hold: a NUL, and halves of surrogate pairs, which have no bytes in UTF-8."""
    if "\x00" not in text and (text.isascii() or _has_bytes(text)):
        return text
    return _POISON.sub(_INSTEAD, text)


def _quoted(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _has_bytes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
