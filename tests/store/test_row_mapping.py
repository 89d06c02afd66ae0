"""A row that cannot be read is contained; a server that cannot be asked is not a fault of the row."""

from typing import Any

import pytest

from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import StoreUnavailable
from herdbeat.store.record_mapping import PLACEHOLDER_PLAN, UnreadablePlan, read_plan
from herdbeat.store.row_mapping import read_snapshots

ROW: list[Any] = [7, 1, "t/s", 3, 1, 1, None, None, None, "", None, 0, 0, 0, 0, 0, 0, 0, None]


def _garbled(plan_id: int) -> ScheduleSpec:
    raise ValueError(f"plan {plan_id} is garbled")


def _away(plan_id: int) -> ScheduleSpec:
    raise StoreUnavailable("the server took too long")


def test_a_plan_that_cannot_be_read_is_reported_with_its_schedule() -> None:
    (found,) = read_snapshots([ROW], _garbled)

    assert (found.id, found.label) == (7, "t/s")
    assert found.unreadable is not None


def test_a_lost_server_does_not_make_a_schedule_unreadable() -> None:
    with pytest.raises(StoreUnavailable, match="took too long"):
        read_snapshots([ROW], _away)


def test_a_damaged_column_does_not_hide_the_rows_beside_it() -> None:
    damaged = [
        [8, 1, "t/far", 3, 1, 1, 10**30, None, None, "", None, 0, 0, 0, 0, 0, 0, 0, None],
        [9, 1, "t/source", 3, 1, 1, None, None, "no-such-source", "", None, 0, 0, 0, 0, 0, 0, 0, None],
        [10, 1, "t/hint", 3, 1, 1, None, None, None, "", None, 0, 0, 0, 0, 0, 0, 0, [None, 1, 0, *"abcdefg", [["x"]]]],
    ]

    found = read_snapshots([*damaged, ROW], lambda _: PLACEHOLDER_PLAN)

    assert [each.label for each in found] == ["t/far", "t/source", "t/hint", "t/s"]
    assert [each.unreadable is None for each in found] == [False, False, False, True]


@pytest.mark.parametrize("text", ["", "[]", "null", '{"trigger": 7}', '{"trigger": {"kind": "no-such-kind"}}'])
def test_whatever_is_wrong_with_a_stored_plan_is_one_error(text: str) -> None:
    with pytest.raises(UnreadablePlan):
        read_plan(text)
