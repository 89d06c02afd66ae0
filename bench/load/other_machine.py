"""Clients of a measurement, in a process that stands in for another machine: it gets what the fleet leaves over."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

CLIENT_TIMEOUT_S = 60


@contextmanager
def running_clients(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Call `work(connection, *arguments)` in the process of the clients, and yield the other end of the connection."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_work, args=(work, theirs, arguments))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(CLIENT_TIMEOUT_S)
        process.kill()


def _work(work: Callable[..., None], connection: Connection, arguments: tuple[object, ...]) -> None:
    # Clients on the cores of the fleet would be measured as a part of it. Everything else preempts an idle process, in
    # its own session: Linux on a desktop weighs sessions against each other, and the work of the clients would count as
    # that of the session of the node.
    os.setsid()
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)
    work(connection, *arguments)
