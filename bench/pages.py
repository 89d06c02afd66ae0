"""The dashboard over a large ledger: the first byte of every page, and what open pages cost the scheduler.

`python -m bench pages` fills a ledger with 10,000 schedules and 1,000,000 beats, starts a real fleet on it, and asks
for every page over HTTP. Then it compares the lateness of 100 beats a second alone and beside 100 open pages, which
follow the events, in turns. Percentiles come from the ledger, and are those of all turns together.
"""

import asyncio
import http.client
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from bench.load.other_machine import running_clients
from bench.load.run_monitor import Percentiles
from bench.subprocesses import fresh_folder
from bench.timing import Result, format_table
from herdbeat.domain.ids import format_short_id

SCHEDULES = 10_000
BEATS = 1_000_000
TICKS = 100
"""Schedules that run every second, in the process of the fleet: the load whose lateness is measured."""

OPEN_PAGES = 100
SECONDS = 20
ROUNDS = 5
MAX_FIRST_BYTE_S = 0.2
MAX_P99_RATIO = 1.25
PORT = 4598

PAGES = (
    "/",
    "/schedules",
    "/schedules?q=target-77",
    "/schedules?q=tag:t3",
    "/schedules?q=-tag:t3",
    "/schedules?q=state:failing",
    "/schedules?q=state:ok",
    "/schedules?sort=failures",
    "/schedules?sort=cost&group=tag",
    "/schedules?sort=pace",
    "/schedules/target-42/default",
    "/runs",
    "/runs?q=nothing+has+this",
    "/runs?status=failed",
    "/runs?schedule=target-42",
    "/runs/RUN",
    "/timeline",
    "/timeline?range=24h",
    "/timeline?range=7d",
    "/timeline?range=24h&q=tag:t3",
    "/system",
)

# A week of history: each schedule has a hundred beats; one in fifty failed, was skipped or was missed.
_HISTORY = f"""
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < {BEATS})
INSERT INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, outcome, reason, source, trace,
                  created_at, settled_at)
SELECT n + 1, schedule.id, schedule.target_id, 'bench:' || n, :since + n * :step, :since + n * :step,
       CASE WHEN n % 150 = 7 THEN 'skipped' WHEN n % 150 = 57 THEN 'missed' ELSE 'ran' END,
       CASE WHEN n % 150 = 7 THEN 'already_running' WHEN n % 150 = 57 THEN 'scheduler_down' ELSE '' END,
       'baseline-interval', schedule.next_trace, :since + n * :step, :since + n * :step
  FROM number JOIN schedule ON schedule.id = 1 + (n * 7919) % {SCHEDULES};
INSERT INTO run (beat_id, schedule_id, status, node_id, claimed_at, started_at, finished_at, code, error)
SELECT id, schedule_id, CASE WHEN id % 150 = 107 THEN 'failed' ELSE 'succeeded' END, 1, due_at, due_at + 2000,
       due_at + 40000, CASE WHEN id % 150 = 107 THEN 1 ELSE 0 END,
       CASE WHEN id % 150 = 107 THEN 'exit status 1: the disk is full' END
  FROM beat WHERE outcome = 'ran' ORDER BY id;
UPDATE schedule SET is_new = 0, wake_at = :now + 3600000000 + id * 7000000,
       next_run_at = :now + 3600000000 + id * 7000000, next_due_at = :now + 3600000000 + id * 7000000,
       last_run_at = :now - id * 50000000, last_status = 'succeeded',
       failures = CASE WHEN id % 500 = 3 THEN 2 ELSE 0 END,
       last_error = CASE WHEN id % 500 = 3 THEN 'exit status 1: the disk is full' END
 WHERE id <= {SCHEDULES - TICKS};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFleetProcess:
    folder: Path
    process: "subprocess.Popen[str]"

    @property
    def ledger(self) -> Path:
        return self.folder / ".herdbeat" / "herdbeat.db"

    def cpu_seconds(self) -> float:
        """Return what the scheduler's process has used; the server is another process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run() -> list[Result]:
    with fresh_folder() as folder:
        print(f"filling a ledger with {SCHEDULES:,} schedules and {BEATS:,} beats", flush=True)
        fill(folder)
        with serve(folder) as fleet:
            pages = measure_pages(fleet)
            alone, burdened = measure_open_pages(fleet)
    print(
        format_table([("first byte in ms", "median"), *((path, f"{took * 1e3:.0f}") for path, took in pages.items())])
    )
    rows: list[tuple[str, ...]] = [("lateness in ms", "p50", "p99", "longest", "starts", "CPU of the scheduler")]
    rows += [(word, *each.cells()) for word, each in (("alone", alone), ("100 open pages", burdened))]
    print(format_table(rows))
    slowest = max(pages, key=lambda path: pages[path])
    ratio = burdened.percentiles.p99 / alone.percentiles.p99
    return [
        Result(
            what=f"first byte of every page, {BEATS:,} beats",
            measured=f"{pages[slowest] * 1e3:.0f} ms ({slowest})",
            goal=f"at most {MAX_FIRST_BYTE_S * 1e3:.0f} ms",
            is_met=pages[slowest] <= MAX_FIRST_BYTE_S,
        ),
        Result(
            what=f"lateness beside {OPEN_PAGES} open pages",
            measured=f"p99 x {ratio:.2f}",
            goal=f"at most x {MAX_P99_RATIO:g}",
            is_met=ratio <= MAX_P99_RATIO,
        ),
    ]


