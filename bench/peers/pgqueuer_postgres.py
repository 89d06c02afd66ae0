"""PgQueuer on PostgreSQL: N jobs in its queue, drained by one queue manager.

It keeps no schedules of its own kind for them: a job is a row that is removed when it is done, and a line in a log. The
size of a batch is the one that was fastest here; by default it is 10.
"""

import asyncio
import json
import sys
from time import perf_counter

import asyncpg  # type: ignore[import-not-found]
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgPoolDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]
from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found]


async def main(jobs: int, url: str, batch: int) -> None:
    async with asyncpg.create_pool(url, min_size=5, max_size=20) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        worker = PgQueuer(driver)
        left = jobs

        @worker.entrypoint("nothing")  # type: ignore[untyped-decorator]
        async def nothing(_: object) -> None:
            nonlocal left
            left -= 1

        await queries.enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)
        start = perf_counter()
        await worker.run(batch_size=batch, mode=QueueExecutionMode.drain)
        seconds = perf_counter() - start
    assert left == 0, left
    print(json.dumps({"beats": jobs, "seconds": seconds}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[3], int(sys.argv[4])))
