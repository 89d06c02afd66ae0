"""Problems as people see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import Place
from herdbeat.faces.cli.problems import code_frame, pointer


def place(line: int, column: int, width: int = 1) -> Place:
    return Place(file="a.yaml", line=line, column=column, width=width)


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
def test_a_frame_shows_the_line_and_points_at_the_value(where: Place, frame: list[str]) -> None:
    source = "a: 1\nb: two\n\nc: 3\n\td: \x1bx\n"

    assert code_frame(where, source) == frame


@given(st.text(), st.integers(1, 50), st.integers(1, 300), st.integers(0, 300))
def test_a_frame_of_anything_is_short_and_harmless(source: str, line: int, column: int, width: int) -> None:
    frame = code_frame(place(line, column, width), source)

    assert len(frame) <= 3
    assert all(letter.isprintable() for text in frame for letter in text)


@pytest.mark.parametrize(
    ("path", "written"),
    [("", ""), ("agents.scout.name", "/agents/scout/name"), ("agents[0].x~y/z", "/agents/0/x~0y~1z")],
)
def test_a_path_becomes_a_json_pointer(path: str, written: str) -> None:
    assert pointer(path) == written
