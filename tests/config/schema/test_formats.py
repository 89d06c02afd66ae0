from collections.abc import Callable
from contextlib import suppress
from datetime import time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.schema import formats as forms
from herdbeat.domain.policies import Jitter
from herdbeat.errors import HerdbeatError

RIGHT: list[tuple[Callable[[str], object], str, object]] = [
    (forms.parse_name, "a", "a"),
    (forms.parse_name, "0-A_b", "0-A_b"),
    (forms.parse_hours, "07:00-22:00", forms.HoursWindow(time(7), time(22))),
    (forms.parse_hours, " 22:30 – 6:05 ", forms.HoursWindow(time(22, 30), time(6, 5))),
    (forms.parse_hours, "18:00-24:00", forms.HoursWindow(time(18), time(0))),
    (forms.parse_jitter, "0", Jitter()),
    (forms.parse_jitter, " auto ", Jitter(share=0.01, span=timedelta(seconds=10))),
    (forms.parse_jitter, "12.5 %", Jitter(share=0.125)),
    (forms.parse_jitter, "100%", Jitter(share=1.0)),
    (forms.parse_jitter, "30s", Jitter(span=timedelta(seconds=30))),
    (forms.parse_long_duration, "1w", timedelta(days=7)),
    (forms.parse_long_duration, "1.5H", timedelta(minutes=90)),
    (forms.parse_long_duration, "24h", timedelta(days=1)),
    (forms.parse_url, "http://[::1]:80/x?y", "http://[::1]:80/x?y"),
    (forms.parse_store, "sqlite:x.db", "sqlite:x.db"),
    (forms.parse_call, "a.b:c.d", "a.b:c.d"),
    (forms.parse_network, "10.1.2.3/8", "10.0.0.0/8"),
    (forms.parse_network, "::1", "::1/128"),
    (forms.parse_network, "*.internal", "*.internal"),
    (forms.parse_repo, "acme/app.js", "acme/app.js"),
    (forms.parse_variable, "_A1", "_A1"),
]
WRONG: list[tuple[Callable[[str], object], str]] = [
    (forms.parse_name, ""),
    (forms.parse_name, "-a"),
    (forms.parse_name, "a.b"),
    (forms.parse_name, "a\n"),
    (forms.parse_name, "é"),
    (forms.parse_name, "a" * 101),
    (forms.parse_hours, "7-22"),
    (forms.parse_hours, "25:00-26:00"),
    (forms.parse_hours, "07:60-08:00"),
    (forms.parse_hours, "07:00-07:00"),
    (forms.parse_jitter, "101%"),
    (forms.parse_jitter, "-5%"),
    (forms.parse_jitter, "some"),
    (forms.parse_long_duration, "0.0w"),
    (forms.parse_long_duration, "999999999w"),
    (forms.parse_url, "ftp://example.com"),
    (forms.parse_url, "https://"),
    (forms.parse_url, "https://a b"),
    (forms.parse_url, "https://[::1"),
    (forms.parse_url, "https://x:99999"),
    (forms.parse_store, "sqlite:"),
    (forms.parse_store, "redis://x"),
    (forms.parse_call, "a.b.c"),
    (forms.parse_call, "os:system('ls')"),
    (forms.parse_network, "10.0.0.0/99"),
    (forms.parse_network, "300.1.1.1"),
    (forms.parse_repo, "app"),
    (forms.parse_variable, "A-B"),
]
PARSERS = sorted({parse for parse, *_ in RIGHT}, key=lambda parse: parse.__name__)


@pytest.mark.parametrize(("parse", "text", "value"), RIGHT)
def test_valid_text_is_parsed(parse: Callable[[str], object], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(("parse", "text"), WRONG)
def test_invalid_text_is_rejected_with_a_hint(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(HerdbeatError) as caught:
        parse(text)

    assert caught.value.hint


@given(st.sampled_from(PARSERS), st.text(max_size=20))
def test_any_text_is_parsed_or_rejected_with_a_herdbeat_error(parse: Callable[[str], object], text: str) -> None:
    with suppress(HerdbeatError):
        assert parse(text) is not None


def test_an_unknown_store_with_a_password_is_not_repeated_in_the_message() -> None:
    with pytest.raises(HerdbeatError) as refused:
        forms.parse_store("mysql://user:secret@host/x")

    assert "is not a store" in str(refused.value)
    assert "secret" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(("name", "suggested"), [("ärger und mühe", '"arger-und-muhe"'), ("a" * 101, f'"{"a" * 100}"')])
def test_a_name_with_other_letters_or_too_many_is_refused_with_the_limit_and_a_name_that_works(
    name: str, suggested: str
) -> None:
    with pytest.raises(HerdbeatError) as refused:
        forms.parse_name(name)

    assert "at most 100 ASCII letters" in refused.value.hint
    assert refused.value.hint.endswith(f"For example {suggested}.")
