"""Numbers of responses over time, and the thresholds that rules compare them with."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.server.conftest import ServedFleet

from herdbeat.domain.past_run import PastRun
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.response_fields import (
    ABSENT,
    find_thresholds,
    iter_leaves,
    iter_tree,
    list_number_fields,
    list_rules,
    read_field_series,
)

NOON = datetime(2026, 3, 26, 12, 0, tzinfo=UTC)


def past_run(number: int, response: object) -> PastRun:
    at = NOON + timedelta(minutes=number)
    return PastRun(
        id=number, status=RunStatus.SUCCEEDED, code=200, attempt=1, started_at=at, finished_at=at, response=response
    )


@pytest.fixture
def record(tmp_path: Path) -> ScheduleRecord:
    served = ServedFleet(tmp_path)
    with served.gateway.open() as handle:
        (found,) = handle.require_reader().schedules_by_id([3])
    served.gateway.close()
    return found


def with_rules(record: ScheduleRecord, *rules: dict[str, object]) -> ScheduleRecord:
    return replace(record, plan=replace(record.plan, policies=replace(record.plan.policies, adapt=rules)))


def test_every_number_that_a_rule_compares_a_field_with_is_a_threshold(record: ScheduleRecord) -> None:
    ruled = with_rules(
        record,
        {"name": "surge", "when": "response.depth > 100 && run.ok", "until": "50 > response.depth", "every": "30s"},
        {"name": "errors", "when": "response.errors / response.total > 0.05", "every": "1m"},
    )

    thresholds = find_thresholds(ruled)

    assert [(each.path, each.value, each.label) for each in thresholds] == [
        ("response.depth", 100.0, "surge"),
        ("response.depth", 50.0, "surge until"),
    ]
    assert [(each.name, each.until) for each in list_rules(ruled)] == [("surge", "50 > response.depth"), ("errors", "")]


def test_rules_of_another_version_are_not_shown_instead_of_an_error(record: ScheduleRecord) -> None:
    assert find_thresholds(with_rules(record, {"name": "new", "when": "response ~~ 3", "every": "1m"})) == ()


def test_the_series_of_a_field_leaves_out_runs_that_do_not_have_it() -> None:
    runs = [past_run(3, {"depth": 7}), past_run(2, {"error": "x"}), past_run(1, {"depth": 5, "ok": True})]

    assert list_number_fields(runs) == ("response.depth",)
    assert [(each.run, each.value) for each in read_field_series(runs, "response.depth")] == [(1, 5.0), (3, 7.0)]


def test_leaves_have_paths_and_deep_responses_end() -> None:
    deep: object = 1
    for _ in range(50):
        deep = {"a": deep}

    assert dict(iter_leaves({"a": [1, {"b": None}], "c": {}})) == {
        "response.a[0]": 1,
        "response.a[1].b": None,
        "response.c": {},
    }
    assert len(list(iter_leaves(deep))) == 1


def test_a_response_is_a_tree_whose_rows_show_what_differs_from_the_one_before() -> None:
    now = {"queue": {"depth": 150, "name": "a"}, "items": [1, 2], "new": None, "empty": {}}
    before = {"queue": {"depth": 12, "name": "a"}, "items": [1], "empty": {}, "old": True}

    rows = list(iter_tree(now, before))

    assert [(row.depth, row.key, row.parts) for row in rows if not row.differs] == [
        (0, "response", 4),
        (1, "queue", 2),
        (2, "name", 0),
        (1, "items", 2),
        (2, "[0]", 0),
        (1, "empty", 0),
    ]
    differing = {row.key: (row.value, row.before) for row in rows if row.differs}
    assert differing["depth"] == (150, 12)
    assert differing["[1]"] == (2, ABSENT)
    assert differing["new"] == (None, ABSENT)
    assert differing["old"] == (ABSENT, True)


def test_a_response_of_any_depth_is_shown_to_a_certain_depth() -> None:
    value: object = 1
    for _ in range(5_000):
        value = [value]

    rows = list(iter_tree(value, value))

    assert max(row.depth for row in rows) <= 6
    assert not any(row.is_new or row.is_gone for row in rows)
