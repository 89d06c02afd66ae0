"""Do child processes delay the rest? Functions at a steady rate, alone and beside so many commands a second."""

from pathlib import Path

from bench.load.engine import open_store
from bench.load.lateness import EVERY, Compared, Load, measured, put_far
from bench.load.stock import Lot, put
from herdbeat.clock import SystemClock
from herdbeat.domain.target import CommandSpec


async def children(folder: Path, load: Load, starts: int) -> Compared:
    """The command is `true`: nearly all of its cost is that of starting a process and reading its end."""
    with open_store(folder / "alone") as store:
        put_far(store, load.stored)
        alone = await measured(store, load)
    with open_store(folder / "burdened") as store:
        put_far(store, load.stored)
        now = SystemClock().now()
        true = CommandSpec(command=("true",), working_directory=str(folder))
        put(store, Lot(name="child", count=starts, first_at=now, every=EVERY, spread=EVERY, spec=true), now)
        return Compared(alone=alone, burdened=await measured(store, load))
