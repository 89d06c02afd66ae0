"""Procrastinate on PostgreSQL: N jobs whose time has come, run by one worker until the queue is empty.

A job is fetched, and its end is written, by a statement of its own. It keeps the row of the job with its last status.
One worker runs one job at a time by default; ten at a time, over ten connections, was the fastest here.
"""

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime
from time import perf_counter

import procrastinate  # type: ignore[import-not-found]


async def main(jobs: int, url: str, concurrency: int) -> None:
    logging.disable(logging.WARNING)
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=concurrency, max_size=concurrency)
    )

    @app.task(queue="bench")  # type: ignore[untyped-decorator]
    async def nothing() -> None:
        """What is run."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.configure(schedule_at=datetime.now(UTC)).batch_defer_async(*({} for _ in range(jobs)))
        start = perf_counter()
        await app.run_worker_async(wait=False, concurrency=concurrency, install_signal_handlers=False)
        seconds = perf_counter() - start
        done = len(list(await app.job_manager.list_jobs_async(status="succeeded")))
    assert done == jobs, done
    print(json.dumps({"beats": jobs, "seconds": seconds}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[3], int(sys.argv[4])))
