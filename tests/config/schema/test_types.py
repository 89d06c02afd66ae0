import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.schema.types import resolve_scalar

MEANINGS = [
    ("", None),
    ("~", None),
    ("null", None),
    ("true", True),
    ("False", False),
    ("0", 0),
    ("-12", -12),
    ("010", 10),
    ("0o17", 15),
    ("0xFF", 255),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    (".5", 0.5),
]
TEXTS = ["yes", "no", "on", "off", "12:30", "07:00-22:00", "1_000", "0b11", "2026-12-01", "nUll", "1.2.3", "9" * 5000]


@pytest.mark.parametrize(("text", "value"), MEANINGS)
def test_a_plain_scalar_means_what_yaml_1_2_says(text: str, value: object) -> None:
    assert resolve_scalar(text) == value
    assert type(resolve_scalar(text)) is type(value)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_what_yaml_1_1_would_misread_stays_text(text: str) -> None:
    assert resolve_scalar(text) == text


def test_infinity_and_nan_are_parsed_so_that_they_can_be_rejected() -> None:
    assert resolve_scalar("-.inf") == -math.inf
    assert math.isnan(float(str(resolve_scalar(".nan"))))


@given(st.text(max_size=30))
def test_any_text_resolves_to_a_scalar(text: str) -> None:
    value = resolve_scalar(text)

    assert value is None or isinstance(value, bool | int | float | str)
