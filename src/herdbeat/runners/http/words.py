"""The body of an answer as text and as JSON. Pure; whatever bytes come, something can be said about them."""

import json
import re

_CHARSET_PATTERN = re.compile(r"charset\s*=\s*\"?([a-z0-9_.:-]+)", re.IGNORECASE)
_KNOWN_CHARSETS = frozenset(
    {"iso-8859-1", "iso-8859-15", "latin-1", "windows-1252", "utf-16", "utf-16le", "utf-16be", "shift_jis", "euc-jp"}
    | {"gb2312", "gbk", "gb18030", "big5", "euc-kr", "koi8-r", "windows-1250", "windows-1251", "iso-8859-2"}
)
"""Python knows many more, some of which (punycode) take minutes for a megabyte."""

_ERROR_KEYS = ("detail", "message", "error", "title", "reason")
"""Where an object that reports an error commonly says why."""


def decode_text(body: bytes, content_type: str) -> str:
    """The body as text: in the encoding that its header names, if that is a plain one, else as UTF-8.

    What does not fit is replaced, and so is NUL, which no database takes.
    """
    named = _CHARSET_PATTERN.search(content_type)
    charset = named[1].lower() if named else ""
    return body.decode(charset if charset in _KNOWN_CHARSETS else "utf-8", "replace").replace("\0", "\ufffd")


def parse_json(body: bytes, content_type: str) -> object:
    """The body's data; None if it is not JSON. Without a header that says so, only an object or a list counts.

    NaN, infinities and numbers that become infinite are not JSON: a ledger that took one in could not be read again.
    """
    start = body[:64].lstrip()[:1]
    if not start or ("json" not in content_type.lower() and start not in (b"{", b"[")):
        return None
    try:
        found: object = json.loads(body)
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return found


def extract_error_line(data: object, text: str) -> str:
    """What the body of a failure says, in a line; empty if it is markup or says nothing."""
    if isinstance(data, dict):
        detail = next((data[key] for key in _ERROR_KEYS if isinstance(data.get(key), str)), "")
        return _first_nonblank_line(str(detail))
    line = _first_nonblank_line(text)
    return "" if data is not None or line.startswith("<") else line


def _first_nonblank_line(text: str) -> str:
    return next((" ".join(line.split()) for line in text[:4096].splitlines() if line.strip()), "")
