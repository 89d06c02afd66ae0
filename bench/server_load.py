"""What listeners and readers of the server cost the beats: `python -m bench.server_load [SCHEDULES] [READERS]`.

A real fleet on SQLite with many idle schedules and a few that run every second. The lateness of those is read from the
ledger: alone, then beside readers of events, one of which stops reading, and 100 lists a second, in turns. The first
bytes of lists and stats are measured under that load. Readers connect before a turn begins. The p99 is that of all
turns together: of one turn it would be the worst beat but two.
"""

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench.load.lateness import insert_far_schedules
from bench.load.other_machine import running_clients
from bench.load.running_node import open_store
from herdbeat.domain.target import CreatedVia

PORT = 4598
SECONDS = 15
LISTS_PER_SECOND = 100
TICKERS = 20
ROUNDS = 7
CONNECTING = 50
"""Readers that connect at the same time."""
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


@dataclass(frozen=True, slots=True)
class EventReader:
    """A stream of events that somebody holds open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls) -> "EventReader":
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
        await reader.readuntil(b"event: ready")
        return cls(reader, writer)

    async def read_all(self) -> None:
        while await self.reader.read(65_536):
            pass


async def connect_readers(count: int) -> list[EventReader]:
    found: list[EventReader] = []
    while len(found) < count:
        found += await asyncio.gather(*(EventReader.connect() for _ in range(min(CONNECTING, count - len(found)))))
    return found


async def ask_for_lists(lists: list[float], stats: list[float]) -> None:
    """Send requests at their times, whether the ones before were answered or not."""

    async def ask(path: str, into: list[float]) -> None:
        into.append(await request(path))

    async with asyncio.TaskGroup() as tasks:
        began = time.perf_counter()
        for number in range(SECONDS * LISTS_PER_SECOND):
            await asyncio.sleep(max(0.0, began + number / LISTS_PER_SECOND - time.perf_counter()))
            tasks.create_task(ask("/api/v1/schedules?limit=50", lists))
            if number % LISTS_PER_SECOND == 0:
                tasks.create_task(ask("/api/v1/schedules/tick0/default/stats", stats))


async def load_server(connection: Connection, readers: int) -> None:
    """Say when all readers are connected, and then the first bytes of lists and of stats, in ms."""
    lists: list[float] = []
    stats: list[float] = []
    connected = await connect_readers(readers)
    with socket.create_connection(("127.0.0.1", PORT)) as deaf:
        deaf.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
        connection.send("ready")
        reading = [asyncio.create_task(each.read_all()) for each in connected]
        await ask_for_lists(lists, stats)
    connection.send([[each * 1000 for each in values] for values in (lists, stats)])
    for task, each in zip(reading, connected, strict=True):
        task.cancel()
        each.writer.close()


def run_clients(connection: Connection, readers: int) -> None:
    asyncio.run(load_server(connection, readers))


def read_lateness(ledger: Path, first: int, last: int) -> list[float]:
    """Return the milliseconds from due to start of the runs between these two."""
    with sqlite3.connect(ledger) as connection:
        rows = connection.execute(
            "SELECT run.started_at - beat.due_at FROM run JOIN beat ON beat.id = run.beat_id "
            "WHERE run.id > ? AND run.id <= ?",
            (first, last),
        ).fetchall()
    return [late / 1000 for (late,) in rows if late is not None]


def newest_run(ledger: Path) -> int:
    with sqlite3.connect(ledger) as connection:
        (number,) = connection.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()
    return int(number)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The lateness alone and under load, one after the other, and the first bytes under load, in ms."""

    alone: list[float]
    loaded: list[float]
    lists: list[float]
    stats: list[float]


def measure(ledger: Path, readers: int) -> Round:
    began_alone = newest_run(ledger)
    time.sleep(SECONDS)
    ended_alone = newest_run(ledger)
    with running_clients(run_clients, readers) as clients:
        assert clients.recv() == "ready"
        began_loaded = newest_run(ledger)
        lists, stats = clients.recv()
        ended_loaded = newest_run(ledger)
    return Round(
        alone=read_lateness(ledger, began_alone, ended_alone),
        loaded=read_lateness(ledger, began_loaded, ended_loaded),
        lists=lists,
        stats=stats,
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
        before, after = (percentile(values, 0.99) for values in (each.alone, each.loaded))
        print(f"lateness p99 of a round: {before:.1f} ms alone, {after:.1f} ms beside them")
    alone, loaded, lists, stats = (
        [value for each in rounds for value in getattr(each, name)] for name in ("alone", "loaded", "lists", "stats")
    )
    series = {"lateness alone": alone, "lateness beside them": loaded, "list": lists, "stats": stats}
    for what, values in series.items():
        middle, slow = percentile(values, 0.5), percentile(values, 0.99)
        print(f"{what}: p50 {middle:.1f} ms, p99 {slow:.1f} ms, longest {max(values):.1f} ms, {len(values):,} measured")
    results = (
        ("ratio of the lateness, p99", percentile(loaded, 0.99) / percentile(alone, 0.99), MAX_RATIO),
        ("first byte of a list, median", percentile(lists, 0.5), MAX_LIST_MS),
        ("first byte of stats, median", percentile(stats, 0.5), MAX_STATS_MS),
    )
    for what, value, most in results:
        print(f"{what}: {value:.2f}, at most {most:g}: {'met' if value <= most else 'MISSED'}")
    sys.exit(any(value > most for _, value, most in results))


if __name__ == "__main__":
    main()
