"""Letters that no ledger can hold: taken out, and nothing else is touched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.store.sanitize import decode_lossy, dump_sanitized, has_suspect_escapes, sanitize

letters = st.text(st.characters(exclude_categories=()))  # surrogates and NUL too
values = st.recursive(
    letters | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(letters, inner),
    max_leaves=8,
)


@given(values)
def test_what_is_dumped_can_be_encoded_and_has_no_nul(value: object) -> None:
    written = json.loads(dump_sanitized(value))

    text = json.dumps(written, ensure_ascii=False)
    text.encode("utf-8")
    assert "\\u0000" not in json.dumps(written).replace("\\\\", "")


@given(st.text())
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text.replace("\0", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("a\0b", "a\ufffdb"), ("\ud83d", "\ufffd"), ("🐄 moo", "🐄 moo"), ("\\u0000", "\\u0000"), ("", "")],
)
def test_only_the_bad_letter_is_replaced(text: str, cleaned: str) -> None:
    assert json.loads(dump_sanitized([text])) == [cleaned]


def test_plain_json_has_no_suspect_escapes() -> None:
    assert not has_suspect_escapes(json.dumps(["nothing odd", 1, None]))


def test_a_bad_byte_in_the_file_does_not_hide_the_rest() -> None:
    assert decode_lossy(b"good \xff good") == "good \N{REPLACEMENT CHARACTER} good"
