"""A node as a real process, for fault tests: `python -m tests.faults.node_process FOLDER`. It serves until SIGTERM."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.fleet import running_fleet
from herdbeat.config.loader import load_fleet
from herdbeat.errors import HerdbeatError, SchedulerShutdownError
from herdbeat.events import Event, NodeReady
from herdbeat.testing.clock import OffsetTimer


async def main(folder: Path, *, applies: bool = False) -> None:
    fleet = load_fleet(folder / "herdbeat.yaml", environ=os.environ, system_zone=ZoneInfo("UTC"))
    loop = asyncio.get_running_loop()

    def listener(event: Event) -> None:
        if isinstance(event, NodeReady):  # it is registered
            print("ready", flush=True)

    try:
        timer = OffsetTimer(folder / "clock")
        async with running_fleet(
            fleet, environ=os.environ, listener=listener, timer=timer, apply_config=applies
        ) as running:
            loop.add_signal_handler(signal.SIGTERM, running.node.stop, timedelta(seconds=2))
            await running.wait_stopped()
    except SchedulerShutdownError as error:
        print(error, flush=True)
    except HerdbeatError as error:
        sys.exit(f"{error} {error.hint}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), applies="--apply" in sys.argv))
