"""What we write on: data to stdout, remarks to stderr, colour only where somebody sees it."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from typing import TextIO
from unicodedata import combining, east_asian_width

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_ANSI_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
_MIN_SHRINK_COLUMNS = 40
"""Below this many columns nothing is shortened any more: there would be nothing left to read."""

UNBOUNDED_COLUMNS = 100_000
"""The room of a line where nothing limits it."""

_MIN_COLUMN_WIDTH = 12
"""No column is made narrower than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Two streams and what they can do. `columns` is None where lines may be as long as they like."""

    out: TextIO
    err: TextIO
    columns: int | None = None
    has_colour: bool = False
    has_error_colour: bool = False
    is_quiet: bool = False

    def print(self, text: str = "") -> None:
        """Data."""
        self.out.write(text + "\n")

    def info(self, text: str) -> None:
        """A message beside the data; `--quiet` leaves it out."""
        if not self.is_quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """A message that must not be lost."""
        self.err.write(text + "\n")

    def wrap(self, text: str, indent: str) -> list[str]:
        """A text in indented lines that fit the screen; one line where there is no screen."""
        if self.columns is None:
            return [indent + text]
        return [indent + line for line in wrap(text, self.columns - len(indent))]

    def style(self, text: str, *styles: str) -> str:
        return _apply_styles(text, styles) if self.has_colour else text

    def style_error(self, text: str, *styles: str) -> str:
        return _apply_styles(text, styles) if self.has_error_colour else text

    def format_table(self, rows: Sequence[Sequence[str]], *, indent: str = "", shrink: Sequence[int] = ()) -> list[str]:
        """A table: columns side by side, no borders. `shrink` are those that give way on a narrow screen, in turn."""
        widths = [max(map(display_width, column), default=0) for column in zip(*rows, strict=True)]
        for column in shrink if self.columns is not None and self.columns >= _MIN_SHRINK_COLUMNS else ():
            excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - (self.columns or 0)
            if column < len(widths) and excess > 0:
                widths[column] = min(widths[column], max(_MIN_COLUMN_WIDTH, widths[column] - excess))
        return [_format_row(row, widths, indent) for row in rows]


def open_terminal(environ: Mapping[str, str], out: TextIO, err: TextIO, options: Sequence[str] = ()) -> Terminal:
    """The terminal of a call. `options` are the switches that were given: no-color, wide, quiet."""
    wants_no_colour = "no-color" in options
    return Terminal(
        out=out,
        err=err,
        columns=None if "wide" in options else _detect_columns(environ, out),
        has_colour=not wants_no_colour and _has_colour(environ, out),
        has_error_colour=not wants_no_colour and _has_colour(environ, err),
        is_quiet="quiet" in options,
    )


def standard_streams() -> tuple[TextIO, TextIO]:
    """stdout and stderr, told to write a question mark for what their encoding does not have.

    Without it, a ✓ in a Latin-1 locale, or a file name that is no UTF-8, ended in a traceback.
    """
    return _replace_unencodable(sys.stdout), _replace_unencodable(sys.stderr)


def _replace_unencodable(stream: TextIO | None) -> TextIO:
    """Python has no stream at all where the shell closed it (`>&-`): then we write into nothing."""
    if stream is None:
        return StringIO()
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def printable(text: str) -> str:
    """Text from files and arguments, without the characters that would steer a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def format_output_line(text: str) -> str:
    """A line that a run has printed: tabs are blanks, and the end of a line from elsewhere is gone."""
    return printable(text.rstrip("\r").expandtabs(4))


def display_width(text: str) -> int:
    """How many columns a text takes: colours none, East Asian wide letters two, accents of their own none."""
    bare = _ANSI_SEQUENCE.sub("", text)
    if bare.isascii():
        return len(bare)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in bare)


def shorten(text: str, available_width: int) -> str:
    """Take out the middle of a name, for names differ at their ends; a sentence loses its end."""
    if display_width(text) <= available_width or available_width < 5:
        return text
    head = available_width - 1 if " " in text else available_width // 2
    tail = available_width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def wrap(text: str, available_width: int) -> list[str]:
    """A text in lines of at most so many columns. By hand: textwrap would be the slowest import of the help."""
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
        styles = _ANSI_SEQUENCE.findall(cell)
        bare = shorten(_ANSI_SEQUENCE.sub("", cell), available_width)
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
    """The width of the screen; a pipe or a file has none."""
    if environ.get("COLUMNS", "").isdecimal():
        return int(environ["COLUMNS"][:6]) or None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
