"""The hole that kill -9 of a node leaves: from the kill until the target sees the cut-off run again, elsewhere.

The target is a program that writes when it was started, and then works until it is ended. It is measured at the target:
what the ledger says does not count. Before and after in one run: with `by_lease` the nodes record no origin, as
versions before did, and a neighbour is found dead by its lease.
"""

import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import clock_gettime, sleep
from zoneinfo import ZoneInfo

from bench.load.run_monitor import Percentiles
from bench.postgres.ledger import database_time, fleet_at
from bench.postgres.node_processes import NodeProcess
from bench.postgres.server import describe_server, fresh_database, server
from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table
from herdbeat.domain.policies import Catchup, OnInterrupt, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import CommandSpec, Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import create_store, store_location
from herdbeat.triggers.interval import Interval

TIMES = 5
LEASE_TIMES = 2
GOAL = 1.0
"""Seconds, for programs that end when they are asked to."""

WAIT_S = 90.0
UPTIME = 'read up rest < /proc/uptime; echo "$up" >> {starts}'
PROGRAMS = {
    "a program that ends at SIGTERM": f"{UPTIME}; exec sleep 600",
    "a program that ignores SIGTERM": f"trap '' TERM; {UPTIME}; while :; do sleep 0.05; done",
}


def run() -> list[Result]:
    with server() as postgres:
        print(describe_server(postgres), flush=True)
        holes: dict[str, Percentiles] = {}
        for what, script in PROGRAMS.items():
            with fresh_database(postgres) as url:
                holes[what] = measure_holes(url, script, TIMES, by_lease=False)
        with fresh_database(postgres) as url:
            first = next(iter(PROGRAMS))
            holes["the same, found dead by its lease of 30s"] = measure_holes(
                url, PROGRAMS[first], LEASE_TIMES, by_lease=True
            )
    rows = [("from kill -9 to the start elsewhere, s", "p50", "longest")]
    rows += [(what, f"{each.p50 / 1000:.2f}", f"{each.longest / 1000:.2f}") for what, each in holes.items()]
    print(format_table(rows))
    seconds = holes[first].p50 / 1000
    return [
        Result(
            what="kill -9 of a node: its run starts on its neighbour",
            measured=f"median {seconds:.2f} s",
            goal=f"within {GOAL:g} s",
            is_met=seconds <= GOAL,
        )
    ]


def measure_holes(url: str, script: str, times: int, *, by_lease: bool) -> Percentiles:
    """Kill the node with the run again and again; its successor is the next to be killed."""
    with fresh_folder() as folder:
        starts = folder / "starts"
        _apply(url, folder, script.format(starts=starts))
        options = {"max_concurrent": 10, "by_lease": by_lease}
        active = NodeProcess(url, folder / "node-0", **options)
        holes: list[timedelta] = []
        try:
            _wait_for_starts(starts, 1)
            for number in range(1, times + 1):
                successor = NodeProcess(url, folder / f"node-{number}", **options)
                try:
                    sleep(1)  # both are at rest
                    killed_at = clock_gettime(time.CLOCK_BOOTTIME)
                    active.kill()
                    started_at = _wait_for_starts(starts, number + 1)[number]
                    holes.append(timedelta(seconds=started_at - killed_at))
                finally:
                    active.kill()
                    active = successor
        finally:
            active.kill()
    return Percentiles.from_times(holes)


def _apply(url: str, folder: Path, script: str) -> None:
    policies = Policies(
        zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE, on_interrupt=OnInterrupt.RETRY
    )
    schedule = Schedule(
        target="worker", name=DEFAULT_SCHEDULE_NAME, trigger=Interval(timedelta(hours=1)), policies=policies
    )
    target = Target(name="worker", spec=CommandSpec(command=("sh", "-c", script), working_directory=str(folder)))
    fleet = fleet_at(url, folder, targets=(target,), schedules=(schedule,))
    with closing(create_store(store_location(fleet))) as store:
        store.open()
        now = database_time(store)
        store.write_now(lambda tx: apply_fleet(tx, fleet, now))


def _wait_for_starts(starts: Path, count: int) -> list[float]:
    """Return when the target was started, in seconds since boot."""
    deadline = clock_gettime(time.CLOCK_BOOTTIME) + WAIT_S
    while clock_gettime(time.CLOCK_BOOTTIME) < deadline:
        seen = starts.read_text(encoding="utf-8").split() if starts.exists() else []
        if len(seen) >= count:
            return [float(each) for each in seen]
        sleep(0.01)
    raise RuntimeError(f"the target saw no start for {WAIT_S:g} s")
