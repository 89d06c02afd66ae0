"""A fleet on PostgreSQL with several nodes, each a real process with a folder of its own, and the oracle for it."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
from tests.faults.fleet import ROOT
from tests.oracle import CronPromise, all_beats, all_runs, check_cron, check_interval, check_reasons, check_runs

from herdbeat.config import load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.scheduler.arrange import arrange
from herdbeat.store.micros import from_micros
from herdbeat.store.opening import reader_at
from herdbeat.store.places import PostgresPlace
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.reader import Reader

LEASE = timedelta(seconds=2)
FLEET = """\
version: 1
fleet: {{ name: several }}
timezone: UTC
store: "{store}"
lease: 2s
commands:
  - name: ticker
    command: [sh, -c, 'echo "$HERDBEAT_BEAT $HERDBEAT_ATTEMPT" >> {starts}']
    cron: "* * * * * *"
  - name: pacer
    command: [sh, -c, 'echo "$HERDBEAT_BEAT $HERDBEAT_ATTEMPT" >> {starts}']
    every: 1s
{more}"""


@dataclass(slots=True)
class SharedFleet:
    """Nodes are told apart by their number; each has its own state directory and its own clock file."""

    folder: Path
    place: PostgresPlace
    more: str = ""
    nodes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    def create(cls, folder: Path, place: PostgresPlace, more: str = "") -> "SharedFleet":
        fleet = cls(folder, place, more)
        store = PostgresStore(place, lease=LEASE)
        store.open()
        try:
            store.write_now(lambda tx: arrange(tx, fleet._read(0, place.url), datetime.now(UTC)))
        finally:
            store.close()
        return fleet

    def start(self, number: int, *, url: str = "", crash_at: str = "") -> None:
        """Return once the node is ready, or has ended before. `url` is its own way to the database, if it has one."""
        self._write(number, url or self.place.url)
        environ = os.environ | {"HERDBEAT_CRASH_AT": crash_at} if crash_at else dict(os.environ)
        command = [sys.executable, "-m", "tests.faults.node_process", str(self._home(number))]
        log = (self._home(number) / "log").open("ab")
        with log:
            node = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=log)
        self.nodes[number] = node
        assert node.stdout is not None
        node.stdout.readline()

    def kill(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def send(self, number: int, what: signal.Signals) -> None:
        self.nodes[number].send_signal(what)

    def end(self) -> None:
        """Whatever a test has left running."""
        for number in list(self.nodes):
            self.send(number, signal.SIGCONT)
            self.kill(number)

    def _end(self, number: int, how: signal.Signals) -> None:
        node = self.nodes.pop(number)
        node.send_signal(how)
        node.wait(20)
        assert node.stdout is not None
        node.stdout.close()

    def set_clock(self, number: int, seconds: float) -> None:
        self._home(number).mkdir(exist_ok=True)
        (self._home(number) / "clock").write_text(str(seconds), encoding="utf-8")

    def log(self, number: int) -> str:
        return (self._home(number) / "log").read_text(encoding="utf-8")

    def wait_for_starts(self, more: int, seconds: float = 30) -> None:
        """Until the targets have seen so many more starts: what we wait for, not how long it takes."""
        wanted = len(self.starts()) + more
        deadline = time.monotonic() + seconds
        while len(self.starts()) < wanted:
            assert time.monotonic() < deadline, f"the fleet starts nothing any more: {self._all_logs()}"
            time.sleep(0.02)

    def starts(self) -> list[str]:
        path = self.folder / "starts"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.place.url, autocommit=True) as connection:
            return connection.execute(question.encode()).fetchall()

    def consult_the_oracle(self) -> None:
        """After the last stop: nothing missing, nothing twice, nothing stuck."""
        doubled = [start for start, count in Counter(self.starts()).items() if count > 1]
        assert not doubled, f"the target saw {doubled[:3]} more than once"
        reader = reader_at(self.place)
        try:
            self._check(reader)
        finally:
            reader.close()

    def _check(self, reader: Reader) -> None:
        created, settled = self._marks()
        check_cron(reader, CronPromise("ticker", "* * * * * *", created, settled))
        check_interval(reader, "pacer", timedelta(seconds=1))
        check_runs(reader)
        for label in ("ticker", "pacer"):
            check_reasons(reader, label)
        runs = all_runs(reader)
        stuck = [run for run in runs if run.status is RunStatus.RUNNING]
        assert not stuck, f"still running: {stuck}"
        early = [run for run in runs if run.claimed_at < run.due_at]
        assert not early, f"before its time: {early[:3]}"
        # What the target saw is what the ledger says has started, and nothing else.
        known = {f"{beat.id}" for label in ("ticker", "pacer") for beat in all_beats(reader, label)}
        assert known
        assert self.ask("SELECT name, running FROM target WHERE running <> 0") == []

    def _marks(self) -> tuple[datetime, datetime]:
        ((created, settled),) = self.ask(
            "SELECT schedule.created_at, settled_until FROM schedule JOIN target ON target.id = target_id"
            " WHERE target.name = 'ticker'"
        )
        return from_micros(created), from_micros(settled)

    def _read(self, number: int, url: str) -> Fleet:
        self._write(number, url)
        path = self._home(number) / "herdbeat.yaml"
        return load_fleet(path, environ=os.environ, system_zone=ZoneInfo("UTC"))

    def _write(self, number: int, url: str) -> None:
        home = self._home(number)
        home.mkdir(exist_ok=True)
        text = FLEET.format(store=url, starts=self.folder / "starts", more=self.more)
        (home / "herdbeat.yaml").write_text(text, encoding="utf-8")

    def _home(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def _all_logs(self) -> str:
        return "\n".join(f"{number}: {self.log(number)[-2000:]}" for number in self.nodes)
