from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdbeat.store.postgres.statements import encode_array


def test_a_missing_value_is_null_and_not_a_word() -> None:
    assert encode_array([1, None, -3], "bigint") == "{1,NULL,-3}"
    assert encode_array(["NULL", None, ""], "text") == '{"NULL",NULL,""}'


def test_characters_that_no_ledger_can_hold_are_replaced() -> None:
    assert (
        encode_array(["a\x00b", "c\ud800d"], "text") == '{"a\N{REPLACEMENT CHARACTER}b","c\N{REPLACEMENT CHARACTER}d"}'
    )


@pytest.fixture(scope="module")
def connection(postgres: Any) -> Any:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        yield connection


LETTERS = st.characters(codec="utf-8", exclude_characters="\x00")


@given(texts=st.lists(st.none() | st.text(LETTERS), min_size=1))
@settings(max_examples=60, deadline=None)
def test_every_text_comes_back_as_it_was(connection: psycopg.Connection[Any], texts: list[str | None]) -> None:
    found = connection.execute("SELECT * FROM unnest(%s::text[])", [encode_array(texts, "text")]).fetchall()

    assert [text for (text,) in found] == texts
