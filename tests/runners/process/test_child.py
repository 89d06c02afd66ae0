"""A child is awaited and reaped, with or without a pidfd."""

import asyncio
import errno
import os
import signal
from typing import IO

import pytest

from herdbeat.platform import MARK_BASE
from herdbeat.runners.process import child as child_module
from herdbeat.runners.process.child import CHUNK_BYTES, MIN_CHUNK_BYTES, PipeReader, spawn
from herdbeat.runners.process.process_tree import is_alive, read_start_time


async def test_an_ended_child_keeps_its_pid_until_it_is_released() -> None:
    child = spawn(("/bin/sh", "-c", "exit 3"), "/", {}, has_stdin=False, mark=MARK_BASE)
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
    child = spawn(("/bin/sleep", "600"), "/", {}, has_stdin=False, mark=MARK_BASE)

    status = child.release()
    child.signal_group(signal.SIGKILL)
    await child.exited.wait()

    assert status is None
    assert read_start_time(child.identity.pid) is None
    child.stdout.close()
    child.stderr.close()


async def test_without_pidfds_a_thread_waits_for_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = spawn(("/bin/sh", "-c", "exit 3"), "/", {}, has_stdin=False, mark=MARK_BASE)

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
        spawn(("/bin/sleep", "600"), "/", {}, has_stdin=True, mark=MARK_BASE)

    assert read_start_time(started[0]) is None


async def test_a_child_leads_a_session_and_a_group_of_its_own() -> None:
    child = spawn(("/bin/sleep", "600"), "/", {}, has_stdin=False, mark=MARK_BASE)

    pid = child.identity.pid
    leads = os.getsid(pid) == os.getpgid(pid) == pid
    child.signal_group(signal.SIGKILL)
    await child.exited.wait()
    child.release()

    assert leads
    assert not is_alive(child.identity)
    child.stdout.close()
    child.stderr.close()


def open_pipe() -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


async def write_all(pipe: IO[bytes], data: bytes) -> None:
    def write() -> None:
        with pipe:
            pipe.write(data)

    await asyncio.to_thread(write)


async def test_output_that_takes_long_to_digest_is_read_in_small_pieces_with_rests_and_completely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_module, "MAX_CHUNK_S", -1.0)  # every chunk takes too long
    monkeypatch.setattr(child_module, "UNHURRIED_S", -1.0)
    monkeypatch.setattr(child_module, "REST_PER_WORK", 0)
    reading, writing = open_pipe()
    chunks: list[bytes] = []
    reader = PipeReader(reading, chunks.append)
    data = bytes(range(256)) * 2_000

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write_all(writing, data))
        await reader.eof.wait()

    assert b"".join(chunks) == data
    assert {len(each) for each in chunks[20:-1]} == {MIN_CHUNK_BYTES}


async def test_a_reader_that_rests_is_woken_by_hurry_and_reads_the_rest_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_module, "MAX_CHUNK_S", -1.0)
    monkeypatch.setattr(child_module, "UNHURRIED_S", -1.0)
    monkeypatch.setattr(child_module, "REST_PER_WORK", 10**9)  # it would rest for ever
    reading, writing = open_pipe()
    chunks: list[bytes] = []
    reader = PipeReader(reading, chunks.append)
    writing.write(b"x" * 60_000)
    writing.close()
    async with asyncio.timeout(10):
        while not chunks:  # noqa: ASYNC110 -- the loop reads
            await asyncio.sleep(0)
    first = len(chunks)

    reader.hurry()
    async with asyncio.timeout(10):
        await reader.eof.wait()

    assert first == 1
    assert sum(map(len, chunks)) == 60_000
    assert max(map(len, chunks)) <= CHUNK_BYTES
