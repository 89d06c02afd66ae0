"""Time of one durable write: a lower bound for the start of a beat, which is recorded first."""

import os
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from bench.load.run_monitor import Percentiles

PAGE = bytes(4096)


def measure_disk(folder: Path, writes: int = 200) -> Percentiles:
    """Measure appending one page plus its fdatasync, that many times."""
    took: list[timedelta] = []
    file = os.open(folder / "disk", os.O_WRONLY | os.O_CREAT)
    try:
        for _ in range(writes):
            start = perf_counter()
            os.write(file, PAGE)
            os.fdatasync(file)
            took.append(timedelta(seconds=perf_counter() - start))
    finally:
        os.close(file)
    return Percentiles.from_times(took)
