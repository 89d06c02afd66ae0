"""Short names for numbers: a run is `7f3k` to people and 237684 to the ledger."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o or u, so that a name can be read aloud."""

_DIGIT_VALUES = {char: value for value, char in enumerate(_ALPHABET)}


def format_short_id(number: int) -> str:
    """At least four letters, so that names of a day line up."""
    text = ""
    while number:
        number, digit = divmod(number, 32)
        text = _ALPHABET[digit] + text
    return text.rjust(4, "0")


def parse_short_id(text: str) -> int | None:
    """The number behind a name; None if it cannot be one."""
    number = 0
    for char in text.lower():
        if char not in _DIGIT_VALUES or number > 1 << 62:
            return None
        number = number * 32 + _DIGIT_VALUES[char]
    return number if text else None


# What people call a schedule. Apart from the schedule itself, since a shell that completes a name needs no more.


DEFAULT_SCHEDULE_NAME = "default"
"""The name of the schedule that is written right beside its target."""


def display_name(target: str, name: str) -> str:
    """`target/name`; the target alone is enough for a schedule written beside its name."""
    return target if name == DEFAULT_SCHEDULE_NAME else f"{target}/{name}"
