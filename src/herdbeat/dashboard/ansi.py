"""Colours of terminals as classes. The text itself is escaped; every other control sequence is dropped."""

import re

from markupsafe import Markup, escape

_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?|[\x00-\x08\x0b-\x1f\x7f]")
_CLASSES = {
    1: "ansi-bold",
    2: "ansi-dim",
    31: "ansi-red",
    32: "ansi-green",
    33: "ansi-yellow",
    34: "ansi-blue",
    35: "ansi-magenta",
    36: "ansi-cyan",
    90: "ansi-dim",
    91: "ansi-red",
    92: "ansi-green",
    93: "ansi-yellow",
    94: "ansi-blue",
    95: "ansi-magenta",
    96: "ansi-cyan",
}


def render_ansi(text: str) -> Markup:
    """Return a line of output as HTML. What a program prints can never become markup."""
    parts: list[str] = []
    classes: list[str] = []
    position = 0
    for match in _SEQUENCE.finditer(text):
        parts.append(_wrap(text[position : match.start()], classes))
        position = match.end()
        if match[2] == "m":
            classes = _apply_codes(match[1], classes)
    parts.append(_wrap(text[position:], classes))
    return Markup("".join(parts))  # noqa: S704 -- every part is escaped


def _wrap(text: str, classes: list[str]) -> str:
    if not text:
        return ""
    escaped = str(escape(text))
    return f'<span class="{" ".join(classes)}">{escaped}</span>' if classes else escaped


def _apply_codes(codes: str, classes: list[str]) -> list[str]:
    for code in (int(each[:4] or 0) for each in codes.split(";")):
        if code == 0:
            classes = []
        elif code in _CLASSES and _CLASSES[code] not in classes:
            classes = [*classes, _CLASSES[code]]
    return classes
