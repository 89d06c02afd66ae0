"""A child is awaited and reaped, with or without a pidfd."""

import asyncio
import errno
import os
import signal

import pytest

from herdbeat.runners.process.child import spawn
from herdbeat.runners.process.process_tree import is_alive, read_start_time


async def test_an_ended_child_keeps_its_pid_until_it_is_released() -> None:
    child = spawn(("/bin/sh", "-c", "exit 3"), "/", {}, has_stdin=False)
    await child.exited.wait()

    is_kept = read_start_time(child.identity.pid) == child.identity.start
    child.signal_group(signal.SIGKILL)
    status = child.release()

    assert is_kept
    assert status == 3
    assert read_start_time(child.identity.pid) is None
    child.stdout.close()
    child.stderr.close()


async def test_a_child_that_is_released_early_is_reaped_when_it_ends() -> None:
    child = spawn(("/bin/sleep", "600"), "/", {}, has_stdin=False)

    status = child.release()
    child.signal_group(signal.SIGKILL)
    await child.exited.wait()

    assert status is None
    assert read_start_time(child.identity.pid) is None
    child.stdout.close()
    child.stderr.close()


async def test_without_pidfds_a_thread_waits_for_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = spawn(("/bin/sh", "-c", "exit 3"), "/", {}, has_stdin=False)

    async with asyncio.timeout(20):
        await child.exited.wait()

    assert child.release() == 3
    child.stdout.close()
    child.stderr.close()


async def test_a_child_that_cannot_be_watched_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def refuse(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)

    with pytest.raises(OSError, match="Too many open files"):
        spawn(("/bin/sleep", "600"), "/", {}, has_stdin=True)

    assert read_start_time(started[0]) is None


async def test_a_child_leads_a_session_and_a_group_of_its_own() -> None:
    child = spawn(("/bin/sleep", "600"), "/", {}, has_stdin=False)

    pid = child.identity.pid
    leads = os.getsid(pid) == os.getpgid(pid) == pid
    child.signal_group(signal.SIGKILL)
    await child.exited.wait()
    child.release()

    assert leads
    assert not is_alive(child.identity)
    child.stdout.close()
    child.stderr.close()
