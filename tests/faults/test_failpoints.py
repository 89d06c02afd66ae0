"""A node crashes at each failpoint: every second is accounted for, and nothing starts twice."""

from pathlib import Path

import pytest
from tests.support.fault_fleet import FaultFleet

from herdbeat.failpoints import Failpoint

OTHER_TESTS = ("sweep", "work", "delivery")
"""Failpoints that only some fleets reach: the tests of work sources and of the outbox have them."""

POINTS = [point for point in Failpoint if not any(word in point for word in OTHER_TESTS)]


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
@pytest.mark.parametrize("point", POINTS)
def test_a_node_that_ends_between_two_steps_leaves_nothing_unaccounted_for(
    tmp_path: Path, point: str, signal: str
) -> None:
    fleet = FaultFleet.create(tmp_path)
    fleet.start(crash_at=f"{point}:4:{signal}")
    fleet.wait_for_end()

    fleet.start()
    fleet.wait_for_starts(2)
    fleet.stop()

    fleet.check_against_oracle()


def test_a_node_that_dies_during_a_rescue_is_rescued_by_the_next(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path, "  - { name: sleeper, command: [sleep, '60'], every: 1s }\n")
    fleet.start()
    fleet.wait_for_starts(2)
    fleet.kill()
    fleet.start(crash_at="during-sweep:1:KILL")
    fleet.wait_for_end()

    fleet.start()
    fleet.wait_for_starts(2)
    fleet.stop()

    fleet.check_against_oracle()


def test_repeated_kill_nine_loses_no_beat(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path)
    for _ in range(4):
        fleet.start()
        fleet.wait_for_starts(2)
        fleet.kill()

    fleet.start()
    fleet.wait_for_starts(2)
    fleet.stop()

    fleet.check_against_oracle()
