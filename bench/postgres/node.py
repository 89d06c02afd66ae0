"""One node of ours in a process of its own: `python -m bench.postgres.node URL FOLDER ARGUMENTS`.

It is what `herdbeat up` starts. Everything it says is a line of JSON: `ready`, each start if it is asked to, and at the
end what it has done. It ends when it has finished as many runs as it is told, or when its input does.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time

from bench.load.engine import PATIENCE, ROOM
from bench.load.watch import Watch
from bench.postgres.ledger import fleet_at
from herdbeat.bootstrap.fleet import RunningFleet, running_fleet, tune_gc
from herdbeat.events import Event, NodeReady, RunFinished, RunStarted
from herdbeat.store.postgres.notify import PostgresSharedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """`until` so many runs have ended. Beats due before `since` (seconds of the epoch) do not count as late or not.

    One that is deaf hears no NOTIFY, as behind a pooler, and has only its look every `check_interval`.
    """

    until: int | None = None
    since: float = 0.0
    max_concurrent: int = ROOM
    tells_starts: bool = False
    is_deaf: bool = False


class Reporter:
    """Listens to the node, counts, and says what it is asked to say. Moments are of the monotonic clock."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.watch = Watch(since=datetime.fromtimestamp(orders.since, UTC))
        self._began_at = self._last_at = monotonic()
        self._used = 0.0

    def __call__(self, event: Event) -> None:
        self.watch(event)
        match event:
            case NodeReady():
                self._used = process_time()
                say(event="ready", at=monotonic())
            case RunFinished():
                self._last_at = monotonic()
            case RunStarted() if self._orders.tells_starts:
                say(event="started", schedule=event.schedule, at=monotonic())
            case _:
                pass

    def begin(self) -> None:
        self._began_at = monotonic()

    def report(self) -> None:
        assert not self.watch.failed, self.watch.failed[0]
        say(
            event="done",
            beats=self.watch.finished,
            seconds=self._last_at - self._began_at,
            last_at=self._last_at,
            processor=process_time() - self._used,
            lateness=asdict(self.watch.lateness),
        )


async def main(url: str, folder: Path, orders: Orders) -> None:
    reporter = Reporter(orders)
    if orders.is_deaf:
        # A pooler that hands out connections by transaction does the same to it, but would have to be installed.
        PostgresSharedStore.listen = lambda *_: None  # type: ignore[method-assign]
    opened = running_fleet(
        fleet_at(url, folder), environ=os.environ, listener=reporter, max_concurrent=orders.max_concurrent
    )
    async with opened as running, asyncio.TaskGroup() as tasks:
        tasks.create_task(_stop_in_time(running, reporter, orders), name="stop")
        tune_gc()  # as in the process of `herdbeat up`
        reporter.begin()
        await running.wait_stopped()
    reporter.report()


async def _stop_in_time(ready: RunningFleet, reporter: Reporter, orders: Orders) -> None:
    if orders.until is not None:
        await reporter.watch.until(orders.until)
    else:
        await asyncio.to_thread(sys.stdin.read)
    ready.node.stop(PATIENCE)


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Orders(**json.loads(sys.argv[3]))))
