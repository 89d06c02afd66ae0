"""One measurement of herdbeat in its own process: `python -m bench.ours NAME FOLDER ARGUMENTS` prints JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

from bench.load.backlog import measure_arrival, measure_backlog
from bench.load.bulk_insert import NOOP_SPEC
from bench.load.child_processes import measure_child_processes
from bench.load.disk import PAGE, measure_disk
from bench.load.endpoints import measure_endpoints
from bench.load.idle import measure_idle
from bench.load.lateness import Load, insert_far_schedules, measure_lateness
from bench.load.rules import measure_rules
from bench.load.run_monitor import Percentiles
from bench.load.running_node import open_store
from bench.load.throughput import measure_throughput
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.timers import SystemTimer
from herdbeat.triggers.interval import Interval


def _throughput(folder: Path, **given: int) -> object:
    return asdict(asyncio.run(measure_throughput(folder, **given)))


def _endpoints(folder: Path, **given: int) -> object:
    return asdict(asyncio.run(measure_endpoints(folder, **given)))


def _rules(folder: Path, **given: Any) -> object:
    return asdict(asyncio.run(measure_rules(folder, **given)))


def _fill(folder: Path, stored: int) -> object:
    with open_store(folder) as store:
        insert_far_schedules(store, stored)
    return {}


def _lateness(folder: Path, **given: Any) -> object:
    with open_store(folder) as store:
        return asdict(asyncio.run(measure_lateness(store, Load(**given))))


def _bare_loop(folder: Path, rate: int, seconds: float) -> object:
    """Measure the lower bound of this machine: wait for an instant, make one page durable, and nothing else."""
    return asdict(Percentiles.from_times(asyncio.run(_run_bare_loop(folder / "bare", rate, seconds))))


async def _run_bare_loop(path: Path, rate: int, seconds: float) -> list[timedelta]:
    timer, never, late = SystemTimer(), asyncio.Event(), []
    start = timer.now()
    with path.open("wb", buffering=0) as file:
        for number in range(int(rate * seconds)):
            due_at = start + timedelta(seconds=number / rate)
            await timer.sleep_until(due_at, never)
            file.write(PAGE)
            os.fdatasync(file.fileno())
            late.append(timer.now() - due_at)
    return late


def _backlog(folder: Path, waiting: int, **given: Any) -> object:
    return asdict(asyncio.run(measure_backlog(folder, Load(**given), waiting)))


def _arrival(folder: Path, herd: int, **given: Any) -> object:
    return asdict(asyncio.run(measure_arrival(folder, Load(**given), herd)))


def _children(folder: Path, starts: int, **given: Any) -> object:
    return asdict(asyncio.run(measure_child_processes(folder, Load(**given), starts)))


def _idle(folder: Path, seconds: float, began_at: float) -> object:
    return asdict(asyncio.run(measure_idle(folder, seconds, datetime.fromtimestamp(began_at, UTC))))


def _disk(folder: Path) -> object:
    return asdict(measure_disk(folder))


def _apply(folder: Path, schedules: int) -> object:
    """Apply a fleet of that many schedules to an empty ledger, as if loaded from a file."""
    policies = Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE)
    names = [f"target-{number}" for number in range(schedules)]
    every = Interval(timedelta(hours=1))
    fleet = Fleet(
        name="apply",
        zone=ZoneInfo("UTC"),
        targets=tuple(Target(name=name, spec=NOOP_SPEC) for name in names),
        schedules=tuple(
            Schedule(
                target=name, name=DEFAULT_SCHEDULE_NAME, trigger=every, policies=policies, prompt=f"Look after {name}."
            )
            for name in names
        ),
        store="",
        server=ServerSettings(),
    )
    with open_store(folder) as store:
        start = perf_counter()
        store.write_now(lambda tx: apply_fleet(tx, fleet, datetime.now(UTC)))
        return {"seconds": perf_counter() - start}


MEASUREMENTS: dict[str, Callable[..., object]] = {
    "throughput": _throughput,
    "endpoints": _endpoints,
    "rules": _rules,
    "fill": _fill,
    "lateness": _lateness,
    "bare": _bare_loop,
    "backlog": _backlog,
    "arrival": _arrival,
    "children": _children,
    "idle": _idle,
    "disk": _disk,
    "apply": _apply,
}

if __name__ == "__main__":
    name, folder, arguments = sys.argv[1:]
    print(json.dumps(MEASUREMENTS[name](Path(folder), **json.loads(arguments))))
