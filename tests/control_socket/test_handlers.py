"""What comes through the socket about beats and runs is read with care."""

from typing import Any, cast

import pytest

from herdbeat.bootstrap.fleet import RunningFleet
from herdbeat.control_socket.handlers import MAX_IDS_PER_REQUEST, RunHandlers
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import HerdbeatError
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import MONDAY

WHO = {"who": "human:you", "reason": ""}


def desk() -> RunHandlers:
    """Without a fleet behind it: nothing of what is refused may reach one."""
    return RunHandlers(cast("Fleet", None), cast("RunningFleet", None), FakeClock(MONDAY))


@pytest.mark.parametrize(
    ("do", "request_", "message"),
    [
        ("retry", {"runs": [1]}, 'has no "who"'),
        ("retry", {**WHO, "who": 7, "runs": [1]}, 'has no "who"'),
        ("retry", WHO, 'has no "runs"'),
        ("retry", {**WHO, "runs": []}, 'has no "runs"'),
        ("retry", {**WHO, "runs": [True]}, 'has no "runs"'),
        ("retry", {**WHO, "runs": ["1"]}, 'has no "runs"'),
        ("retry", {**WHO, "runs": [1] * (MAX_IDS_PER_REQUEST + 1)}, 'has no "runs"'),
        ("backfill", {**WHO, "schedule": 1, "label": "a", "from": "2026-01-01T00:00:00Z"}, 'has no "until"'),
        ("backfill", {**WHO, "schedule": 1, "label": "a", "from": "then", "until": "now"}, "then"),
    ],
)
async def test_a_request_that_cannot_be_meant_is_refused(do: str, request_: dict[str, Any], message: str) -> None:
    with pytest.raises(HerdbeatError) as raised:
        await desk().handlers[do](request_)

    assert message in raised.value.message
