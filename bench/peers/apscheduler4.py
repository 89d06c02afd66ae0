"""APScheduler 4 (a pre-release) with its SQLAlchemy data store, on SQLite or the database it is given: N schedules due
at once.

It cannot live beside version 3, so it has an environment of its own, and this script imports nothing of ours.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from apscheduler import AsyncScheduler, JobReleased
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.ext.asyncio import create_async_engine  # type: ignore[import-not-found]


async def nothing() -> None:
    """What is run."""


async def main(jobs: int, url: str) -> None:
    store = SQLAlchemyDataStore(create_async_engine(url))
    left, over = jobs, asyncio.Event()

    def count(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            over.set()

    async with AsyncScheduler(store) as scheduler:
        scheduler.subscribe(count, {JobReleased})
        now = datetime.now(UTC)
        for number in range(jobs):
            # A trigger of its own for each: they remember what they have given out.
            await scheduler.add_schedule(nothing, IntervalTrigger(minutes=5, start_time=now), id=str(number))
        start = perf_counter()
        await scheduler.start_in_background()
        await over.wait()
        print(json.dumps({"beats": jobs, "seconds": perf_counter() - start}))
        await scheduler.stop()


def engine_url(folder: Path, given: list[str]) -> str:
    """With the drivers of its documents."""
    if given:
        return given[0].replace("postgresql:", "postgresql+asyncpg:", 1)
    return f"sqlite+aiosqlite:///{folder / 'jobs.sqlite'}"


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), engine_url(Path(sys.argv[2]), sys.argv[3:])))
