"""One measurement of ours in a process of its own: `python -m bench.ours NAME FOLDER ARGUMENTS`, answered as JSON."""

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

from bench.load.backlog import arrival, backlog
from bench.load.children import children
from bench.load.disk import PAGE, disk
from bench.load.engine import open_store
from bench.load.idle import idle
from bench.load.lateness import Load, measured, put_far
from bench.load.stock import NOTHING
from bench.load.throughput import throughput
from bench.load.watch import Percentiles
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.schedule import DEFAULT_SCHEDULE_NAME, Schedule
from herdbeat.domain.target import Target
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.timers import SystemTimer
from herdbeat.triggers.interval import Interval


def _throughput(folder: Path, **given: int) -> object:
    return asdict(asyncio.run(throughput(folder, **given)))


def _fill(folder: Path, stored: int) -> object:
    with open_store(folder) as store:
        put_far(store, stored)
    return {}


def _lateness(folder: Path, **given: Any) -> object:
    with open_store(folder) as store:
        return asdict(asyncio.run(measured(store, Load(**given))))


def _bare(folder: Path, rate: int, seconds: float) -> object:
    """What the machine itself allows: wait for an instant, make one page durable, and nothing else."""
    return asdict(Percentiles.of(asyncio.run(_beat_barely(folder / "bare", rate, seconds))))


async def _beat_barely(path: Path, rate: int, seconds: float) -> list[timedelta]:
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
    return asdict(asyncio.run(backlog(folder, Load(**given), waiting)))


def _arrival(folder: Path, herd: int, **given: Any) -> object:
    return asdict(asyncio.run(arrival(folder, Load(**given), herd)))


def _children(folder: Path, starts: int, **given: Any) -> object:
    return asdict(asyncio.run(children(folder, Load(**given), starts)))


def _idle(folder: Path, seconds: float, began_at: float) -> object:
    return asdict(asyncio.run(idle(folder, seconds, datetime.fromtimestamp(began_at, UTC))))


def _disk(folder: Path) -> object:
    return asdict(disk(folder))


def _apply(folder: Path, schedules: int) -> object:
    """A fleet of so many schedules, as it comes from a file, into an empty ledger."""
    policies = Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.ONCE)
    names = [f"target-{number}" for number in range(schedules)]
    every = Interval(timedelta(hours=1))
    fleet = Fleet(
        name="apply",
        zone=ZoneInfo("UTC"),
        targets=tuple(Target(name=name, spec=NOTHING) for name in names),
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
    "fill": _fill,
    "lateness": _lateness,
    "bare": _bare,
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
