"""Python values judged as files are."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.inline import build_node, load_fleet_tree
from herdbeat.config.loader import LoadResult
from herdbeat.errors import Severity, SourceLocation, UsageError

PLACE = SourceLocation(file="jobs.py", line=7, column=1)


class Colour(StrEnum):
    RED = "red"


def read(tree: dict[str, Any], *, is_foreign: bool = False) -> LoadResult:
    return load_fleet_tree(build_node(tree, PLACE), zone=ZoneInfo("UTC"), home=Path("/"), is_foreign=is_foreign)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (timedelta(minutes=5), "5m"),
        (datetime(2026, 4, 1, 9, tzinfo=UTC), "2026-04-01T09:00:00Z"),
        (datetime(2026, 4, 1, 9), "2026-04-01T09:00:00"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (Path("a/b"), "a/b"),
        (Colour.RED, "red"),
        (("a", 1, None, True), ["a", 1, None, True]),
        ({"a": {"b": 2.5}}, {"a": {"b": 2.5}}),
    ],
)
def test_a_python_value_is_converted_as_a_file_would_have_it(value: object, written: object) -> None:
    assert build_node(value, PLACE).to_data() == written


def test_a_nested_value_is_located_by_its_path() -> None:
    node = build_node({"retry": {"waits": ["1s", "2s"]}}, PLACE).find(("retry", "waits", 1))

    assert (node.location.path, node.location.pointer) == ("retry.waits.1", "/retry/waits/1")
    assert (node.location.file, node.location.line) == ("jobs.py", 7)


def test_an_object_is_rejected_with_its_path() -> None:
    with pytest.raises(UsageError, match=r"tags\.0 is a set"):
        build_node({"tags": [{"a"}]}, PLACE)


def test_a_list_that_contains_itself_is_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(UsageError, match="nested deeper"):
        build_node({"tags": endless}, PLACE)


def test_a_fleet_is_loaded_and_every_problem_reported() -> None:
    schedules = {"good": {"every": "5m"}, "bad": {"every": "5x", "overlap": "mabe"}}

    result = read({"callables": [{"name": "poll", "call": "jobs:poll", "schedules": schedules}]})

    assert result.fleet is not None
    assert [each.id for each in result.fleet.schedules] == ["poll/good"]
    assert {each.where.path.rpartition(".")[2] for each in result.errors if each.where} == {"every", "overlap"}


def test_data_of_herdctl_is_validated_as_its_files_are() -> None:
    agents = [{"name": "scout", "schedules": {"check": {"type": "interval", "interval": "5m", "colour": "red"}}}]

    mild, strict = read({"agents": agents}, is_foreign=True), read({"agents": agents})

    assert [each.severity for each in mild.problems] == [Severity.WARNING]
    assert [each.severity for each in strict.problems] == [Severity.ERROR]
