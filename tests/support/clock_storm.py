"""A fleet whose clock is set back and forth, and a model that knows nothing of herdbeat: seconds, rows and starts.

Every calendar here has one instant each so many seconds, so the model counts by division. Each instant between the
first and the last settled one must be in exactly one row, each row must consist of instants, and the target must have
seen exactly the starts that the ledger calls `ran`.
"""

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
from tests.support.fault_fleet import FaultFleet
from tests.support.postgres_fleet import PostgresFleet

from herdbeat.store.location import PostgresLocation

SECOND = 1_000_000
PERIODS = {
    "ticker/default": 1,
    "storm/every": 1,
    "storm/slow": 1,
    "storm/allow": 5,
    "storm/once": 3,
    "storm/all": 5,
    "storm/spread": 6,
    "storm/late": 4,
    "storm/queued": 1,
    "storm/replaced": 2,
}
"""Seconds between two instants of each calendar."""

STORM_YAML = """\
callables:
  - name: storm
    instances: { max_concurrent: 200 }
    call: "storm_recorder:note"
    schedules:
      every: { cron: "* * * * * *" }
      slow: { cron: "* * * * * *", prompt: slow }
      allow: { cron: "*/5 * * * * *", overlap: allow, catchup_max: 10000 }
      once: { cron: "*/3 * * * * *", catchup: once }
      all: { cron: "*/5 * * * * *", catchup: all, catchup_max: 20 }
      spread: { cron: "*/6 * * * * *", jitter: 2s }
      late: { cron: "*/4 * * * * *", max_late: 3s }
      queued: { cron: "* * * * * *", overlap: queue, prompt: slow }
      replaced: { cron: "*/2 * * * * *", overlap: cancel, prompt: slow }
      paced: { every: 1s }
"""
RECORDER_MODULE = """\
import asyncio

async def note(run):
    with open("{starts}", "ab", buffering=0) as file:
        file.write(f"{{run.beat}} {{run.attempt}}\\n".encode())
    if run.prompt == "slow":
        await asyncio.sleep(2.5)
"""

ROWS_QUERY = """
SELECT target.name || '/' || schedule.name, beat.dedup_id, beat.due_at, beat.last_due_at, beat.count, beat.outcome,
       (SELECT count(*) FROM run WHERE run.beat_id = beat.id),
       (SELECT count(*) FROM run WHERE run.beat_id = beat.id AND run.status = 'interrupted')
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id"""

MARKS_QUERY = """
SELECT target.name || '/' || schedule.name, schedule.created_at, schedule.settled_until
  FROM schedule JOIN target ON target.id = schedule.target_id WHERE schedule.kind = 'cron'"""


class StormFleet(Protocol):
    def set_clock(self, seconds: float) -> None: ...

    def wait_for_starts(self, more: int) -> None: ...

    def starts(self) -> list[str]: ...

    def ask(self, question: str) -> list[tuple[Any, ...]]: ...


@dataclass(slots=True)
class SqliteStorm:
    """One node on a file, whose own clock is set."""

    fleet: FaultFleet

    @classmethod
    def begin(cls, folder: Path) -> "SqliteStorm":
        (folder / "storm_recorder.py").write_text(RECORDER_MODULE.format(starts=folder / "starts"), encoding="utf-8")
        storm = cls(FaultFleet.create(folder, STORM_YAML))
        storm.fleet.start()
        storm.wait_for_starts(10)
        return storm

    def set_clock(self, seconds: float) -> None:
        self.fleet.set_clock(seconds)

    def wait_for_starts(self, more: int) -> None:
        self.fleet.wait_for_starts(more)

    def starts(self) -> list[str]:
        return self.fleet.starts()

    def stop(self) -> None:
        self.fleet.stop()

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.fleet.folder / ".herdbeat" / "herdbeat.db")) as connection:
            return connection.execute(question).fetchall()


