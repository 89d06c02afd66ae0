"""Short names for numbers: a run is `7f3k` to people and 237684 to the ledger."""

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o or u, so that a name can be read aloud."""

_VALUES = {letter: value for value, letter in enumerate(_LETTERS)}


def short_id(number: int) -> str:
    """At least four letters, so that names of a day line up."""
    text = ""
    while number:
        number, rest = divmod(number, 32)
        text = _LETTERS[rest] + text
    return text.rjust(4, "0")


def from_short_id(text: str) -> int | None:
    """The number behind a name; None if it cannot be one."""
    number = 0
    for letter in text.lower():
        if letter not in _VALUES or number > 1 << 62:
            return None
        number = number * 32 + _VALUES[letter]
    return number if text else None
