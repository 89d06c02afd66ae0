"""DBOS on PostgreSQL: N workflows of nothing in a queue, run by one process.

It writes that a workflow began, and its result. Its queue is looked at once a second by default; here a hundred times.
The clock begins with the first workflow, so that neither its launch nor its first look counts.
"""

import json
import sys
import threading
from time import perf_counter, sleep

import psycopg
from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

QUEUE = "bench"
DONE = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
LOOK = 0.01


def main(jobs: int, url: str) -> None:
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    over, lock, begun = threading.Event(), threading.Lock(), list[float]()

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def nothing() -> None:
        with lock:
            begun.append(perf_counter())
            if len(begun) == jobs:
                over.set()

    DBOS.launch()
    client = DBOSClient(system_database_url=url)
    for _ in range(jobs):
        client.enqueue({"queue_name": QUEUE, "workflow_name": nothing.__qualname__})
    DBOS.register_queue(QUEUE, polling_interval_sec=LOOK)
    over.wait()
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(DONE).fetchone() != (jobs,):
            sleep(LOOK)
    print(json.dumps({"beats": jobs, "seconds": perf_counter() - begun[0]}))
    client.destroy()
    DBOS.destroy()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[3])
