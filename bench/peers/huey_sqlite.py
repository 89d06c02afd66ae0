"""Huey with SqliteHuey: N tasks scheduled for a moment that has come, run by its consumer with four threads.

`documented` leaves fsync off, as it is by default: a power cut loses the last tasks. `durable` turns it on.
"""

import json
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter, sleep

from huey import SqliteHuey  # type: ignore[import-not-found]


def main(tasks: int, folder: Path, how: str) -> None:
    huey = SqliteHuey(filename=str(folder / "huey.db"), utc=False, fsync=how == "durable", results=False)
    left, over, lock = tasks, threading.Event(), threading.Lock()

    @huey.task()  # type: ignore[untyped-decorator]
    def nothing() -> None:
        nonlocal left
        with lock:
            left -= 1
        if left == 0:
            over.set()

    due = datetime.now() + timedelta(seconds=0.001)
    for _ in range(tasks):
        huey.storage.add_to_schedule(huey.serialize_task(nothing.s(eta=due)), due)
    sleep(0.01)
    consumer = huey.create_consumer(workers=4, periodic=False, initial_delay=0.001, max_delay=0.01)
    start = perf_counter()
    consumer.start()
    over.wait()
    print(json.dumps({"beats": tasks, "seconds": perf_counter() - start}))
    consumer.stop(graceful=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
