import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.ids import format_short_id, parse_short_id


@given(st.integers(0, 2**62))
def test_a_short_id_parses_back_to_its_number(number: int) -> None:
    assert parse_short_id(format_short_id(number)) == number


@pytest.mark.parametrize(("number", "name"), [(0, "0000"), (1, "0001"), (32, "0010"), (1_048_576, "10000")])
def test_short_ids_are_padded_to_line_up(number: int, name: str) -> None:
    assert format_short_id(number) == name


@pytest.mark.parametrize("text", ["", "u", "7f3l", "triage/standup", "z" * 40])
def test_an_invalid_short_id_has_no_number(text: str) -> None:
    assert parse_short_id(text) is None


def test_a_short_id_may_be_written_in_capitals() -> None:
    assert parse_short_id("7F3K") == parse_short_id("7f3k")
