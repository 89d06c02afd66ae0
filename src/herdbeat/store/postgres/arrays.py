"""Batches as PostgreSQL array literals, column by column: the driver would look at every single value."""

import re
from collections.abc import Sequence

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def encode_array(values: Sequence[object], kind: str) -> str:
    """One array, for a cast to its type."""
    return encode_texts(values) if kind == "text" else encode_numbers(values)


def encode_numbers(values: Sequence[object]) -> str:
    return f"{{{','.join(map(str, values))}}}".replace("None", "NULL")


def encode_texts(values: Sequence[object]) -> str:
    return sanitize_text(f"{{{','.join(map(_quote_element, values))}}}")


def sanitize_text(text: str) -> str:
    """Without what no ledger can hold: a NUL, and halves of surrogate pairs, which have no bytes in UTF-8."""
    if "\x00" not in text and (text.isascii() or _is_encodable(text)):
        return text
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def _quote_element(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
