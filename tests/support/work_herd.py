"""The real scheduler on a fake clock, with a work source that remembers all that was done to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, Target
from herdbeat.domain.work_claim import WorkClaimRecord
from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.runners.base import Job
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.rules import RuleEvaluator
from herdbeat.scheduler.work import WorkFetcher
from herdbeat.scheduler.work_settle import NodeWork, WorkSettler
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.testing import FakeClock
from herdbeat.triggers.interval import Interval
from herdbeat.work.base import (
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    WorkClaim,
    WorkClaimResult,
    WorkSourceFailed,
)

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
MINUTES_5 = timedelta(minutes=5)
SPEC = {"type": "fake", "attempts": 3}


@dataclass(slots=True)
class FakeSource:
    """A work source in memory. `log` is what the outside world has seen."""

    items: dict[str, WorkItem] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    answers: dict[str, WorkClaimResult] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    release_status: ReleaseStatus = ReleaseStatus.RELEASED
    log: list[tuple[str, str]] = field(default_factory=list)
    reports: list[tuple[str, Report]] = field(default_factory=list)
    marks: bool = True
    offered_at: datetime | None = None

    key = "fake:queue"
    is_local = False

    @property
    def claims_remotely(self) -> bool:
        return self.marks

    def offer(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.items[name] = WorkItem(id=name, **{"title": f"Task {name}", **fields})

    def get(self, spec: object) -> "FakeSource":
        """Every specification means this source."""
        return self

    async def list(self, limit: int = 1_000) -> tuple[WorkItem, ...]:
        self._act("list", "")
        return tuple(item for name, item in self.items.items() if name not in self.held)[:limit]

    async def find_problems(self) -> tuple[str, ...]:
        return ()

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult:
        self._act("claim", item.id)
        if item.id in self.answers:
            return self.answers.pop(item.id)
        if item.id in self.held or item.id not in self.items:
            return WorkClaimResult(status=ClaimStatus.LOST)
        if self.marks:
            self.held[item.id] = run_marker
        return WorkClaimResult(status=ClaimStatus.CLAIMED, item=self.items[item.id], offered_at=self.offered_at)

    async def report(self, claim: WorkClaim, report: Report) -> None:
        self._act("report", claim.item.id)
        self.reports.append((claim.item.id, report))
        if self.held.pop(claim.item.id, None) and not report.offers_again:
            del self.items[claim.item.id]

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        self._act("release", claim.item.id)
        if self.release_status is ReleaseStatus.RELEASED:
            self.held.pop(claim.item.id, None)
        return self.release_status

    async def close(self) -> None: ...

    def _act(self, verb: str, item: str) -> None:
        self.log.append((verb, item))
        if self.failures.get(verb, 0) > 0:
            self.failures[verb] -= 1
            raise WorkSourceFailed(f"It cannot {verb}.", cause=FailureCause.UNAVAILABLE)


@dataclass(slots=True)
class RecordingRunner:
    """Remembers every prompt. `outcomes` are the ends of the next runs, then success; or they wait for `holds`."""

    outcomes: list[Outcome] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    holds: asyncio.Event | None = None
    obstacle: Outcome | None = None
    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_started(self, number: int) -> None:
        """Return once so many runs have begun."""
        while len(self.jobs) < number:
            self._begun.clear()
            await self._begun.wait()

    async def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        self._begun.set()
        if self.holds is not None:
            await self.holds.wait()
        return self.outcomes.pop(0) if self.outcomes else Outcome(status=RunStatus.SUCCEEDED, summary="done")

    async def find_obstacle(self, job: Job) -> Outcome | None:
        return self.obstacle

    async def wait_stopped(self, run_id: int) -> str:
        return ""


@dataclass(slots=True)
class WorkHerd:
    store: SqliteStore
    clock: FakeClock
    loop: Loop
    tasks: asyncio.TaskGroup
    source: FakeSource
    runner: RecordingRunner
    settler: WorkSettler

    async def tick(self, *, settles: bool = True) -> None:
        """Run all that is due, then report and release what is left of it."""
        while (await self.loop.run_cycle(self.tasks)).claims:
            await self.idle()
        await self.idle()
        if settles:
            await self.settler.settle_due()

    async def start_and_hold(self, number: int) -> None:
        """Let so many runs begin, and stay active."""
        self.runner.holds = asyncio.Event()
        await self.loop.run_cycle(self.tasks)
        await self.runner.until_started(number)

    async def let_go(self) -> None:
        assert self.runner.holds is not None
        self.runner.holds.set()
        self.runner.holds = None
        await self.tick()

    async def idle(self) -> None:
        while self.runner.holds is None and (active := [each.task for each in self.loop.active_runs.values()]):
            await asyncio.wait(active)
        await self.loop.completer.wait_drained()

    async def advance(self, by: timedelta) -> None:
        self.clock.advance(by)
        await self.tick()

    def snapshot(self) -> ScheduleSnapshot:
        def load(tx: Transaction) -> ScheduleSnapshot:
            (schedule_id,) = tx.schedule_ids(0, 10)
            return tx.schedules([schedule_id])[schedule_id]

        return self.store.write_now(load)

    def next_run(self) -> datetime | None:
        return self.snapshot().next_run_at

    def outcomes(self) -> list[tuple[str, str]]:
        with closing(SqliteReader(self.store.path)) as reader:
            return [(beat.outcome, beat.reason) for beat in reader.beats(Filter(limit=100))[::-1]]

    def statuses(self) -> list[str]:
        with closing(SqliteReader(self.store.path)) as reader:
            return [run.status for run in reader.runs(Filter(limit=100, include_declined=True))[::-1]]

    def claims(self) -> list[WorkClaimRecord]:
        with closing(SqliteReader(self.store.path)) as reader:
            return [view.claim for view in reader.work_claims()[::-1]]

    def states(self) -> list[tuple[str, str, int]]:
        return [(claim.item, claim.state, claim.attempt) for claim in self.claims()]


def build_fleet(prompt: str, max_concurrent: int, **policies: Any) -> Fleet:
    zone = ZoneInfo("UTC")
    every = Policies(zone=zone, timeout=timedelta(hours=1), catchup=Catchup.ONCE, **policies)
    target = Target(name="worker", spec=CallableSpec(call="m:f"), max_concurrent=max_concurrent)
    schedule = Schedule(
        target="worker",
        name="backlog",
        trigger=Interval(timedelta(minutes=5)),
        policies=every,
        prompt=prompt,
        work_source=SPEC,
    )
    return Fleet(name="work", zone=zone, targets=(target,), schedules=(schedule,), store="", server=ServerSettings())


@asynccontextmanager
async def open_work_herd(
    folder: Path,
    *,
    prompt: str = "Process the next ready issue.",
    max_concurrent: int = 1,
    source: FakeSource | None = None,
    now: datetime = TEN,
    **policies: Any,
) -> AsyncIterator[WorkHerd]:
    """A worker that looks for work every five minutes. Opened again in the same folder, it is the next node."""
    store = SqliteStore(folder / "herdbeat.db", synchronous="OFF")
    store.open()
    clock, known, runner, numbers = FakeClock(now), source or FakeSource(), RecordingRunner(), count(1)
    store.write_now(lambda tx: apply_fleet(tx, build_fleet(prompt, max_concurrent, **policies), now))
    registration = await store.write(lambda tx: register_node(tx, now, NodeInfo(host="here", pid=1, version="test")))
    fetcher = WorkFetcher(store, known, clock, "here", lambda run_id: f"r{run_id}-{next(numbers)}-{clock.now():%H%M%S}")
    settler = WorkSettler(store, known, clock, "here")
    try:
        async with asyncio.TaskGroup() as tasks:
            with closing(SqliteReader(store.path)) as reader:
                executor = RunExecutor(
                    SpecCache(reader), runner, clock, find_obstacle=runner.find_obstacle, work=fetcher
                )
                judge = RuleEvaluator(reader, clock)
                parts = NodeParts(store, clock, executor, evaluate_rules=judge, work=NodeWork(fetcher, settler))
                loop = Loop(parts, NodeSettings(node_id=registration.node_id, gaps=registration.gaps))
                fetcher.attach(loop)
                recording = tasks.create_task(loop.completer.run(), name="recorder")
                try:
                    yield WorkHerd(store, clock, loop, tasks, known, runner, settler)
                finally:
                    recording.cancel()
                    for active in loop.active_runs.values():
                        active.task.cancel()
    finally:
        store.close()
