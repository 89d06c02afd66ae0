"""What `explain` needs of a ledger is looked up the same way for everybody who asks."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.beat import SkipReason
from herdbeat.service.queries.explain import (
    Explanation,
    load_instant_explanation,
    load_next_explanation,
    load_run_explanation,
)
from herdbeat.service.queries.selectors import find_run, find_schedule
from herdbeat.store.reader import Reader, SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd

UTC_ZONE = ZoneInfo("UTC")
SECOND = timedelta(seconds=1)


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path, MONDAY) as herd:
        yield herd


@contextmanager
def looking(herd: SimulatedHerd) -> Iterator[Reader]:
    reader = SqliteReader(herd.store.path)
    try:
        yield reader
    finally:
        reader.close()


def asked(herd: SimulatedHerd, label: str, at: timedelta | None = None) -> Explanation:
    with looking(herd) as reader:
        record = find_schedule(reader, label)
        if at is None:
            return load_next_explanation(reader, record, herd.now, has_live_node=True)
        return load_instant_explanation(reader, record, MONDAY + at, herd.now, UTC_ZONE)


@pytest.mark.parametrize(("at", "is_found"), [(0, True), (-59, True), (59, True), (-60, False), (60, False)])
async def test_a_beat_within_a_minute_is_the_one_that_is_meant(herd: SimulatedHerd, at: int, is_found: bool) -> None:
    herd.schedule("pace", every="1h")
    await herd.tick()

    explanation = asked(herd, "pace", at * SECOND)

    assert (explanation.beat is not None) is is_found
    assert ("and ran" in explanation.text) is is_found


async def test_a_waiting_beat_is_explained_with_the_next_run(herd: SimulatedHerd) -> None:
    held = ScriptedRunner(holds=True)
    herd.schedule("agent/one", every="1h", runner=held)
    herd.schedule("agent/two", every="1h")
    await herd.tick()

    explanation = asked(herd, "agent/two")

    assert explanation.beat is not None
    assert explanation.beat.reason == SkipReason.AT_CAPACITY
    assert "a beat due" in explanation.text


async def test_a_run_is_explained_by_the_decision_that_caused_it(herd: SimulatedHerd) -> None:
    herd.schedule("pace", every="1h")
    await herd.advance(timedelta(hours=1))

    with looking(herd) as reader:
        run = find_run(reader, "0002")
        assert run is not None
        explanation = load_run_explanation(reader, run, herd.now, UTC_ZONE)

    assert explanation.text == "pace run 0002 was caused by baseline-interval."
    assert [step["text"] for step in explanation.steps] == ["baseline every 1h"]
    assert ("node", "herd, pid 0, herdbeat test") in explanation.facts
