"""A fleet whose target records every start outside of herdbeat, and the node process that serves it."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

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

from herdbeat.domain.run import RunStatus
from herdbeat.store.reader import SqliteReader
from herdbeat.timestamps import from_micros

ROOT = Path(__file__).parents[2]
RECORDED_TARGETS_YAML = """\
commands:
  - name: ticker
    command: [sh, -c, 'echo "$HERDBEAT_BEAT $HERDBEAT_ATTEMPT" >> {starts}']
    cron: "* * * * * *"
  - name: pacer
    command: [sh, -c, 'echo "$HERDBEAT_BEAT $HERDBEAT_ATTEMPT" >> {starts}']
    every: 1s
{more}"""
"""Two commands, a cron and an interval schedule, that record every start."""

RECORDER_MODULE = """\
import asyncio
from zlib import crc32

async def note(run):
    with open("{starts}", "ab", buffering=0) as file:
        file.write(f"{{run.beat}} {{run.attempt}}\\n".encode())

async def work(run):
    await note(run)
    await asyncio.sleep(crc32(run.beat.encode()) % 4 * 0.6)
"""
"""Functions that record every start: `note` returns at once, `work` takes up to two of a cron's seconds."""

POLICIES = {
    f"{overlap}-{catchup}": {"overlap": overlap, "catchup": catchup, "room": 1 if catchup == "once" else 10}
    for overlap in ("skip", "queue", "queue_all", "cancel", "allow")
    for catchup in ("skip", "once", "all")
}
"""Every overlap policy with every catch-up policy, some of them on a target with room for one run."""

_POLICY_YAML = """\
  - name: {name}
    call: "recorder:work"
    instances: {{ max_concurrent: {room} }}
    cron: "* * * * * *"
    overlap: {overlap}
    catchup: {catchup}
    catchup_max: 3
"""


def make_policies_yaml() -> str:
    """Return a function for each of POLICIES, due every second."""
    return "callables:\n" + "".join(_POLICY_YAML.format(name=name, **each) for name, each in POLICIES.items())


LEASE = timedelta(seconds=2)
LONG = timedelta(seconds=60)
"""What nothing may take, however busy the machine is: at a load of 20, three nodes needed 15 seconds for a rescue."""

WAIT_TIMEOUT_S = 60.0
"""Seconds until a test gives up waiting. Not a guarantee of the scheduler: a busy machine is slow."""

FLEET_TEMPLATE = f"""\
version: 1
fleet: {{{{ name: faults }}}}
timezone: UTC
lease: {{lease}}
{RECORDED_TARGETS_YAML}"""


def wait_until(condition: Callable[[], bool], explain: Callable[[], str]) -> None:
    """Wait until the condition holds; `explain` provides the message if it never does."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)


@dataclass(slots=True)
class FaultFleet:
    """A folder with a fleet, and one node after the other that serves it."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    crons: tuple[str, ...] = ("ticker",)
    """Targets that are due every second."""

    @classmethod
    def create(
        cls, folder: Path, more: str = "", *, crons: Iterable[str] = (), lease: timedelta = LEASE
    ) -> "FaultFleet":
        text = FLEET_TEMPLATE.format(starts=folder / "starts", more=more, lease=f"{lease.seconds}s")
        (folder / "herdbeat.yaml").write_text(text, encoding="utf-8")
        (folder / "recorder.py").write_text(RECORDER_MODULE.format(starts=folder / "starts"), encoding="utf-8")
        return cls(folder, crons=("ticker", *crons))

    def start(self, crash_at: str = "") -> None:
        """Start a node; return once it is ready, or has ended before."""
        environ = os.environ | {"HERDBEAT_CRASH_AT": crash_at} if crash_at else dict(os.environ)
        with (self.folder / "log").open("ab") as log:
            self.process = WarmProcess("tests.faults.node_process", str(self.folder), stderr=log, env=environ)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def wait_for_end(self) -> int:
        assert self.process is not None
        try:
            return self.process.wait(WAIT_TIMEOUT_S)
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.wait_for_end()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.wait_for_end()

    def set_clock(self, seconds: float) -> None:
        """Set the node's clock to the real time plus an offset, in one step."""
        draft = self.folder / "clock.new"
        draft.write_text(str(seconds), encoding="utf-8")
        draft.replace(self.folder / "clock")

    def wait_for_starts(self, more: int) -> None:
        """Wait until the target has seen `more` further starts: the events themselves, not a time."""
        wanted = len(self.starts()) + more
        wait_until(lambda: len(self.starts()) >= wanted, lambda: "the fleet starts nothing any more")

    def wait_for_log_text(self, word: str) -> None:
        """Wait until the node has written the text to its log."""
        wait_until(lambda: word in self.log(), lambda: f"the node never says {word!r}: {self.log()}")

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def starts(self) -> list[str]:
        path = self.folder / "starts"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def check_against_oracle(self) -> None:
        """After the last stop, check that no instant is missing, recorded twice or unsettled."""
        doubled = [start for start, count in Counter(self.starts()).items() if count > 1]
        assert not doubled, f"the target saw {doubled[:3]} more than once"
        reader = SqliteReader(self.folder / ".herdbeat" / "herdbeat.db")
        try:
            marks = {target: self._marks(reader, target) for target in self.crons}
            for target, (created, settled) in marks.items():
                check_cron(reader, CronExpectation(target, "* * * * * *", created, settled))
            check_interval(reader, "pacer", timedelta(seconds=1))
            check_runs(reader)
            for target in (*self.crons, "pacer"):
                check_reasons(reader, target)
                check_starts(reader, target, self.starts())
            stuck = [run for run in all_runs(reader) if run.status is RunStatus.RUNNING]
            assert not stuck, f"still running: {stuck}"
            last = reader.last_node()
            assert last is not None
            assert last.stopped_at is not None
            until = min(settled for _, settled in marks.values())
            # What came due after the last turn of the loop is accounted for by the next start. On a machine with twenty
            # programs at once, such a turn has taken four seconds.
            assert last.stopped_at - until < timedelta(seconds=30), "the time before the stop is not accounted for"
        finally:
            reader.close()

    def check_nothing_missed(self) -> None:
        """Check that the ledger has no gap: the node lived all the time."""
        reader = SqliteReader(self.folder / ".herdbeat" / "herdbeat.db")
        try:
            gaps = reader._connection.execute("SELECT from_at, until, reason FROM gap").fetchall()
            missed = reader._connection.execute(
                "SELECT reason, sum(count) FROM beat WHERE outcome = 'missed' GROUP BY 1"
            )
            assert (gaps, missed.fetchall()) == ([], [])
        finally:
            reader.close()

    def _marks(self, reader: SqliteReader, target: str) -> tuple[datetime, datetime]:
        row = reader._connection.execute(
            "SELECT schedule.created_at, settled_until FROM schedule JOIN target ON target.id = target_id"
            " WHERE target.name = ?",
            (target,),
        ).fetchone()
        return from_micros(row[0]), from_micros(row[1])