@dataclass(slots=True)
class PostgresStorm:
    """Some nodes on PostgreSQL, where the database's clock is the one that counts."""

    fleet: PostgresFleet

    @classmethod
    def begin(cls, folder: Path, place: PostgresLocation, nodes: int) -> "PostgresStorm":
        storm = cls(PostgresFleet.create(folder, place, STORM_YAML))
        for number in range(1, nodes + 1):
            recorder = storm.fleet.prepare(number) / "storm_recorder.py"
            recorder.write_text(RECORDER_MODULE.format(starts=folder / "starts"), encoding="utf-8")
        storm.fleet.start_all(*range(1, nodes + 1))
        storm.wait_for_starts(10)
        return storm

    def set_clock(self, seconds: float) -> None:
        body = f"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {int(seconds * SECOND)}"
        self._execute(f"CREATE OR REPLACE FUNCTION herdbeat_now() RETURNS bigint LANGUAGE sql VOLATILE AS '{body}'")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.fleet.place.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def wait_for_starts(self, more: int) -> None:
        self.fleet.wait_for_starts(more)

    def starts(self) -> list[str]:
        return self.fleet.starts()

    def stop(self) -> None:
        self.fleet.stop_all()

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        return self.fleet.ask(question)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row of the ledger, in whole microseconds."""

    schedule: str
    dedup_id: str
    due_at: int
    last_due_at: int
    count: int
    outcome: str
    runs: int
    interrupted: int

    def instants(self, period: int) -> list[int]:
        """The seconds that it covers."""
        step = period * SECOND
        first = -(-self.due_at // step)
        return [number * period for number in range(first, self.last_due_at // step + 1)]


def set_clock_at_random(fleet: StormFleet, seed: int, turns: int) -> None:
    """Set the clock back and forward in small and large steps; in the end, to later than it ever was."""
    chance = random.Random(seed)
    offset = latest = 0.0
    for _ in range(turns):
        step = chance.choice((chance.uniform(1, 15), chance.uniform(15, 120), chance.uniform(600, 4_000)))
        offset = chance.choice((offset - step, offset - step, offset + step, 0.0, latest))
        latest = max(latest, offset)
        fleet.set_clock(offset)
        if chance.random() < 0.2:
            time.sleep(chance.uniform(0.1, 1))  # the next step comes before any cycle has noticed this one
        else:
            fleet.wait_for_starts(chance.randrange(2, 30))
    fleet.set_clock(latest + 120)
    fleet.wait_for_starts(40)


def check_storm(fleet: StormFleet) -> None:
    """After the last stop, compare every instant and every start with the model."""
    rows = [StoredRow(*row) for row in fleet.ask(ROWS_QUERY)]
    for schedule, created_at, settled_until in fleet.ask(MARKS_QUERY):
        own = [row for row in rows if row.schedule == schedule]
        _check_instants(schedule, own, PERIODS[schedule], created_at, settled_until)
    _check_starts(rows, fleet.starts())


def _check_instants(schedule: str, rows: list[StoredRow], period: int, created_at: int, settled_until: int) -> None:
    covered: Counter[int] = Counter()
    for row in rows:
        instants = row.instants(period)
        assert len(instants) == row.count, f"{row} covers {len(instants)} instants"
        assert row.outcome in {"ran", "skipped", "missed", "merged", "pending"}, f"{row} is open"
        covered.update(instants)
    doubled = [second for second, number in covered.items() if number > 1]
    assert not doubled, (
        f"{schedule}: {len(doubled)} of {len(covered)} have two outcomes: {list(_rows_of(rows, doubled, period))[:4]}"
    )
    first = min(created_at // SECOND // period * period + period, *covered)
    missing = set(range(first, settled_until // SECOND + 1, period)) - covered.keys()
    assert not missing, f"{schedule}: {len(missing)} of {len(covered)} have no outcome: {sorted(missing)[:5]}"


def _rows_of(rows: Iterable[StoredRow], seconds: list[int], period: int) -> Iterator[StoredRow]:
    return (row for row in rows if not set(seconds[:2]).isdisjoint(row.instants(period)))


def _check_starts(rows: list[StoredRow], starts: list[str]) -> None:
    doubled = [start for start, number in Counter(starts).items() if number > 1]
    assert not doubled, f"the target saw {doubled[:3]} more than once"
    ran = {f"{row.schedule}:{row.dedup_id} 1": row for row in rows if row.outcome == "ran"}
    many = [row for row in ran.values() if row.count != 1 or row.runs != 1]
    assert not many, f"one start is called several: {many[:3]}"
    unknown = set(starts) - ran.keys()
    assert not unknown, f"started, and not called `ran`: {sorted(unknown)[:5]}"
    # A node that loses its lease to a clock set forward interrupts its runs, some of them before they begin.
    unseen = {start for start, row in ran.items() if not row.interrupted} - set(starts)
    assert not unseen, f"called `ran`, and never started: {sorted(unseen)[:5]}"
