"""What no ledger can hold, taken out where text enters it.

A NUL ends a text for every program written in C, and half of a surrogate pair has no bytes in UTF-8: written once,
either one made every later batch that had the row in it unreadable.
"""

import re
from collections.abc import Mapping
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def has_suspect_escapes(dumped: str) -> bool:
    """Whether dumped JSON may hold such letters. Quick, and wrong only in the careful direction: emoji look alike."""
    return "\\u0000" in dumped or "\\ud" in dumped


def sanitize(value: Any) -> Any:
    """JSON data with every such letter replaced, however deep."""
    if isinstance(value, str):
        return _UNSTORABLE.sub(_REPLACEMENT, value)
    if isinstance(value, Mapping):
        return {sanitize(key): sanitize(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sanitize(item) for item in value]
    return value


def decode_lossy(data: bytes) -> str:
    """Text of a file that something else has written into: a bad byte must not hide the rows beside it."""
    return data.decode("utf-8", "replace")
