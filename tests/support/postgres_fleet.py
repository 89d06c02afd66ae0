"""A fleet on PostgreSQL with several nodes, each a real process with a folder of its own, and the oracle for it."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
from tests.support.fault_fleet import LEASE, RECORDED_TARGETS_YAML, RECORDER_MODULE, ROOT, WAIT_TIMEOUT_S, wait_until
from tests.support.oracle import (
    CronExpectation,
    all_runs,
    check_cron,
    check_interval,
    check_reasons,
    check_runs,
    check_starts,
)
from tests.support.warm_start import WarmProcess

from herdbeat.config.loader import load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import RunStatus
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.location import PostgresLocation, open_reader
from herdbeat.store.postgres.store import PostgresStore
from herdbeat.store.reader import Reader
from herdbeat.timestamps import from_micros

EXPIRED_NODES_QUERY = "SELECT id FROM node WHERE stopped_at = lease_until"
"""Nodes that another one has declared dead. A node that stops by itself writes its own time."""

FLEET_TEMPLATE = f"""\
version: 1
fleet: {{{{ name: several }}}}
timezone: UTC
store: "{{store}}"
lease: {{lease}}
{RECORDED_TARGETS_YAML}"""

HERD_TEMPLATE = """\
callables:
  - name: herd
    instances: {{ max_concurrent: 200 }}
    call: "recorder:note"
    schedules:
{schedules}"""
RECORDING_TARGETS = ("ticker", "pacer", "herd")
"""Targets that record their starts outside of herdbeat."""


def make_herd_yaml(number: int, seconds: range = range(1, 4)) -> str:
    """Return that many additional callable schedules, which record their starts like the others: load without programs.

    Their intervals are these `seconds`, in turn.
    """
    paces = islice(cycle(seconds), number)
    lines = [f"      s{each}: {{ type: interval, interval: {pace}s }}\n" for each, pace in enumerate(paces)]
    return HERD_TEMPLATE.format(schedules="".join(lines))


RUNS_QUERY = """
SELECT target.name || '/' || schedule.name || ':' || dedup_id || ' ' || run.attempt, run.status, target.name
  FROM run JOIN beat ON beat.id = beat_id
  JOIN schedule ON schedule.id = run.schedule_id JOIN target ON target.id = schedule.target_id"""


@dataclass(slots=True)
class PostgresFleet:
    """Nodes are identified by their number; each has its own state directory and its own clock file."""

    folder: Path
    place: PostgresLocation
    more: str = ""
    nodes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    crons: tuple[str, ...] = ("ticker",)
    """Targets that are due every second."""

    lease: timedelta = LEASE

    @classmethod
    def create(
        cls,
        folder: Path,
        place: PostgresLocation,
        more: str = "",
        *,
        crons: Iterable[str] = (),
        lease: timedelta = LEASE,
    ) -> "PostgresFleet":
        fleet = cls(folder, place, more, crons=("ticker", *crons), lease=lease)
        fleet.arrange()
        return fleet

    def arrange(self) -> None:
        store = PostgresStore(self.place, lease=self.lease)
        store.open()
        try:
            store.write_now(lambda tx: apply_fleet(tx, self._read(0), datetime.now(UTC)))
        finally:
            store.close()

    def prepare(self, number: int, url: str = "") -> Path:
        """Create the folder of a node, with its fleet file."""
        home = self._home(number)
        home.mkdir(exist_ok=True)
        text = FLEET_TEMPLATE.format(
            store=url or self.place.url,
            starts=self.folder / "starts",
            more=self.more,
            lease=f"{self.lease.seconds}s",
        )
        (home / "herdbeat.yaml").write_text(text, encoding="utf-8")
        (home / "recorder.py").write_text(RECORDER_MODULE.format(starts=self.folder / "starts"), encoding="utf-8")
        return home

    def start(
        self, number: int, *, url: str = "", crash_at: str = "", code: Path = ROOT, wrapper: Sequence[str] = ()
    ) -> None:
        """Start a node; return once it is ready, or has ended before. `url` is its own URL of the database, if it has
        one, `code` the checkout that it runs from, and `wrapper` a command that starts the command after it.
        """
        node = self.begin(number, url=url, crash_at=crash_at, code=code, wrapper=wrapper)
        assert node.stdout is not None
        node.stdout.readline()

    def start_all(self, *numbers: int, url: str = "", code: Path = ROOT) -> None:
        """Start several nodes at the same time."""
        for node in [self.begin(number, url=url, code=code) for number in numbers]:
            assert node.stdout is not None
            node.stdout.readline()

    def begin(
        self, number: int, *, url: str = "", crash_at: str = "", code: Path = ROOT, wrapper: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a node without waiting for it."""
        self.prepare(number, url)
        environ = os.environ | {"HERDBEAT_CRASH_AT": crash_at} if crash_at else dict(os.environ)
        module, home = "tests.faults.node_process", str(self._home(number))
        node: subprocess.Popen[bytes]
        with (self._home(number) / "log").open("ab") as log:
            if code == ROOT and not wrapper:
                node = WarmProcess(module, home, stderr=log, env=environ)
            else:
                environ["PYTHONPATH"] = str(code / "src")
                command = [*wrapper, sys.executable, "-m", module, home]
                node = subprocess.Popen(command, cwd=code, env=environ, stdout=subprocess.PIPE, stderr=log)
        self.nodes[number] = node
        return node

    def kill(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def stop_all(self) -> None:
        for number in self.nodes:
            self.send(number, signal.SIGTERM)
        for number in list(self.nodes):
            self.stop(number)

    def is_alive(self, number: int) -> bool:
        return self.nodes[number].poll() is None

    def send(self, number: int, what: signal.Signals) -> None:
        self.nodes[number].send_signal(what)

    def end(self) -> None:
        """End all processes that a test has left running."""
        for number in list(self.nodes):
            self.send(number, signal.SIGCONT)
            self.kill(number)

    def _end(self, number: int, how: signal.Signals) -> None:
        node = self.nodes.pop(number)
        node.send_signal(how)
        node.wait(WAIT_TIMEOUT_S)
        assert node.stdout is not None
        node.stdout.close()

    def set_clock(self, number: int, seconds: float) -> None:
        self._home(number).mkdir(exist_ok=True)
        (self._home(number) / "clock").write_text(str(seconds), encoding="utf-8")

    def log(self, number: int) -> str:
        return (self._home(number) / "log").read_text(encoding="utf-8")

    def wait_for_all_starts(self, number: int) -> None:
        """Wait until the targets have seen that many starts since the beginning: the fleet is working."""
        self.wait_until(lambda: len(self.starts()) >= number, "the fleet never gets to work")

    def wait_for_starts(self, more: int) -> None:
        """Wait until the targets have seen that many more starts: the events themselves, not a time."""
        wanted = len(self.starts()) + more
        self.wait_until(lambda: len(self.starts()) >= wanted, "the fleet starts nothing any more")

    def wait_for_log_text(self, number: int, word: str, more: int = 1) -> None:
        """Wait until the node has written the text to its log, that many times more."""
        wanted = self.log(number).count(word) + more
        self.wait_until(lambda: self.log(number).count(word) >= wanted, f"node {number} never says {word!r}")

    def wait_for_row(self, question: str) -> None:
        """Wait until the query returns a row."""
        self.wait_until(lambda: bool(self.ask(question)), f"no answer to {question}")

    def wait_until(self, is_so: Callable[[], bool], else_: str) -> None:
        wait_until(is_so, lambda: f"{else_}: {self._all_logs()}")

    def starts(self) -> list[str]:
        path = self.folder / "starts"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.place.url, autocommit=True) as connection:
            return connection.execute(question.encode()).fetchall()

    def check_against_oracle(self) -> None:
        """After the last stop, check that no instant is missing, recorded twice or unsettled."""
        doubled = [start for start, count in Counter(self.starts()).items() if count > 1]
        assert not doubled, f"the target saw {doubled[:3]} more than once"
        reader = open_reader(self.place)
        try:
            self._check(reader)
        finally:
            reader.close()

    def _check(self, reader: Reader) -> None:
        for target in self.crons:
            created, settled = self._marks(target)
            check_cron(reader, CronExpectation(target, "* * * * * *", created, settled))
        check_interval(reader, "pacer", timedelta(seconds=1))
        check_runs(reader)
        for target in (*self.crons, "pacer"):
            check_reasons(reader, target)
            check_starts(reader, target, self.starts())
        runs = all_runs(reader)
        stuck = [run for run in runs if run.status is RunStatus.RUNNING]
        assert not stuck, f"still running: {stuck}"
        early = [run for run in runs if run.claimed_at < run.due_at]
        assert not early, f"before its time: {early[:3]}"
        self._compare_with_the_target()
        assert self.ask("SELECT name, running FROM target WHERE running <> 0") == []
        forgotten = "SELECT id FROM schedule WHERE wake_at IS NULL AND running = 0 AND waiting = 0"
        assert self.ask(forgotten) == [], "schedules that nothing will ever wake"

    def _compare_with_the_target(self) -> None:
        """Check that every start the target saw is in the ledger, and that every success in the ledger was seen."""
        known = self.ask(RUNS_QUERY)
        seen = set(self.starts())
        unknown = seen - {key for key, _, _ in known}
        assert not unknown, f"the ledger knows nothing of {sorted(unknown)[:3]}"
        succeeded = [(key, target) for key, status, target in known if status == RunStatus.SUCCEEDED]
        unseen = {key for key, target in succeeded if target in RECORDING_TARGETS} - seen
        assert not unseen, f"the target never saw {sorted(unseen)[:3]}"

    def longest_wait(self) -> timedelta:
        """Return the longest time between the due instant of a beat that ran and its claim, while there was a node."""
        ((micros,),) = self.ask(
            "SELECT max(claimed_at - due_at) FROM run JOIN beat ON beat.id = beat_id"
            " WHERE due_at > (SELECT min(started_at) FROM node)"
        )
        return timedelta(microseconds=micros)

    def longest_recovery(self) -> timedelta:
        """Return the longest time between the claim of a run whose node died and its interruption."""
        ((micros,),) = self.ask("SELECT max(finished_at - claimed_at) FROM run WHERE status = 'interrupted'")
        return timedelta(microseconds=micros or 0)

    def _marks(self, target: str) -> tuple[datetime, datetime]:
        ((created, settled),) = self.ask(
            "SELECT schedule.created_at, settled_until FROM schedule JOIN target ON target.id = target_id"
            f" WHERE target.name = '{target}'"
        )
        return from_micros(created), from_micros(settled)

    def _read(self, number: int) -> Fleet:
        path = self.prepare(number) / "herdbeat.yaml"
        return load_fleet(path, environ=os.environ, system_zone=ZoneInfo("UTC"))

    def _home(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def _all_logs(self) -> str:
        return "\n".join(f"{number}: {self.log(number)[-2000:]}" for number in self.nodes)
