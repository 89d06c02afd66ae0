"""Isolation: how late do functions start while a hundred commands start each second?"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.interference import measure_interference
from bench.timing import Result

STARTS = 100
RATE = 100
SECONDS = 10
MAX_P99 = 20.0


def run_busy() -> list[Result]:
    """Measure the same on a busy machine: each core has a program that never sleeps."""
    with _busy_cores():
        return run()


@contextmanager
def _busy_cores() -> Iterator[None]:
    with ExitStack() as programs:
        for _ in range(os.cpu_count() or 1):
            busy = programs.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            programs.callback(busy.kill)
        yield


def run() -> list[Result]:
    found = measure_interference(
        f"beside {STARTS} commands a second", "children", starts=STARTS, rate=RATE, seconds=SECONDS
    )
    measured = found["burdened"]["p99"]
    return [
        Result(
            what=f"lateness beside {STARTS} commands/s",
            measured=f"p99 {measured:.1f} ms",
            goal=f"at most {MAX_P99:g} ms",
            is_met=measured <= MAX_P99,
        )
    ]
