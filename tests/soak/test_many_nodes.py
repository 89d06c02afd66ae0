"""Three nodes, five hundred schedules, and every moment one of the nodes is killed."""

import random
import time
from pathlib import Path

import pytest
from tests.faults.shared_fleet import SharedFleet

from herdbeat.store.places import PostgresPlace

SECONDS = 60
SCHEDULES = 500
CROWD = """\
callables:
  - name: crowd
    instances: { max_concurrent: 200 }
    call: "builtins:bool"
    schedules:
"""


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(2))
def test_a_minute_of_kills_among_three_nodes(tmp_path: Path, database: PostgresPlace, seed: int) -> None:
    chance = random.Random(seed)
    schedules = [f"      s{number}: {{ type: interval, interval: {2 + number % 5}s }}\n" for number in range(SCHEDULES)]
    fleet = SharedFleet.create(tmp_path, database, CROWD + "".join(schedules))
    try:
        for number in (1, 2, 3):
            fleet.start(number)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.1, 3))
            victim = chance.choice((1, 2, 3))
            fleet.kill(victim)
            fleet.start(victim)
        fleet.wait_for_starts(4)
        for number in (1, 2, 3):
            fleet.stop(number)
    finally:
        fleet.end()

    fleet.consult_the_oracle()
    (slowest,) = fleet.ask("SELECT max(finished_at - claimed_at) FROM run WHERE status = 'interrupted'")[0]
    assert slowest is None or slowest < 4_000_000, "a recovery took longer than two leases"
    lost = "SELECT count(*) FROM schedule WHERE wake_at IS NULL AND running = 0 AND waiting = 0"
    assert fleet.ask(lost) == [(0,)]
    doubled = "SELECT count(*) FROM (SELECT beat_id, attempt FROM run GROUP BY 1, 2 HAVING count(*) > 1) AS twice"
    assert fleet.ask(doubled) == [(0,)]
