"""Identifiers that people read: short ids (run 237684 of the ledger is `7f3k`) and the names of schedules.

Imports nothing, because shell completion needs these functions and no domain value.
"""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: without i, l, o and u, which are mistaken for other characters."""

_DIGIT_VALUES = {char: value for value, char in enumerate(_ALPHABET)}


def format_short_id(number: int) -> str:
    """Return the short id of a number, padded to four characters so that ids line up in columns."""
    text = ""
    while number:
        number, digit = divmod(number, 32)
        text = _ALPHABET[digit] + text
    return text.rjust(4, "0")


def parse_short_id(text: str) -> int | None:
    """Return the number of a short id; None if the text is not one."""
    number = 0
    for char in text.lower():
        if char not in _DIGIT_VALUES or number > 1 << 62:
            return None
        number = number * 32 + _DIGIT_VALUES[char]
    return number if text else None


DEFAULT_SCHEDULE_NAME = "default"
"""The name of a schedule that is written directly in its target, without a `schedules` section."""


def display_name(target: str, name: str) -> str:
    """Return `target/name`, or the target alone for its default schedule."""
    return target if name == DEFAULT_SCHEDULE_NAME else f"{target}/{name}"
