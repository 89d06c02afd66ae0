"""The errors of an invalid `module:function`."""

from pathlib import Path

import pytest
from tests.support import sample_functions as sample

from herdbeat.errors import RunnerError
from herdbeat.runners.functions import NotRegistered, import_function

HERE = "tests.support.sample_functions"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tidy", '"tidy" is not a function path.'),
        ("myapp:", '"myapp:" is not a function path.'),
        ("no_such_module:tidy", 'There is no module "no_such_module".'),
        (f"{HERE}.deeper:tidy", f'There is no module "{HERE}.deeper".'),
        (f"{HERE}:tidy", f'The module "{HERE}" has no "tidy".'),
        (f"{HERE}:GREETER.tidy", f'The module "{HERE}" has no "GREETER.tidy".'),
        (f"{HERE}:NUMBER", f'"{HERE}:NUMBER" is a int, not a function.'),
        (f"{HERE}:with_two", f'"{HERE}:with_two" requires 2 arguments; only one can be passed: the run.'),
        (
            f"{HERE}:with_keyword",
            f'"{HERE}:with_keyword" has required keyword-only parameters; the run is passed by position.',
        ),
        (f"{HERE}:yielding", f'"{HERE}:yielding" is a generator function, which cannot be run.'),
        (f"{HERE}:yielding_async", f'"{HERE}:yielding_async" is a generator function, which cannot be run.'),
    ],
)
def test_an_import_error_names_the_missing_part(name: str, message: str) -> None:
    with pytest.raises(RunnerError) as raised:
        import_function(name)

    assert raised.value.message == message
    assert raised.value.permanent
    assert raised.value.hint.startswith(("Correct call", "Define it", "Use return"))


def test_a_module_with_a_missing_import_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacks_something.py").write_text("import no_such_library\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        import_function("lacks_something:tidy")


def test_the_signature_decides_how_a_function_is_called() -> None:
    plain, asynchronous = import_function(f"{HERE}:nothing"), import_function(f"{HERE}:about_async")

    assert (plain.call, plain.is_async, plain.takes_run) == (sample.nothing, False, False)
    assert (asynchronous.call, asynchronous.is_async, asynchronous.takes_run) == (sample.about_async, True, True)


def test_a_function_written_in_c_is_called_without_arguments() -> None:
    assert not import_function("time:monotonic").takes_run


@pytest.mark.parametrize("name", [f"{HERE}:<lambda>", f"{HERE}:outer.<locals>.inner", f"{HERE}:close<shop>"])
def test_a_lambda_or_a_local_function_cannot_be_imported(name: str) -> None:
    with pytest.raises(NotRegistered, match="has not registered it") as raised:
        import_function(name)

    assert raised.value.hint.startswith("Start the program that schedules it")
