"""Children die with their node, and never run beside their successors."""

import os
from pathlib import Path

from tests.support.fault_fleet import FaultFleet, wait_until

SLEEPER = "  - {{ name: sleeper, command: [sh, -c, 'echo $$ >> {pids}; exec sleep 600'], every: 1s }}\n"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_a_child_of_a_killed_node_does_not_survive_it(tmp_path: Path) -> None:
    fleet = FaultFleet.create(tmp_path, SLEEPER.format(pids=tmp_path / "pids"))
    fleet.start()
    wait_until(lambda: len(pids(tmp_path)) == 1, fleet.log)
    fleet.kill()

    wait_until(lambda: not alive(pids(tmp_path)[0]), fleet.log)
    fleet.start()
    wait_until(lambda: len(pids(tmp_path)) == 2, fleet.log)

    assert [alive(pid) for pid in pids(tmp_path)] == [False, True]
    fleet.stop()
    wait_until(lambda: not any(alive(pid) for pid in pids(tmp_path)), fleet.log)
    fleet.check_against_oracle()
