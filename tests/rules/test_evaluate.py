"""What expressions evaluate to: values, errors, what was read, and how much effort they may take."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from herdbeat.rules.evaluate import MAX_TEXT_CHARS, evaluate
from herdbeat.rules.expression import parse_expression

ENVIRONMENT: dict[str, Any] = {
    "response": {
        "queue_depth": 150,
        "errors": 3,
        "total": 50,
        "items": [1, 2, 3],
        "name": "checkout",
        "huge": 10**400,
        "none": None,
        "nested": {"a": [{"b": 1.0}]},
    },
    "run": {"ok": True, "status_code": 503, "started_at": datetime(2026, 11, 17, 3, 30, tzinfo=UTC)},
    "runs": [{"ok": True, "n": 1}, {"ok": False, "n": 2, "skip_reason": "no_work"}],
    "previous": {"response": {"queue_depth": 90}},
    "siblings": {"drain workers": {"ok": True}},
}


def value_of(text: str) -> Any:
    result = evaluate(parse_expression(text), ENVIRONMENT)
    return f"error: {result.error}" if result.error else result.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("response.queue_depth > 100", True),
        ("response.errors / response.total", 0.06),
        ("6 / 3", 2),
        ("5 / 2", 2.5),
        ("-5 % 3", -2),
        ("5 % -3", 2),
        ("1 == 1.0", True),
        ("1 == true", False),
        ('1 == "1"', False),
        ("null == response.none", True),
        ("[1, 2.0] == [1.0, 2]", True),
        ("response.nested == response.nested", True),
        ("2 in response.items", True),
        ('"errors" in response', True),
        ('"o" + "k" == "ok"', True),
        ("[1] + [2]", [1, 2]),
        ("run.ok ? 1 : response.missing", 1),
        ("runs[1].skip_reason", "no_work"),
        ('siblings["drain workers"].ok', True),
        ("runs.map(r, r.n * 2)", [2, 4]),
        ("runs.filter(r, r.ok).size()", 1),
        ("runs.exists(r, r.n == 2)", True),
        ("runs.all(r, r.n < 3)", True),
        ("[[1], [2, 3]].map(x, x.map(x, x + 1))", [[2], [3, 4]]),
        ("min(3, 1, 2) + max(response.items) + sum(response.items) + abs(-1)", 11),
        ("avg([1, 2])", 1.5),
        ('response.name.startsWith("check") && response.name.endsWith("out") && response.name.contains("ck")', True),
        ('size("é")', 1),
        ("run.started_at.getHours()", 3),
        ('run.started_at.getHours("Europe/Berlin")', 4),
        ("run.started_at.getMinutes()", 30),
        ("run.started_at.getDayOfWeek()", 2),
        ('timestamp("2026-11-17T03:00:00Z") < run.started_at', True),
        ('run.started_at - timestamp("2026-11-17T03:00:00Z") == duration("30m")', True),
        ('duration("1h30m") + duration("0.5s")', timedelta(hours=1, minutes=30, milliseconds=500)),
        ("1.0 / 0.0 > 1e308", True),
        ("response.huge > 1e308", True),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_an_expression_has_a_value(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("response.missing > 3", "response.missing is missing"),
        ("response.name.length > 3", "response.name.length is missing"),
        ("response.__class__ == 1", "response.__class__ is missing"),
        ("runs[7].ok", "runs[7].ok is missing"),
        ("runs.map(r, r.skip_reason)", "the field skip_reason is missing"),
        ("response.items[5 - 1]", "there is no element 4"),
        ('1 < "a"', "a number cannot be compared with a text"),
        ("!1", "! needs true or false, not a number"),
        ("1 && true", "&& needs true or false, not a number"),
        ("1 ? 2 : 3", "the condition before ? is a number, not true or false"),
        ("1 / 0", "a division by zero"),
        ("9223372036854775807 + 1", "the number is too large"),
        ("avg([])", "avg() of nothing"),
        ('1 in "a"', "in needs a list or a map, not a text"),
        ('duration("5x") > duration("1s")', '"5x" is not a duration'),
        ('timestamp("today") > run.started_at', '"today" is not a time'),
        ('run.started_at.getHours("Mars/Base")', 'there is no time zone "Mars/Base"'),
    ],
)
def test_what_has_no_value_says_why(text: str, error: str) -> None:
    assert value_of(text) == f"error: {error}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("response.missing > 3 || true", True),
        ("true || response.missing > 3", True),
        ("response.missing > 3 && false", False),
        ("runs.exists(r, r.skip_reason == 'no_work')", True),
        ("runs.all(r, r.skip_reason != 'no_work')", False),
        ("has(response.missing)", False),
        ("has(response.missing.deeper)", False),
        ("has(response.none)", True),
    ],
)
def test_an_operand_that_decides_makes_missing_data_irrelevant(text: str, value: bool) -> None:
    assert value_of(text) is value


@pytest.mark.parametrize("text", ["response.missing > 3 || false", "response.missing > 3 && true"])
def test_missing_data_is_neither_true_nor_false(text: str) -> None:
    result = evaluate(parse_expression(text), ENVIRONMENT)

    assert result.is_undecidable
    assert not result.is_true
    assert result.missing == ("response.missing",)


def test_the_numbers_that_were_read_are_reported() -> None:
    result = evaluate(parse_expression("response.queue_depth > previous.response.queue_depth * 1.5"), ENVIRONMENT)

    assert result.reads == {"response.queue_depth": 150, "previous.response.queue_depth": 90}


def test_long_texts_and_lists_are_reported_by_their_beginning_and_size() -> None:
    environment = {"response": {"text": "x" * 500, "items": [0] * 7, "map": {"a": 1}}}
    expression = parse_expression("size(response.text) + size(response.items) + size(response.map)")

    reads = evaluate(expression, environment).reads

    assert reads == {"response.text": "x" * 79 + "…", "response.items": "[7 elements]", "response.map": "{1 fields}"}


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "text",
    [
        "response.many.map(a, response.many.map(b, response.many.map(c, a + b + c)))",
        "response.many.exists(a, response.many.exists(b, response.many.exists(c, a + b + c < 0)))",
        "response.deep == response.deeper",
        "response.wide == response.wider",
        "response.long + response.long + response.long",
        "[response.long, response.long].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)",
    ],
)
def test_no_expression_can_hang_or_grow(text: str) -> None:
    environment = {
        "response": {
            "many": list(range(1_000)),
            "deep": _deep(20_000),
            "deeper": _deep(20_000),
            "wide": {str(number): number for number in range(200_000)},
            "wider": {str(number): number for number in range(200_000)},
            "long": "x" * (MAX_TEXT_CHARS // 2),
        }
    }

    result = evaluate(parse_expression(text), environment)

    assert result.error
