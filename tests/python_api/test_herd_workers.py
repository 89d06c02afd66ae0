"""One herd in several processes, as a web server starts its workers: on a file one works and the others stand by, on
PostgreSQL each is a node. The functions count their own starts.
"""

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from herdbeat import Herd
from herdbeat.errors import UsageError
from herdbeat.store.location import PostgresLocation

PROGRAM = textwrap.dedent(
    """
    import asyncio, os, signal, sys
    from herdbeat import Herd, RunContext

    state_dir, store, starts = sys.argv[1:4]
    herd = Herd(state_dir, store=store or None, standby=not store, stop_timeout=5)

    @herd.every("1s", fixed_rate=True)
    async def tick(run: RunContext):
        with open(starts, "a") as file:
            file.write(f"{run.beat} {os.getpid()}\\n")

    async def main():
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with herd:  # the lifespan of a web application
            await stop.wait()

    asyncio.run(main())
    """
)


class Workers:
    """Processes that run the same program, and the starts that its function has counted."""

    def __init__(self, folder: Path, store: str, count: int) -> None:
        self.starts_file = folder / "starts"
        self.starts_file.touch()
        arguments = [sys.executable, "-c", PROGRAM, str(folder / "state"), store, str(self.starts_file)]
        self.processes = [subprocess.Popen(arguments) for _ in range(count)]

    @property
    def starts(self) -> list[tuple[str, int]]:
        lines = (line.split() for line in self.starts_file.read_text(encoding="utf-8").splitlines())
        return [(beat, int(pid)) for beat, pid in lines]

    @property
    def pids(self) -> set[int]:
        return {pid for _, pid in self.starts}

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < deadline, self.starts
            time.sleep(0.05)

    def wait_for_starts(self, more: int) -> None:
        before = len(self.starts)
        self.wait_until(lambda: len(self.starts) >= before + more)

    def kill(self, pid: int) -> None:
        process = next(each for each in self.processes if each.pid == pid)
        process.kill()
        process.wait()


@contextmanager
def open_workers(folder: Path, store: str, count: int) -> Iterator[Workers]:
    workers = Workers(folder, store, count)
    try:
        yield workers
        running = [each for each in workers.processes if each.poll() is None]
        for each in running:
            each.send_signal(signal.SIGTERM)
        assert [each.wait(timeout=60) for each in running] == [0] * len(running)
    finally:
        for each in workers.processes:
            each.kill()
            each.wait()


def herd_of_the_program(state_dir: Path, store: str | None = None) -> Herd:
    herd = Herd(state_dir, store=store)
    herd.every("1s", name="tick", fixed_rate=True)(lambda: None)
    return herd


def test_of_several_workers_on_a_file_one_runs_and_another_takes_over(tmp_path: Path) -> None:
    with open_workers(tmp_path, "", 3) as workers:
        workers.wait_for_starts(2)
        (leader,) = workers.pids
        result = asyncio.run(herd_of_the_program(tmp_path / "state").trigger("tick", wait=True, queue=True))

        workers.kill(leader)
        workers.wait_until(lambda: len(workers.pids) > 1)
        workers.wait_for_starts(2)

        assert result.success
        assert len(workers.pids) == 2
    assert max(Counter(beat for beat, _ in workers.starts).values()) == 1
    recorded = herd_of_the_program(tmp_path / "state").runs("tick", most=1000)
    assert len(recorded) - len(workers.starts) in (0, 1)  # the killed one may have been recorded and not begun


def test_every_worker_on_postgresql_is_a_node_and_no_instant_starts_twice(
    tmp_path: Path, database: PostgresLocation
) -> None:
    with open_workers(tmp_path, database.url, 3) as workers:
        workers.wait_for_starts(3)
        result = asyncio.run(
            herd_of_the_program(tmp_path / "state", database.url).trigger("tick", wait=True, queue=True)
        )
        workers.kill(workers.starts[-1][1])
        workers.wait_for_starts(3)

        assert result.success
    assert max(Counter(beat for beat, _ in workers.starts).values()) == 1
    herd = herd_of_the_program(tmp_path / "state", database.url)
    assert len(herd.runs("tick", most=1000)) - len(workers.starts) in (0, 1)


async def test_a_herd_on_postgresql_runs_and_answers_as_on_a_file(tmp_path: Path, database: PostgresLocation) -> None:
    herd = Herd(tmp_path / "state", store=database.url)
    calls: list[str] = []

    @herd.every("5m", first_run="after_interval")
    def poll() -> None:
        print("polled")
        calls.append("poll")

    async with herd:
        result = await herd.trigger("poll", wait=True)
        await herd.pause("poll", reason="migration")
        refused = await herd.trigger("poll")
        await herd.resume("poll")
        await herd.hint("poll", every="1m", lasts="10m", reason="the queue grows")
        next_run, text = herd.next("poll"), herd.explain("poll").text

    assert (result.success, refused.skip_reason, calls) == (True, "paused", ["poll"])
    assert next_run is not None
    assert "hint" in text
    assert [run.status for run in herd.runs("poll")] == ["succeeded"]
    assert [beat.outcome for beat in herd.beats("poll")][-1] == "ran"
    assert not (tmp_path / "state" / "herdbeat.db").exists()


def test_a_store_that_is_no_database_is_refused() -> None:
    with pytest.raises(UsageError, match="PostgreSQL database"):
        Herd(store="sqlite:herdbeat.db")
