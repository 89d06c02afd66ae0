"""How long the disk takes to make a write durable: a beat cannot begin sooner, for it is recorded first."""

import os
from datetime import timedelta
from pathlib import Path
from time import perf_counter

from bench.load.watch import Percentiles

PAGE = bytes(4096)


def disk(folder: Path, writes: int = 200) -> Percentiles:
    """The time of one appended page and its fdatasync, as often as asked."""
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
    return Percentiles.of(took)
