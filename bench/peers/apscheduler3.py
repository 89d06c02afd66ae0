"""APScheduler 3 with its SQLAlchemy job store on SQLite: N jobs due at once. Prints how long they took.

`documented` is the configuration of its user guide; `tuned` adds WAL and synchronous=NORMAL, which the guide does not.
It keeps no history: a job's next time is written, nothing of what has happened.
"""

import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event  # type: ignore[import-not-found]


def nothing() -> None:
    """What is run."""


def main(jobs: int, folder: Path, how: str) -> None:
    engine = create_engine(f"sqlite:///{folder / 'jobs.sqlite'}")
    if how == "tuned":
        event.listen(engine, "connect", _tune)
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        executors={"default": ThreadPoolExecutor(20)},
        job_defaults={"misfire_grace_time": None},
    )
    left, over = jobs, threading.Event()

    def count(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            over.set()

    scheduler.add_listener(count, EVENT_JOB_EXECUTED)
    scheduler.start(paused=True)
    now = datetime.now(UTC)
    for number in range(jobs):
        scheduler.add_job(nothing, "interval", minutes=5, id=str(number), next_run_time=now)
    start = perf_counter()
    scheduler.resume()
    over.wait()
    print(json.dumps({"beats": jobs, "seconds": perf_counter() - start}))
    scheduler.shutdown()


def _tune(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
