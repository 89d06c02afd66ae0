"""Threads that are reused, counted, and not waited for at exit."""

import asyncio
import subprocess
import sys
import threading

from herdbeat.runners.thread_pool import DaemonThreadPool

HANGS = """
import asyncio, threading
from herdbeat.runners.thread_pool import DaemonThreadPool

async def main():
    DaemonThreadPool(1).call(threading.Event().wait)

asyncio.run(main())
"""


async def test_a_thread_is_reused() -> None:
    threads: DaemonThreadPool[int] = DaemonThreadPool(3)

    seen = {await threads.call(threading.get_ident) for _ in range(5)}
    threads.close()

    assert len(seen) == 1


async def test_no_more_than_the_limit_run_at_once() -> None:
    threads: DaemonThreadPool[int] = DaemonThreadPool(2)
    both_in = threading.Barrier(3)

    first, second = (threads.call(both_in.wait) for _ in range(2))
    third = threads.call(threading.get_ident)
    is_third_waiting = not third.done()
    await asyncio.to_thread(both_in.wait)
    await asyncio.gather(first, second, third)
    threads.close()

    assert is_third_waiting


def test_a_function_that_never_returns_does_not_keep_the_process_alive() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], timeout=60, check=False)

    assert ended.returncode == 0
