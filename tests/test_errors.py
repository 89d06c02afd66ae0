import inspect

import pytest

from herdbeat import errors
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError, HerdbeatError, MissingExtra, Problem, SourceLocation

TREE = [
    error
    for name, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, HerdbeatError) and not name.startswith("_")  # shared bases are never raised
]


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_title_a_cause_and_a_fix(code: Code) -> None:
    info = code.info

    assert info.title
    assert not info.title.endswith(".")
    assert info.cause.endswith(".")
    assert info.fix.endswith(".")


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_the_error_tree_in_the_docstring_is_complete(error: type[HerdbeatError]) -> None:
    assert isinstance(error.code, Code)
    assert error.__name__ in str(errors.__doc__)


def test_an_error_keeps_message_place_and_hint() -> None:
    place = SourceLocation(file="herdbeat.yaml", line=14, column=17)

    error = HerdbeatError("it broke", where=place, hint="mend it")

    assert (str(error), str(error.where), error.hint) == ("it broke", "herdbeat.yaml:14:17", "mend it")


def test_a_config_error_carries_every_problem() -> None:
    problems = [Problem(code=Code.UNKNOWN_KEY, message=f"problem {number}") for number in range(3)]

    error = ConfigError(problems)

    assert str(error) == "problem 0 (and 2 more)"
    assert len(error.problems) == 3


def test_a_missing_extra_names_what_to_install() -> None:
    assert 'pipx install --force ".[postgres]"' in MissingExtra("PostgreSQL", "postgres").hint
