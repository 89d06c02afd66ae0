"""The grammar of expressions: what parses, what it can read, and where a fault is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.errors import ExpressionError
from herdbeat.rules.expression import MAX_CHARS, find_other_type, parse_expression


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("response.queue_depth > 100", ("response.queue_depth",)),
        ("has(response.errors) && response.errors / response.total > 0.05", ("response.errors", "response.total")),
        ("response.a > previous.response.a * 1.5", ("response.a", "previous.response.a")),
        ('siblings["drain workers"].ok', ('siblings["drain workers"].ok',)),
        ("runs[0].ok", ("runs[0].ok",)),
        ('runs.all(r, r.skip_reason == "no_work")', ("runs",)),
        ("runs.exists(r, r.ok == run.ok)", ("runs", "run.ok")),
        ("1 + 2 == 3", ()),
    ],
)
def test_an_expression_says_what_it_can_read(text: str, paths: tuple[str, ...]) -> None:
    assert parse_expression(text).paths == paths


@pytest.mark.parametrize(
    ("text", "offset", "message", "hint"),
    [
        ("", 0, "The expression is empty.", "run.ok == false"),
        ("respose.a > 1", 0, 'There is no name "respose"; did you mean "response"?', "response"),
        ("response.a = 3", 11, '"=" is not expected here.', "Compare with ==."),
        ("run.ok and true", 7, '"and" is not an operator here.', "Write &&."),
        ("not run.ok", 0, '"not" is not an operator here.', "Write !."),
        ("run.ok == True", 10, '"True" is not an operator here.', "Write true."),
        ("run.ok & true", 7, '"&" is not expected here.', "Write && for and."),
        ("1 < 2 < 3", 6, "Comparisons cannot be chained.", "a < b && b < c"),
        ("response.a.foo()", 11, 'There is no method "foo".', "contains"),
        ("siz(response)", 0, 'There is no function "siz"; did you mean "size"?', "timestamp"),
        ('run.error == "abc', 13, "The text has no closing quote.", 'Add " at its end.'),
        (r'"\q"', 1, r'"\q" is not an escape.', "backslash"),
        ("response.", 9, "A name has to follow the dot.", "other spelling"),
        ("(1", 2, "The expression ends too early.", "Each ( needs its )."),
        ("1 ? 2", 5, "The expression ends too early.", "both branches"),
        ("@", 0, '"@" has no meaning here.', ""),
        ("has(3)", 0, "has() asks for a field of something.", "has(response.errors)"),
        ("has(run)", 0, "has() asks for a field of something.", "has(response.errors)"),
        ("size()", 0, "size() takes 1 argument, not 0.", ""),
        ("run.at.getHours(1, 2)", 7, "getHours() takes 0 to 1 arguments, not 2.", ""),
        ("runs.all(r)", 10, '")" is not expected here.', "runs.all(each, each.ok)"),
        ("runs.all(1, true)", 9, "all() needs a name for the element.", "runs.all(each, each.ok)"),
        ("99999999999999999999 > 1", 0, "The number is too large.", "1e30"),
        ("1 2", 2, '"2" is not expected here.', ""),
    ],
)
def test_a_fault_is_located_and_explained(text: str, offset: int, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)

    assert (caught.value.message, caught.value.offset) == (message, offset)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "bomb",
    [
        "!" * 900 + "true",
        "-" * 900 + "1",
        "(" * 400 + "1" + ")" * 400,
        "[" * 400 + "]" * 400,
        "1+" * 400 + "1",
        "true ? " * 100 + "1",
        "[" + "1," * 400 + "1]",
        "response" + ".a" * 300,
        "1" * (MAX_CHARS + 1),
    ],
)
def test_an_expression_that_is_too_complex_is_refused(bomb: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(bomb)


ALPHABET = st.sampled_from([*"()[].,?:!<>=&|+-*/% \"'\\01aé", "runs", "response", "has", "&&", "==", "all", "size"])


@given(st.lists(ALPHABET, max_size=60))
def test_any_text_parses_or_is_refused_at_a_place_inside_it(parts: list[str]) -> None:
    text = "".join(parts)

    error = _parse_error(text)

    assert error is None or (0 <= error.offset <= len(text) and error.message)


def _parse_error(text: str) -> ExpressionError | None:
    try:
        parse_expression(text)
    except ExpressionError as error:
        return error
    return None


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["1"] * 20_000),
        "(" * 20_000 + "1" + ")" * 20_000,
        "!" * 20_000 + "true",
        "response" + ".a" * 20_000,
        "[" * 20_000,
        " && ".join(["(1 == 1)"] * 90),
    ],
    ids=["terms", "brackets", "negations", "path", "open", "nodes"],
)
def test_a_hostile_text_is_refused_before_it_costs_anything(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("5", "a number"),
        ("'x'", "a text"),
        ("null", "null"),
        ("[response.a]", "a list"),
        ("2026-01-01", "the result of a calculation"),
        ("size(response.a)", "the result of size()"),
        ("response.a.size()", "the result of size()"),
        ("run.ok ? 1 : 2", "a number"),
        ("runs.map(x, x.ok)", "a list"),
        ("run.ok ? 1 : response.a", ""),
        ("response.a", ""),
        ("has(response.a)", ""),
        ("true", ""),
    ],
)
def test_an_expression_that_is_never_true_or_false_is_known(text: str, what: str) -> None:
    assert find_other_type(parse_expression(text).root) == what
