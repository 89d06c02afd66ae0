"""A row that cannot be read is contained; a server that cannot be asked is not a fault of the row."""

from typing import Any

import pytest

from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import StoreUnavailable
from herdbeat.store.row_mapping import read_snapshots

ROW: list[Any] = [7, 1, "t/s", 3, 1, 1, None, None, None, "", None, 0, 0, 0, 0, 0, 0, 0, None]


def _garbled(plan_id: int) -> ScheduleSpec:
    raise ValueError(f"plan {plan_id} is garbled")


def _away(plan_id: int) -> ScheduleSpec:
    raise StoreUnavailable("the server took too long")


def test_a_plan_that_cannot_be_read_is_told_by_its_schedule() -> None:
    (found,) = read_snapshots([ROW], _garbled)

    assert (found.id, found.label) == (7, "t/s")
    assert found.unreadable is not None


def test_a_schedule_was_taken_for_unreadable_because_the_server_was_away() -> None:
    with pytest.raises(StoreUnavailable, match="took too long"):
        read_snapshots([ROW], _away)
