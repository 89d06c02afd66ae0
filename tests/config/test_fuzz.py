"""Whatever the bytes: a Reading with problems that have a place, never an exception of another kind."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.config.yaml import parse_yaml
from herdbeat.error_codes import Code

CASES = Path(__file__).parent / "cases"
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    float("nan"),
    "",
    "  ",
    "{{",
    "${NO}",
    [],
    [[1]],
    {},
    {"a": {"b": 1}},
    "a\0b",
)
GOOD_FILES = sorted(path for path in CASES.rglob("*.y*ml") if path.relative_to(CASES).parts[0].startswith("good_"))
SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

WORDS = (
    "agents",
    "name",
    "schedules",
    "every",
    "5m",
    "cron",
    "&a",
    "*a",
    "<<",
    "-",
    ":",
    "?",
    "|",
    ">",
    "'",
    '"',
    "[",
    "]",
)
GLUE = (
    "\n",
    "\n  ",
    "\n    ",
    ": ",
    " ",
    ", ",
    "{",
    "}",
    "#",
    "\t",
    "---\n",
    "%",
    "!",
    "@",
    "`",
    "\x00",
    "\ufeff",
    "\x85",
    "é",
)


def read(path: Path) -> LoadResult:
    return try_load_fleet(path, environ={}, system_zone=ZoneInfo("UTC"), base=path.parent)


def assert_is_told(result: LoadResult) -> None:
    assert result.fleet is not None or result.errors
    for problem in result.problems:
        assert problem.message
        assert problem.where is not None
        assert problem.where.line >= 1
        assert problem.where.column >= 1
        assert problem.where.width >= 1


@SHARED
@given(data=st.binary(max_size=300))
def test_random_bytes_are_reported_not_raised(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    file.write_bytes(data)

    result = read(file)

    assert_is_told(result)


@SHARED
@given(pieces=st.lists(st.sampled_from(WORDS + GLUE), max_size=40), name=st.sampled_from(("herdbeat.yaml", "x.yaml")))
def test_random_yaml_is_reported_not_raised(pieces: list[str], name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("".join(pieces), encoding="utf-8")

    result = read(file)

    assert_is_told(result)


@pytest.mark.parametrize("file", GOOD_FILES, ids=lambda path: path.relative_to(CASES).as_posix())
def test_a_wrong_value_at_any_key_is_reported_not_raised(file: Path, tmp_path: Path) -> None:
    check_mutations(file, tmp_path, stride=7)


def check_mutations(file: Path, tmp_path: Path, stride: int) -> None:
    """Read the file with every mutation of it: a problem has a place, and nothing is raised."""
    root, copy = _copied(file, tmp_path)
    document = plain(file)

    for changed in _mutations(document, stride):
        copy.write_text(dump(changed), encoding="utf-8")
        result = read(root)

        assert_is_told(result)


@pytest.mark.parametrize("name", ["good_short_forms", "good_every_policy", "good_null_undoes_defaults"])
def test_no_target_is_left_out_without_a_problem(name: str, tmp_path: Path) -> None:
    document = plain(CASES / f"{name}.yaml")

    for changed in _mutations(document, stride=4):
        (tmp_path / "herdbeat.yaml").write_text(dump(changed), encoding="utf-8")
        result = read(tmp_path)

        if not result.errors:
            assert result.fleet is not None
            assert len(result.fleet.targets) == len(result.fleet.schedules) == _count_targets(changed)


def test_ten_megabytes_are_rejected_without_parsing(tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    file.write_bytes(b"- [" * 3_500_000)

    result = read(file)

    assert [problem.code for problem in result.problems] == [Code.YAML_LIMIT]


@pytest.mark.parametrize(
    "text", ["[" * 500_000, "{a: " * 200_000, "- " * 500_000, "? " * 300_000, "a: [" + "1, " * 300_000]
)
def test_a_megabyte_of_nesting_or_items_is_rejected(text: str, tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    file.write_text(text)

    result = read(file)

    assert result.fleet is None
    assert result.errors


def test_an_alias_bomb_is_rejected_before_a_copy_is_made(tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    file.write_text("\n".join(lines))

    result = read(file)

    assert [problem.code for problem in result.problems] == [Code.YAML_LIMIT]


def test_a_bomb_of_merge_keys_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "herdbeat.yaml"
    lines = ["x-0: &a0 {k: v}"]
    lines += [f"x-{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: v}}" for n in range(1, 40)]
    file.write_text("\n".join(lines))

    result = read(file)

    assert [problem.code for problem in result.problems] == [Code.YAML_LIMIT]


def test_a_folder_or_a_missing_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").mkdir()

    for path in (tmp_path, tmp_path / "herdbeat.yaml", tmp_path / "nowhere.yaml", tmp_path / "a\0b"):
        result = read(path)

        assert result.fleet is None
        assert_is_told(result)


def dump(document: Any) -> str:
    """Return the document as YAML, by the C library: a third of the time went into writing what is read once."""
    return str(yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True))


def plain(file: Path) -> Any:
    tree = parse_yaml(file.read_text(encoding="utf-8"), file.name, Diagnostics())
    assert tree is not None
    return tree.to_data()


def _copied(file: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The case in a folder of its own: what to read, and the one file to change."""
    first = file.relative_to(CASES).parts[0]
    if (CASES / first).is_dir():
        shutil.copytree(CASES / first, tmp_path / first)
        return tmp_path / first, tmp_path / file.relative_to(CASES)
    return tmp_path / first, tmp_path / first


def _count_targets(document: Any) -> int:
    return sum(len(document.get(section) or ()) for section in ("agents", "endpoints", "commands", "callables"))


def _mutations(document: Any, stride: int) -> Iterator[Any]:
    """The document with one value replaced, one key renamed or one key left out, for every place in it.

    Each place gets every `stride`-th wrong value, beginning with the next one. All of them everywhere take minutes:
    `make soak` does that.
    """
    turn = itertools.count()
    yield from _changed(document, turn, stride)


def _changed(document: Any, turn: Iterator[int], stride: int) -> Iterator[Any]:
    yield from WRONG[next(turn) % stride :: stride]
    if isinstance(document, dict):
        for key in document:
            yield {name: value for name, value in document.items() if name != key}
            yield {(f"{name}x" if name == key else name): value for name, value in document.items()}
            for changed in _changed(document[key], turn, stride):
                yield document | {key: changed}
    if isinstance(document, list):
        for index, item in enumerate(document):
            for changed in _changed(item, turn, stride):
                yield [*document[:index], changed, *document[index + 1 :]]
