"""`Retry-After` is reported, within limits."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.runners.http.response import MAX_RETRY_AFTER, parse_retry_after

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("30", timedelta(seconds=30)),
        (" 0.2 ", timedelta(seconds=1)),
        ("1e9", MAX_RETRY_AFTER),
        ("9" * 400, None),
        ("inf", None),
        ("nan", None),
        ("-5", None),
        ("0", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Mon, 02 Mar 2026 12:05:00 GMT", timedelta(minutes=5)),
        ("Mon, 02 Mar 2026 11:05:00 GMT", None),
        ("Mon, 02 Mar 9026 12:05:00 GMT", MAX_RETRY_AFTER),
        ("Mon, 02 Mar 2026 12:05:00 -0000", None),
    ],
)
def test_a_retry_after_header_becomes_a_duration(text: str | None, wait: timedelta | None) -> None:
    assert parse_retry_after(text, NOON) == wait


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    wait = parse_retry_after(text, NOON)

    assert wait is None or timedelta(0) < wait <= MAX_RETRY_AFTER
