"""What listeners and readers of the server cost the beats: `python -m bench.server_load [SCHEDULES] [READERS]`.

A real fleet on SQLite with many idle schedules and a few that run every second. The lateness of those is read from the
ledger: first alone, then beside readers of events, one of which stops reading, and 100 lists a second, in turns. The
first bytes of lists and stats are measured under that load.
"""

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load.lateness import insert_far_schedules
from bench.load.running_node import open_store
from herdbeat.domain.target import CreatedVia

PORT = 4598
SECONDS = 15
LISTS_PER_SECOND = 100
TICKERS = 10
ROUNDS = 3
CLIENT_NICENESS = 10
MAX_RATIO = 1.25
MAX_LIST_MS, MAX_STATS_MS = 50.0, 200.0


def write_fleet(folder: Path, schedules: int) -> None:
    """Write a file with what runs, and put what only lies there into the ledger: as a file it would be too large."""
    (folder / ".herdbeat").mkdir(mode=0o700)
    with open_store(folder / ".herdbeat") as store:
        insert_far_schedules(store, schedules)
    with closing(sqlite3.connect(folder / ".herdbeat" / "herdbeat.db")) as ledger:
        for table in ("target", "schedule"):
            ledger.execute(f"UPDATE {table} SET origin = ?", (CreatedVia.API,))
        ledger.commit()
    tickers = [{"name": f"tick{number}", "call": "time:time", "every": "1s"} for number in range(TICKERS)]
    fleet = {"version": 1, "timezone": "UTC", "callables": tickers}
    (folder / "herdbeat.yaml").write_text(json.dumps(fleet), encoding="utf-8")


async def request(path: str) -> float:
    """Return the seconds until the first byte of the answer."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: close\r\n\r\n".encode())
    first = await reader.read(1)
    took = time.perf_counter() - began
    if not first:
        raise RuntimeError(f"no answer: {path}")
    await reader.read()
    writer.close()
    return took


async def listen(stop: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
    while not stop.is_set():
        try:
            async with asyncio.timeout(1):
                if not await reader.read(65_536):
                    break
        except TimeoutError:
            continue
    writer.close()


async def load(readers: int) -> tuple[list[float], list[float]]:
    """Return the first bytes of lists and of stats while everything else goes on."""
    stop = asyncio.Event()
    deaf = socket.create_connection(("127.0.0.1", PORT))
    deaf.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
    lists: list[float] = []
    stats: list[float] = []

    async def ask(path: str, into: list[float]) -> None:
        into.append(await request(path))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(readers):
            tasks.create_task(listen(stop))
        began = time.perf_counter()
        for number in range(SECONDS * LISTS_PER_SECOND):
            await asyncio.sleep(max(0.0, began + number / LISTS_PER_SECOND - time.perf_counter()))
            tasks.create_task(ask("/api/v1/schedules?limit=50", lists))
            if number % LISTS_PER_SECOND == 0:
                tasks.create_task(ask("/api/v1/schedules/tick0/default/stats", stats))
        stop.set()
    deaf.close()
    return lists, stats


def run_clients(readers: int) -> tuple[list[float], list[float]]:
    with ProcessPoolExecutor(1, initializer=os.nice, initargs=(CLIENT_NICENESS,)) as pool:
        return pool.submit(_load_in_process, readers).result()


def _load_in_process(readers: int) -> tuple[list[float], list[float]]:
    return asyncio.run(load(readers))


def read_lateness(ledger: Path, first: int, last: int) -> list[float]:
    """Return the milliseconds from due to start of the runs between these two."""
    with sqlite3.connect(ledger) as connection:
        rows = connection.execute(
            "SELECT run.started_at - beat.due_at FROM run JOIN beat ON beat.id = run.beat_id "
            "WHERE run.id > ? AND run.id <= ?",
            (first, last),
        ).fetchall()
    return sorted(late / 1000 for (late,) in rows if late is not None)


def newest_run(ledger: Path) -> int:
    with sqlite3.connect(ledger) as connection:
        (number,) = connection.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()
    return int(number)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The lateness alone and under load, one after the other, and the first bytes under load; all sorted, in ms."""

    alone: list[float]
    loaded: list[float]
    lists: list[float]
    stats: list[float]

    @property
    def ratio(self) -> float:
        return percentile(self.loaded, 0.99) / max(percentile(self.alone, 0.99), 0.1)


def measure(ledger: Path, readers: int) -> Round:
    """Measure one round. The clients are on other machines in real life; here they yield to the fleet."""
    began_alone = newest_run(ledger)
    time.sleep(SECONDS)
    began_loaded = newest_run(ledger)
    lists, stats = run_clients(readers)
    return Round(
        alone=read_lateness(ledger, began_alone, began_loaded),
        loaded=read_lateness(ledger, began_loaded, newest_run(ledger)),
        lists=sorted(each * 1000 for each in lists),
        stats=sorted(each * 1000 for each in stats),
    )


@contextmanager
def running_fleet(folder: Path) -> Iterator[None]:
    argv = [sys.executable, "-m", "herdbeat", "up", "--json", "--port", str(PORT)]
    # Into a file: a pipe that nobody reads is full after a while, and then the fleet waits for it.
    output = folder / "up.log"
    with output.open("w") as out, subprocess.Popen(argv, cwd=folder, stdout=out) as process:
        try:
            while '"server_ready"' not in output.read_text():
                if process.poll() is not None:
                    raise RuntimeError(output.read_text())
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def main() -> None:
    schedules, readers = (int(word) for word in (*sys.argv[1:], "100000", "1000")[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_fleet(folder, schedules)
        with running_fleet(folder):
            rounds = [measure(folder / ".herdbeat" / "herdbeat.db", readers) for _ in range(ROUNDS)]
    print(f"{schedules} schedules, {readers} readers, {LISTS_PER_SECOND} lists a second; {ROUNDS} rounds")
    for each in rounds:
        before, after = percentile(each.alone, 0.99), percentile(each.loaded, 0.99)
        print(f"lateness p99: {before:.1f} ms alone, {after:.1f} ms beside them, ratio {each.ratio:.2f}")
        for what, values in (("a list", each.lists), ("stats", each.stats)):
            middle, slowest = (percentile(values, share) for share in (0.5, 0.99))
            print(f"  first byte of {what}: p50 {middle:.0f} ms, p99 {slowest:.0f} ms")
    results = (
        ("ratio of the lateness", sorted(each.ratio for each in rounds), MAX_RATIO),
        ("first byte of a list", sorted(percentile(each.lists, 0.5) for each in rounds), MAX_LIST_MS),
        ("first byte of stats", sorted(percentile(each.stats, 0.5) for each in rounds), MAX_STATS_MS),
    )
    for what, values, most in results:
        middle = values[len(values) // 2]
        print(f"{what}: median of the rounds {middle:.2f}, at most {most:g}: {'met' if middle <= most else 'MISSED'}")
    sys.exit(any(values[len(values) // 2] > most for _, values, most in results))


if __name__ == "__main__":
    main()
