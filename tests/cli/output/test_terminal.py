"""The terminal: colours, tables, truncation."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.cli.output.terminal import Terminal, display_width, open_terminal, printable, shorten


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "options", "is_screen", "coloured"),
    [
        ({}, (), True, True),
        ({}, (), False, False),
        ({"NO_COLOR": "1"}, (), True, False),
        ({"NO_COLOR": ""}, (), True, True),
        ({"TERM": "dumb"}, (), True, False),
        ({"FORCE_COLOR": "1"}, (), False, True),
        ({"FORCE_COLOR": "0"}, (), False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False, False),
        ({"FORCE_COLOR": "1"}, ("no-color",), True, False),
    ],
)
def test_colour_is_used_only_on_terminals_that_want_it(
    environ: dict[str, str], options: tuple[str, ...], is_screen: bool, coloured: bool
) -> None:
    stream = Screen() if is_screen else StringIO()

    terminal = open_terminal(environ, stream, stream, options)

    assert (terminal.style("x", "red") != "x") is coloured
    assert (terminal.style_error("x", "red") != "x") is coloured


def test_a_pipe_has_no_width_and_a_wide_table_none_either() -> None:
    assert open_terminal({}, StringIO(), StringIO()).columns is None
    assert open_terminal({"COLUMNS": "80"}, StringIO(), StringIO()).columns == 80
    assert open_terminal({"COLUMNS": "80"}, StringIO(), StringIO(), ("wide",)).columns is None


def test_a_table_is_aligned_and_shrinks_its_flexible_column() -> None:
    terminal = Terminal(out=StringIO(), err=StringIO(), columns=44)

    lines = terminal.format_table([["NAME", "NOTE"], ["a" * 20, "b" * 40], ["\x1b[1mc\x1b[0m", "d"]], shrink=(1,))

    assert [display_width(line) for line in lines] == [26, 44, 23]
    assert lines[1] == "a" * 20 + "  " + "b" * 11 + "…" + "b" * 10


def test_a_coloured_cell_keeps_its_colour_when_truncated() -> None:
    terminal = Terminal(out=StringIO(), err=StringIO(), columns=40, has_colour=True)

    [line] = terminal.format_table([["x" * 20, terminal.style("y" * 40, "red")]], shrink=(1,))

    assert line.endswith("\x1b[31m" + "y" * 9 + "…" + "y" * 8 + "\x1b[0m")


def test_quiet_omits_notices_and_keeps_errors() -> None:
    err = StringIO()
    terminal = Terminal(out=StringIO(), err=err, is_quiet=True)

    terminal.info("by the way")
    terminal.error("broken")

    assert err.getvalue() == "broken\n"


def test_terminal_control_characters_are_removed() -> None:
    assert printable("a\x1b[2Jb\x00\n✓ é") == "a�[2Jb�\n✓ é"


@given(st.text(alphabet="aé漢\u0301", max_size=30), st.integers(5, 20))
def test_a_truncated_text_hardly_exceeds_its_width(text: str, room: int) -> None:
    short = shorten(text, room)

    assert short == text or len(short) <= room
