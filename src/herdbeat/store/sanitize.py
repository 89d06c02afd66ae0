"""Replace characters that no ledger can hold, where text and JSON enter it.

A NUL ends a text for every program written in C, and half of a surrogate pair has no bytes in UTF-8: stored once,
either one made every later batch with that row unreadable.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_UNSTORABLE_PATTERN = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

dump_json = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


def dump_sanitized(value: object) -> str:
    """Return JSON without the characters that no ledger can hold."""
    text = dump_json(value)
    return dump_json(sanitize(value)) if has_suspect_escapes(text) else text


def has_suspect_escapes(dumped: str) -> bool:
    """Whether JSON may hold such characters. Quick; it may be wrong about emoji, which only costs time."""
    return "\\u0000" in dumped or "\\ud" in dumped


def sanitize(value: Any) -> Any:
    """Return JSON data with every such character replaced, at any depth."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {sanitize(key): sanitize(item) for key, item in value.items()}
    return [sanitize(item) for item in value] if isinstance(value, list | tuple) else value


def sanitize_text(text: str) -> str:
    if "\x00" not in text and (text.isascii() or _is_encodable(text)):
        return text
    return _UNSTORABLE_PATTERN.sub(_REPLACEMENT, text)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_lossy(data: bytes) -> str:
    """Decode text that another program may have written: a bad byte must not hide the rows beside it."""
    return data.decode("utf-8", "replace")
