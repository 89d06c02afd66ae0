"""One node in its own process: `python -m bench.postgres.node_main URL FOLDER ARGUMENTS`.

It is what `herdbeat up` starts. It prints lines of JSON: `ready`, each start if `reports_starts` is set, and a summary
at the end. It stops after `until` finished runs, or at the end of its standard input.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time

from bench.load.run_monitor import RunMonitor
from bench.load.running_node import MAX_CONCURRENT_RUNS, STOP_TIMEOUT
from bench.postgres.ledger import fleet_at
from herdbeat.bootstrap import fleet as bootstrap
from herdbeat.bootstrap.fleet import RunningFleet, running_fleet
from herdbeat.events import Event, NodeReady, RunFinished, RunStarted
from herdbeat.platform import tune_interpreter
from herdbeat.store.postgres.notify import PostgresSharedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Stop after `until` finished runs. Beats due before `since` (seconds of the epoch) do not count for the lateness.

    A node `without_notify` receives no NOTIFY, as behind a pooler, and polls every `check_interval`. One that counts
    `by_lease` does not watch the processes of its neighbours.
    """

    until: int | None = None
    since: float = 0.0
    max_concurrent: int = MAX_CONCURRENT_RUNS
    reports_starts: bool = False
    without_notify: bool = False
    by_lease: bool = False


class Reporter:
    """Event listener that counts and reports. Times are of the monotonic clock."""

    def __init__(self, options: NodeOptions) -> None:
        self._options = options
        self.monitor = RunMonitor(since=datetime.fromtimestamp(options.since, UTC))
        self._began_at = self._last_at = monotonic()
        self._used = 0.0

    def __call__(self, event: Event) -> None:
        self.monitor(event)
        match event:
            case NodeReady():
                self._used = process_time()
                emit(event="ready", at=monotonic())
            case RunFinished():
                self._last_at = monotonic()
            case RunStarted() if self._options.reports_starts:
                emit(event="started", schedule=event.schedule, at=monotonic())
            case _:
                pass

    def begin(self) -> None:
        self._began_at = monotonic()

    def report(self) -> None:
        assert not self.monitor.failed, self.monitor.failed[0]
        emit(
            event="done",
            beats=self.monitor.finished,
            seconds=self._last_at - self._began_at,
            last_at=self._last_at,
            processor=process_time() - self._used,
            lateness=asdict(self.monitor.lateness),
        )


async def main(url: str, folder: Path, options: NodeOptions) -> None:
    reporter = Reporter(options)
    if options.without_notify:
        # A transaction pooler has the same effect, but would have to be installed.
        PostgresSharedStore.listen = lambda *_: None  # type: ignore[method-assign]
    if options.by_lease:
        bootstrap.read_own_origin = lambda: None  # type: ignore[attr-defined]
    opened = running_fleet(
        fleet_at(url, folder), environ=os.environ, listener=reporter, max_concurrent=options.max_concurrent
    )
    async with opened as running, asyncio.TaskGroup() as tasks:
        tasks.create_task(_stop_when_done(running, reporter, options), name="stop")
        tune_interpreter()  # as in the process of `herdbeat up`
        reporter.begin()
        await running.wait_stopped()
    reporter.report()


async def _stop_when_done(ready: RunningFleet, reporter: Reporter, options: NodeOptions) -> None:
    if options.until is not None:
        await reporter.monitor.wait_finished(options.until)
    else:
        await asyncio.to_thread(sys.stdin.read)
    ready.node.stop(STOP_TIMEOUT)


def emit(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), NodeOptions(**json.loads(sys.argv[3]))))
