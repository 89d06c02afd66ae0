"""Bodies as text and as JSON, for any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.runners.http.response import decode_text, extract_error_line, parse_json


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"caf\xc3\xa9", "text/plain", "café"),
        (b"caf\xe9", "text/plain; charset=ISO-8859-1", "café"),
        (b"caf\xe9", 'text/plain; charset="windows-1252"', "café"),
        (b"caf\xe9", "text/plain", "caf\ufffd"),
        (b"a\0b", "", "a\ufffdb"),
        (b"abc", "text/plain; charset=punycode", "abc"),
        (b"abc", "text/plain; charset=no-such-thing", "abc"),
    ],
)
def test_a_body_becomes_text(body: bytes, content_type: str, text: str) -> None:
    assert decode_text(body, content_type) == text


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        (b' {"queue_depth": 7}', "application/json", {"queue_depth": 7}),
        (b"[1]", "text/plain", [1]),
        (b"7", "application/json", 7),
        (b"7", "text/plain", None),
        (b"", "application/json", None),
        (b"{half", "application/json", None),
        (b'{"x": NaN}', "application/json", None),
        (b'{"x": 1e999}', "application/json", None),
        (b"[" * 100_000, "application/json", None),
        (b'{"x": "\xff"}', "application/json", None),
    ],
)
def test_json_is_recognized_by_its_header_or_its_first_character(body: bytes, content_type: str, data: object) -> None:
    assert parse_json(body, content_type) == data


@given(st.binary(max_size=200), st.text(max_size=40))
def test_no_body_and_no_header_raise(body: bytes, content_type: str) -> None:
    text = decode_text(body, content_type)

    assert "\0" not in text
    assert "\n" not in extract_error_line(parse_json(body, content_type), text)


@pytest.mark.parametrize(
    ("data", "text", "words"),
    [
        (None, "\n  the disk\tis full \nmore", "the disk is full"),
        (None, "<!DOCTYPE html><title>Oh</title>", ""),
        ({"title": "Full", "detail": "The disk is full."}, "{...", "The disk is full."),
        ({"error": {"code": 3}}, "{...", ""),
        ([1], "[1]", ""),
    ],
)
def test_a_failure_is_described_by_the_error_line_of_its_body(data: object, text: str, words: str) -> None:
    assert extract_error_line(data, text) == words
