"""A complete fleet: the settings of its file reach the scheduler."""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.config.loader import load_fleet
from herdbeat.events import Event, RunFinished

FLEET_YAML = """\
version: 1
max_concurrent: 2
callables:
  - { name: a, call: "crowded_jobs:work", at: "2026-01-01T00:00:00Z" }
  - { name: b, call: "crowded_jobs:work", at: "2026-01-01T00:00:00Z" }
  - { name: c, call: "crowded_jobs:work", at: "2026-01-01T00:00:00Z" }
  - { name: d, call: "crowded_jobs:work", at: "2026-01-01T00:00:00Z" }
"""
JOBS_SOURCE = """\
import asyncio

going, seen = 0, []


async def work():
    global going
    going += 1
    seen.append(going)
    for _ in range(100):
        await asyncio.sleep(0)
    going -= 1
"""


async def test_the_limit_of_the_whole_fleet_holds_across_its_targets(tmp_path: Path) -> None:
    """The functions count themselves: the event of a finished run comes after its slot is free."""
    (tmp_path / "herdbeat.yaml").write_text(FLEET_YAML, encoding="utf-8")
    (tmp_path / "crowded_jobs.py").write_text(JOBS_SOURCE, encoding="utf-8")
    fleet = load_fleet(tmp_path / "herdbeat.yaml", environ=os.environ, system_zone=ZoneInfo("UTC"))
    ended: list[RunFinished] = []
    ready: list[RunningFleet] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunFinished):
            ended.append(event)
            if len(ended) == 4:
                ready[0].node.stop(timedelta(seconds=5))

    async with asyncio.timeout(30), running_fleet(fleet, environ=os.environ, listener=listen) as running:
        ready.append(running)
        await running.wait_stopped()

    seen = sys.modules["crowded_jobs"].seen
    assert (len(seen), max(seen)) == (4, 2)
