"""Errors as the terminal shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.cli.output.errors import code_frame
from herdbeat.errors import SourceLocation


def place(line: int, column: int, width: int = 1) -> SourceLocation:
    return SourceLocation(file="a.yaml", line=line, column=column, width=width)


@pytest.mark.parametrize(
    ("where", "frame"),
    [
        (place(1, 1, 3), ["  1 | a: 1", "    | ^^^"]),
        (place(2, 4, 99), ["  1 | a: 1", "  2 | b: two", "    |    ^^^"]),
        (place(4, 1), ["  4 | c: 3", "    | ^"]),
        (place(5, 2), ["  4 | c: 3", "  5 |  d: �x", "    |  ^"]),
        (place(9, 1), []),
    ],
)
def test_a_frame_shows_the_line_and_points_at_the_value(where: SourceLocation, frame: list[str]) -> None:
    source = "a: 1\nb: two\n\nc: 3\n\td: \x1bx\n"

    assert code_frame(where, source) == frame


@given(st.text(), st.integers(1, 50), st.integers(1, 300), st.integers(0, 300))
def test_a_frame_of_anything_is_short_and_harmless(source: str, line: int, column: int, width: int) -> None:
    frame = code_frame(place(line, column, width), source)

    assert len(frame) <= 3
    assert all(letter.isprintable() for text in frame for letter in text)


def test_a_long_line_shows_the_part_around_its_value() -> None:
    source = "prompt: " + "a" * 3_000 + " {{nope}} " + "b" * 3_000

    line, carets = code_frame(place(1, 3_010, 8), source, columns=80)

    assert len(line) <= 80
    assert line.endswith("…")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "{{nope}}"


def test_the_caret_is_aligned_below_wide_characters() -> None:
    _, carets = code_frame(place(1, 4, 2), "日本 語語")

    assert carets == "    | " + " " * 5 + "^^^^"
