"""Schedules that differ in nothing that matters share a decision; whatever matters gives one its own."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat.domain.hint import Hint
from herdbeat.domain.planned_pause import PauseWindow
from herdbeat.domain.policies import Jitter
from herdbeat.governor import Pause, ScheduleState, decide
from herdbeat.governor.state import decision_to_text
from herdbeat.scheduler.complete import SharedDecisions
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.testing.herd import SimulatedHerd, open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CHANGES: dict[str, Any] = {
    "anchor_at": TEN - HOUR,
    "is_new": True,
    "failures": 3,
    "runs": 17,
    "hints": (Hint(origin="human:ana", expires_at=TEN + HOUR, every=timedelta(minutes=1)),),
    "pause": Pause(until=TEN + HOUR),
    "enabled": False,
    "not_before": TEN + HOUR,
    "windows": (PauseWindow(id=1, from_at=TEN, until=TEN + HOUR),),
}


@pytest.mark.parametrize(
    "name", [field.name for field in fields(ScheduleState) if field.name not in ("schedule", "timing")]
)
async def test_a_schedule_whose_state_differs_gets_its_own_decision(tmp_path: Path, name: str) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        herd.schedule("api", every="5m")
        plain = herd.snapshot("api")._replace(is_new=False, anchor_at=TEN)
        other = plain._replace(**{name: CHANGES[name]})
        shared = SharedDecisions(TEN)
        shared.decide(plain)

        decision, text = shared.decide(other)

        own = decide(TEN, governor_state(other))
        assert decision._replace(inputs=None) == own._replace(inputs=None)
        assert text == decision_to_text(own)


async def test_equal_schedules_share_the_decision_itself(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        first, second = _two_schedules(herd)
        shared = SharedDecisions(TEN)

        assert shared.decide(first)[0] is shared.decide(second)[0]


async def test_jitter_is_of_each_schedule_alone(tmp_path: Path) -> None:
    async with open_herd(tmp_path, TEN) as herd:
        first, second = _two_schedules(herd, jitter=Jitter(span=timedelta(minutes=2)))
        shared = SharedDecisions(TEN)

        times = {shared.decide(each)[0].next_run_at for each in (first, second)}

        assert len(times) == 2


def _two_schedules(herd: SimulatedHerd, **policies: Any) -> tuple[Any, Any]:
    """Two schedules that have run, and share a plan."""
    herd.schedule("one", every="5m", **policies)
    herd.schedule("two", every="5m", **policies)
    first, second = (herd.snapshot(name)._replace(is_new=False, anchor_at=TEN) for name in ("one", "two"))
    return first, second._replace(plan=first.plan)
