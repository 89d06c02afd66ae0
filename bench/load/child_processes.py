"""Isolation: functions at a steady rate, alone and beside child processes that start at a steady rate."""

from pathlib import Path

from bench.load.bulk_insert import ScheduleBatch, insert_schedules
from bench.load.lateness import TICK_INTERVAL, Comparison, Load, insert_far_schedules, measure_lateness
from bench.load.running_node import open_store
from herdbeat.clock import SystemClock
from herdbeat.domain.target import CommandSpec


async def measure_child_processes(folder: Path, load: Load, starts: int) -> Comparison:
    """Measure both. The command is `true`: nearly all of its cost is starting and reaping a process."""
    with open_store(folder / "alone") as store:
        insert_far_schedules(store, load.stored)
        alone = await measure_lateness(store, load)
    with open_store(folder / "burdened") as store:
        insert_far_schedules(store, load.stored)
        now = SystemClock().now()
        true = CommandSpec(command=("true",), working_directory=str(folder))
        insert_schedules(
            store,
            ScheduleBatch(
                name="child", count=starts, first_at=now, every=TICK_INTERVAL, spread=TICK_INTERVAL, spec=true
            ),
            now,
        )
        return Comparison(alone=alone, burdened=await measure_lateness(store, load))
