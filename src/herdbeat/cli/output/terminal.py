"""The terminal: data to stdout, remarks to stderr, colours and line widths only if a person sees them."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from typing import TextIO
from unicodedata import combining, east_asian_width

from herdbeat.redaction import redact

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
_ANSI_SEQUENCE_PATTERN = re.compile(r"\x1b\[[0-9;]*m")
_MIN_SHRINK_COLUMNS = 40
"""On a narrower screen nothing is shortened: there would be nothing left to read."""

UNBOUNDED_COLUMNS = 100_000
"""The width of a line that nothing limits."""

_MIN_COLUMN_WIDTH = 12
"""The least width to which a column shrinks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Two streams and what they can do. `columns` is None if lines may have any length."""

    out: TextIO
    err: TextIO
    columns: int | None = None
    has_colour: bool = False
    has_error_colour: bool = False
    is_quiet: bool = False

    def print(self, text: str = "") -> None:
        """Write a line of data to stdout."""
        self.out.write(redact(text) + "\n")

    def print_secret(self, text: str) -> None:
        """Print a text that the user has just asked for and cannot get again: a new token."""
        self.out.write(text + "\n")

    def info(self, text: str) -> None:
        """Write a remark to stderr; `--quiet` leaves it out."""
        if not self.is_quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """Write a message to stderr, also with `--quiet`."""
        self.out.flush()  # on one screen, a remark about the data comes after the data
        self.err.write(redact(text) + "\n")

    def wrap(self, text: str, indent: str) -> list[str]:
        """Return the text in indented lines that fit the screen; in one line without a screen."""
        if self.columns is None:
            return [indent + text]
        return [indent + line for line in wrap(text, self.columns - len(indent))]

    def fits(self, lines: Sequence[str]) -> bool:
        return self.columns is None or max(map(display_width, lines), default=0) <= self.columns

    def style(self, text: str, *styles: str) -> str:
        return _apply_styles(text, styles) if self.has_colour else text

    def style_error(self, text: str, *styles: str) -> str:
        return _apply_styles(text, styles) if self.has_error_colour else text

    def format_table(self, rows: Sequence[Sequence[str]], *, indent: str = "", shrink: Sequence[int] = ()) -> list[str]:
        """Return the lines of a table. `shrink` are the columns to shorten on a narrow screen, in this order."""
        widths = [max(map(display_width, column), default=0) for column in zip(*rows, strict=True)]
        for column in shrink if self.columns is not None and self.columns >= _MIN_SHRINK_COLUMNS else ():
            excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - (self.columns or 0)
            if column < len(widths) and excess > 0:
                widths[column] = min(widths[column], max(_MIN_COLUMN_WIDTH, widths[column] - excess))
        return [_format_row(row, widths, indent) for row in rows]


def open_terminal(environ: Mapping[str, str], out: TextIO, err: TextIO, options: Sequence[str] = ()) -> Terminal:
    """Return the terminal of a command. `options` are its switches: no-color, wide and quiet count."""
    wants_no_colour = "no-color" in options
    return Terminal(
        out=out,
        err=err,
        columns=None if "wide" in options else _detect_columns(environ, out),
        has_colour=not wants_no_colour and _has_colour(environ, out),
        has_error_colour=not wants_no_colour and _has_colour(environ, err),
        is_quiet="quiet" in options,
    )


def redirect_to_devnull(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, because the interpreter flushes it at exit and would report the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return


def standard_streams() -> tuple[TextIO, TextIO]:
    """Return stdout and stderr, set to write a question mark for what their encoding does not have.

    A ✓ in a Latin-1 locale, or a file name that is not UTF-8, once ended in a traceback.
    """
    return _replace_unencodable(sys.stdout), _replace_unencodable(sys.stderr)


def _replace_unencodable(stream: TextIO | None) -> TextIO:
    """Return the stream; one that discards its text if the shell closed it (`>&-`) and Python has none."""
    if stream is None:
        return StringIO()
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def printable(text: str) -> str:
    """Return text from files and arguments without the characters that control a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_output_line(text: str) -> str:
    """Return a line that a run printed, with blanks for tabs and without a carriage return at its end."""
    return printable(text.rstrip("\r").expandtabs(4))


def display_width(text: str) -> int:
    """Return how many columns a text takes: colours and combining accents none, East Asian wide letters two."""
    bare = _ANSI_SEQUENCE_PATTERN.sub("", text)
    if bare.isascii():
        return len(bare)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in bare)


def shorten(text: str, available_width: int) -> str:
    """Cut out the middle of a name, because names differ at their ends; a sentence loses its end."""
    if display_width(text) <= available_width or available_width < 5:
        return text
    head = available_width - 1 if " " in text else available_width // 2
    tail = available_width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def wrap(text: str, available_width: int) -> list[str]:
    """Return the text in lines of at most so many columns. Importing textwrap would be the slowest part of the help."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > max(available_width, 24):
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _format_row(row: Sequence[str], widths: Sequence[int], indent: str) -> str:
    return (indent + "  ".join(_fit_cell(cell, widths[index]) for index, cell in enumerate(row))).rstrip()


def _fit_cell(cell: str, available_width: int) -> str:
    if display_width(cell) > available_width:
        styles = _ANSI_SEQUENCE_PATTERN.findall(cell)
        bare = shorten(_ANSI_SEQUENCE_PATTERN.sub("", cell), available_width)
        cell = f"{styles[0]}{bare}{styles[-1]}" if styles else bare
    return cell + " " * (available_width - display_width(cell))


def _apply_styles(text: str, styles: Sequence[str]) -> str:
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m" if text else text


def _has_colour(environ: Mapping[str, str], stream: TextIO) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return environ.get("TERM") != "dumb" and stream.isatty()


def _detect_columns(environ: Mapping[str, str], stream: TextIO) -> int | None:
    """Return the width of the screen; None for a pipe or a file."""
    if environ.get("COLUMNS", "").isdecimal():
        return int(environ["COLUMNS"][:6]) or None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
