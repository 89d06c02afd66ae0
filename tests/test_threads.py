"""Threads of our own: never the loop's, and nothing waits for them."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, wait
from contextvars import ContextVar

import pytest

from herdbeat.threads import DaemonExecutor, call_in_thread, host_lookup

NAME: ContextVar[str] = ContextVar("NAME")


async def test_a_call_has_the_context_of_its_caller_and_raises_what_it_raised() -> None:
    NAME.set("caller")

    assert await call_in_thread(NAME.get) == "caller"
    with pytest.raises(ZeroDivisionError):
        await call_in_thread(divmod, 1, 0)


async def test_calls_of_ours_do_not_wait_for_functions_that_fill_the_threads_of_the_loop() -> None:
    release = threading.Event()
    filling = [asyncio.ensure_future(asyncio.to_thread(release.wait)) for _ in range(100)]

    try:
        async with asyncio.timeout(60):
            assert await call_in_thread(os.getpid) == os.getpid()
            assert (await host_lookup().resolve("localhost", 80))[0]["port"] == 80
    finally:
        release.set()
        await asyncio.gather(*filling)


def test_a_call_that_hangs_after_its_caller_was_cancelled_does_not_keep_the_next_one_waiting() -> None:
    pool, release = DaemonExecutor(2, "test"), threading.Event()
    pool.submit(release.wait)

    assert pool.submit(os.getpid).result(60) == os.getpid()
    release.set()


def test_at_most_as_many_run_as_the_limit_and_a_call_that_waits_can_be_cancelled() -> None:
    pool, release = DaemonExecutor(1, "test"), threading.Event()
    first, second = pool.submit(release.wait), pool.submit(os.getpid)

    assert second.cancel()
    release.set()

    assert first.result(60)
    with pytest.raises(CancelledError):
        second.result()
    assert pool.submit(os.getpid).result(60) == os.getpid()


def test_after_its_shutdown_it_finishes_what_it_has_and_takes_nothing_more() -> None:
    pool = DaemonExecutor(2, "test")
    futures = [pool.submit(time.sleep, 0.01) for _ in range(5)]

    pool.shutdown()

    assert not wait(futures, 60).not_done
    with pytest.raises(RuntimeError):
        pool.submit(os.getpid)


FORK = """
import asyncio, os
from herdbeat.threads import call_in_thread
assert asyncio.run(call_in_thread(os.getpid)) == os.getpid()
child = os.fork()
if child == 0:
    os._exit(asyncio.run(asyncio.wait_for(call_in_thread(os.getpid), 30)) != os.getpid())
assert os.waitpid(child, 0)[1] == 0
"""

HANGING = """
import asyncio, time
from herdbeat.threads import use_daemon_threads
async def main():
    use_daemon_threads(10)
    for _ in range(10):
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [FORK, HANGING], ids=["forked", "hanging"])
def test_a_forked_process_has_threads_of_its_own_and_a_hanging_one_does_not_delay_the_exit(program: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=120, check=True)
