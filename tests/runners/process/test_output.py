"""The end of a stream, in whatever chunks it arrives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.runners.process.output import TailBuffer


@given(st.lists(st.text(alphabet="abc\n", max_size=30).map(str.encode)), st.integers(1, 40))
def test_the_tail_is_the_end_of_the_stream(chunks: list[bytes], cap: int) -> None:
    tail = TailBuffer(cap)

    for chunk in chunks:
        tail.append(chunk)

    assert tail.text() == b"".join(chunks)[-cap:].decode()
    assert tail.total == sum(map(len, chunks))


@given(st.lists(st.text(alphabet="aä€😀")), st.integers(4, 40))
def test_the_tail_never_begins_inside_a_character(words: list[str], cap: int) -> None:
    tail = TailBuffer(cap)

    for word in words:
        tail.append(word.encode())

    assert "".join(words).endswith(tail.text())


@pytest.mark.parametrize(
    ("printed", "line"), [(b"", ""), (b"\n \n", ""), (b"one\ntwo\n\n", "two"), (b"one", "one"), (b"a\r\nb \r\n", "b")]
)
def test_the_last_line_is_the_last_one_that_is_not_blank(printed: bytes, line: str) -> None:
    tail = TailBuffer(100)

    tail.append(printed)

    assert tail.last_line() == line
