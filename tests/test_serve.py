"""A fleet put together for real: what its file says reaches the engine."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.config import load_fleet
from herdbeat.events import Event, RunFinished, RunStarted
from herdbeat.serve import Ready, serve

FLEET = """\
version: 1
max_concurrent: 2
commands:
  - { name: a, command: [cat], at: "2026-01-01T00:00:00Z" }
  - { name: b, command: [cat], at: "2026-01-01T00:00:00Z" }
  - { name: c, command: [cat], at: "2026-01-01T00:00:00Z" }
  - { name: d, command: [cat], at: "2026-01-01T00:00:00Z" }
"""


async def test_the_limit_of_the_whole_fleet_holds_across_its_targets(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    fleet = load_fleet(tmp_path / "herdbeat.yaml", environ=os.environ, system_zone=ZoneInfo("UTC"))
    going, most, ended = 0, 0, 0
    ready: list[Ready] = []

    def listen(event: Event) -> None:
        nonlocal going, most, ended
        if isinstance(event, RunStarted):
            going += 1
            most = max(most, going)
        elif isinstance(event, RunFinished):
            going, ended = going - 1, ended + 1
            if ended == 4:
                ready[0].node.stop(timedelta(seconds=5))

    async with asyncio.timeout(30):
        await serve(fleet, environ=os.environ, on_ready=ready.append, listener=listen)

    assert (most, ended) == (2, 4)
