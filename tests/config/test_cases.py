"""Golden files: each case is read, and what comes out must be what its text says.

A case is `<name>.yaml` with `<name>.txt` beside it, or a folder with `expected.txt` in it. After a
wanted change, write the texts anew and read the difference:

    HERDBEAT_WRITE_GOLDEN=1 .venv/bin/pytest tests/config/test_cases.py && git diff tests/config/cases
"""

import os
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.errors import Problem, Severity

CASES = Path(__file__).parent / "cases"
ENVIRON = {
    "API_TOKEN": "s3cret",
    "NAME": "from-variable",
    "PAGER_URL": "https://pager.example.com/s3cret",
    "PORT": "8080",
}
WRITES_GOLDENS = "HERDBEAT_WRITE_GOLDEN" in os.environ


def _cases() -> list[Path]:
    files = [path for path in CASES.iterdir() if path.is_dir() or path.suffix == ".yaml"]
    return sorted(files)


@pytest.mark.parametrize("case", _cases(), ids=lambda path: path.stem)
def test_a_case_loads_with_the_problems_its_text_states(case: Path) -> None:
    golden = case / "expected.txt" if case.is_dir() else case.with_suffix(".txt")

    text = rendered(read(case))

    if WRITES_GOLDENS:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", _cases(), ids=lambda path: path.stem)
def test_valid_cases_have_no_errors_and_invalid_ones_do(case: Path) -> None:
    result = read(case)

    assert bool(result.errors) == case.stem.startswith("bad_")
    assert all(problem.where and problem.message for problem in result.problems)
    assert "s3cret" not in rendered(result)
    assert "s3cret" not in str([value.value for value in result.values])


def read(case: Path) -> LoadResult:
    return try_load_fleet(case, environ=ENVIRON, system_zone=ZoneInfo("Europe/Berlin"), base=CASES)


def rendered(result: LoadResult) -> str:
    """Problems as people read them, then what is left of the fleet."""
    lines = [line for problem in result.problems for line in _problem(problem)]
    return "\n".join([*lines, *_fleet(result)]) + "\n"


def _problem(problem: Problem) -> Iterator[str]:
    where = problem.where
    assert where is not None
    yield f"{where}-{where.width}  {where.path}".rstrip()
    mark = "" if problem.severity is Severity.ERROR else f"{problem.severity}: "
    yield f"  {mark}{problem.message}  [{problem.code}]"
    if problem.hint:
        yield f"  {problem.hint}"
    yield ""


def _fleet(result: LoadResult) -> Iterator[str]:
    if result.fleet is None:
        yield f"{result.kind}: no fleet"
        return
    yield f"{result.kind}: {result.fleet.name}"
    for target in result.fleet.targets:
        yield f"  {target.kind} {target.name}"
        for schedule in result.fleet.schedules:
            if schedule.target == target.name:
                policies = schedule.policies
                off = "" if schedule.enabled else ", disabled"
                zone = f"{policies.zone.key}, catchup {policies.catchup}, overlap {policies.overlap}"
                yield f"    {schedule.label}: {schedule.trigger.describe()} ({zone}{off})"