def fill(folder: Path) -> None:
    """Write a fleet of many schedules, apply it, and give it a history."""
    lines = ["version: 1", "fleet: { name: bench }", "timezone: UTC", "commands:"]
    lines += [
        f'  - {{ name: target-{number}, command: ["true"], every: {1 + number % 6}d, tags: [t{number % 40}] }}'
        for number in range(SCHEDULES - TICKS)
    ]
    lines += ["callables:"]
    lines += [f'  - {{ name: tick-{number}, call: "herdbeat.demo.jobs:tidy", every: 1s }}' for number in range(TICKS)]
    (folder / "herdbeat.yaml").write_text("\n".join(lines), encoding="utf-8")
    apply = [sys.executable, "-m", "herdbeat", "apply", "--yes", "--quiet"]
    subprocess.run(apply, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    now = int(datetime.now(UTC).timestamp() * 1e6)
    week = 7 * 86_400 * 1_000_000
    with closing(sqlite3.connect(folder / ".herdbeat" / "herdbeat.db")) as ledger:
        for statement in _HISTORY.split(";\n"):
            if statement.strip():
                names = {"since": now - week, "step": week // BEATS, "now": now}
                ledger.execute(statement, {name: value for name, value in names.items() if f":{name}" in statement})
        ledger.commit()
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def serve(folder: Path) -> Iterator[ServedFleetProcess]:
    argv = [sys.executable, "-m", "herdbeat", "up", "--json", "--port", str(PORT)]
    with (folder / "up.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log, text=True)
        try:
            while '"server_ready"' not in (folder / "up.log").read_text(encoding="utf-8"):
                assert process.poll() is None, (folder / "up.log").read_text(encoding="utf-8")[-2_000:]
                asyncio.run(asyncio.sleep(0.5))
            yield ServedFleetProcess(folder=folder, process=process)
        finally:
            process.terminate()
            process.wait(60)


def measure_pages(fleet: ServedFleetProcess) -> dict[str, float]:
    """Return the median time to the first byte of every page, each on a connection of its own."""
    with closing(sqlite3.connect(f"file:{fleet.ledger}?mode=ro", uri=True)) as ledger:
        (run,) = ledger.execute("SELECT max(id) FROM run").fetchone()
    pages = {}
    for page in PAGES:
        path = page.replace("RUN", format_short_id(run))
        fetch(path)
        pages[page] = median(fetch(path) for _ in range(ROUNDS))
    return pages


def fetch(path: str) -> float:
    """Return the seconds until the first byte of the answer. Raises RuntimeError if it is not the page."""
    with closing(http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)) as connection:
        began = perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        took = perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        answer.read()
    return took


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLoad:
    """How late each beat started, and the share of a core that the scheduler used."""

    late: list[timedelta]
    cpu_share: float

    @classmethod
    def join(cls, turns: "Sequence[PageLoad]") -> "PageLoad":
        late = [each for turn in turns for each in turn.late]
        return cls(late=late, cpu_share=sum(turn.cpu_share for turn in turns) / len(turns))

    @property
    def percentiles(self) -> Percentiles:
        return Percentiles.from_times(self.late)

    def cells(self) -> tuple[str, ...]:
        late = self.percentiles
        return f"{late.p50:.2f}", f"{late.p99:.2f}", f"{late.longest:.2f}", f"{late.count:,}", f"{self.cpu_share:.0%}"


def measure_open_pages(fleet: ServedFleetProcess) -> tuple[PageLoad, PageLoad]:
    """Measure in turns: other processes share the machine."""
    alone: list[PageLoad] = []
    burdened: list[PageLoad] = []
    for _ in range(ROUNDS):
        print(f"{TICKS} beats a second for {SECONDS} s, alone and beside {OPEN_PAGES} open pages", flush=True)
        alone.append(_measure_load(fleet))
        with running_clients(hold_pages, OPEN_PAGES) as clients:
            assert clients.recv() == "ready"
            burdened.append(_measure_load(fleet))
            clients.send("stop")
    return PageLoad.join(alone), PageLoad.join(burdened)


def _measure_load(fleet: ServedFleetProcess) -> PageLoad:
    since, cpu = int(datetime.now(UTC).timestamp() * 1e6), fleet.cpu_seconds()
    sleep(SECONDS)
    share = (fleet.cpu_seconds() - cpu) / SECONDS
    with closing(sqlite3.connect(f"file:{fleet.ledger}?mode=ro", uri=True)) as ledger:
        rows = ledger.execute(
            "SELECT beat.due_at, run.started_at FROM run JOIN beat ON beat.id = run.beat_id"
            " WHERE run.id > (SELECT max(id) FROM run) - 20000 AND beat.due_at > ? AND run.started_at IS NOT NULL",
            (since,),
        ).fetchall()
    return PageLoad(late=[timedelta(microseconds=started - due) for due, started in rows], cpu_share=share)


def hold_pages(connection: Connection, number: int) -> None:
    asyncio.run(_hold_pages(connection, number))


async def _hold_pages(connection: Connection, number: int) -> None:
    """Hold the streams of open pages, as their scripts do; a page in front fetches itself, others do not."""
    streams = [await _connect() for _ in range(number)]
    reading = [asyncio.create_task(_read_all(reader)) for reader, _ in streams]
    connection.send("ready")
    await asyncio.to_thread(connection.recv)
    ended = [task for task in reading if task.done()]
    for task, (_, writer) in zip(reading, streams, strict=True):
        task.cancel()
        writer.close()
    assert not ended, f"{len(ended)} streams ended"


async def _connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
    await reader.readuntil(b"event: ready")
    return reader, writer


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass
