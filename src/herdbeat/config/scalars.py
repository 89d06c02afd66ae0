"""What an unquoted YAML scalar means, by the core schema of YAML 1.2.

YAML 1.1, which PyYAML speaks by itself, reads `12:30` as 750, `on` as true and `010` as 8. A schedule that
says `active_hours: 07:00-22:00` or `cron: on` must never meet that.
"""

import re

from herdbeat.located import Scalar

_KEYWORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY_OR_NAN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_MAX_NUMBER_DIGITS = 18
"""Digits of a number. Longer ones stay text: int() refuses thousands of digits, and no setting needs them."""


def is_long_number(value: object) -> bool:
    """Whether a text is one only because it has too many digits."""
    return isinstance(value, str) and len(value) > _MAX_NUMBER_DIGITS and _INTEGER.fullmatch(value) is not None


def resolve_scalar(text: str) -> Scalar:
    """The value of a plain scalar: null, a bool, a number, or else the text itself."""
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if len(text) > _MAX_NUMBER_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _INFINITY_OR_NAN.fullmatch(text):
        return float(text.replace(".", ""))
    return text
