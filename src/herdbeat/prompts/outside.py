"""Text that strangers wrote goes into a prompt as data: on one plain line, or between marks it cannot forge."""

import re

MAX_INLINE_LENGTH = 200
"""A line up to this long may stand inside a sentence. A stranger's instructions need no line break to be
an essay, so a longer one is marked like a text of many lines."""

_CLOSING_TAG = re.compile(r"<(?=\s*/\s*data)", re.IGNORECASE)
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def fold_to_line(text: str) -> str:
    """Folded to one line: every run of blanks, line breaks and control characters is one space."""
    return " ".join(_CONTROL.sub(" ", text).split())


def is_inline(text: str) -> bool:
    return len(text) <= MAX_INLINE_LENGTH and not _LINE_BREAK.search(text.strip())


def wrap_as_data(text: str, origin: str) -> str:
    """Put a text between `<data from="…">` and `</data>`.

    A closing mark inside the text would end the data early and let the rest speak as the operator;
    it becomes `&lt;/data`, which reads the same and closes nothing.
    """
    lines = _CONTROL.sub(" ", _LINE_BREAK.sub("\n", text)).strip("\n")
    return f'<data from="{origin}">\n{_CLOSING_TAG.sub("&lt;", lines)}\n</data>'
