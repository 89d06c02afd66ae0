"""A week of minutes, each with a command at its very instant."""

from pathlib import Path

import pytest
from tests.scheduler.test_concurrent_changes import ACTS, ORDERS, disturb_calendar

A_WEEK = 7 * 24 * 60


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("act", ACTS)
async def test_a_week_of_minutes_with_concurrent_changes(tmp_path: Path, act: str, order: str) -> None:
    await disturb_calendar(tmp_path, act, order, A_WEEK)
