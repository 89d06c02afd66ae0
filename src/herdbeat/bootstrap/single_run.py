"""One run of one schedule, from its claim to its recorded end, without a scheduler."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from herdbeat import __version__
from herdbeat.bootstrap.config import LEDGER_FILE_NAME
from herdbeat.config.files import read_environment
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.trigger import create_event_id
from herdbeat.runners.base import Runner
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.timers import Timer
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Reader, SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRun:
    """How the run ended. Without an outcome nothing was started, and `skip_reason` says why."""

    outcome: Outcome | None = None
    run_id: int = 0
    seconds: float = 0.0
    skip_reason: SkipReason | None = None


async def run_single(
    fleet: Fleet,
    schedule_id: str,
    *,
    state_dir: Path,
    timer: Timer,
    origin: str,
    local_functions: LocalFunctions,
    wrap_runner: Callable[[Runner], Runner],
    serves_work_sources: bool,
) -> SingleRun:
    """Apply the fleet as a part, and run `target/schedule` once. Its next run is decided if this one was due.

    The runner that `wrap_runner` returns takes the work items, if it `serves_work_sources`.
    Raises Conflict while a scheduler runs in the state directory.
    """
    event_id = create_event_id()
    async with _open_session(state_dir, timer) as session:
        await session.store.write(lambda tx: apply_fleet(tx, fleet, timer.now(), origin, is_whole=False))
        number = find_schedule(session.reader, schedule_id).id
        claimed = await session.store.write(
            lambda tx: claim_single(tx, timer.now(), session.node_id, number, origin=origin, event_id=event_id)
        )
        if not claimed.claims:
            return SingleRun(skip_reason=claimed.skip_reason)
        settings = RunnerSettings(
            state_dir=state_dir,
            environ=os.environ,
            local_functions=local_functions,
            variables=read_environment(fleet.home, os.environ),
        )
        async with open_runners(settings, timer) as runners:
            runner = wrap_runner(runners)
            execute = RunExecutor(SpecCache(session.reader), runner, timer, serves_work_sources=serves_work_sources)
            results = [await session.record(claim, execute) for claim in claimed.claims]
        return results[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A state directory that is ours for one run."""

    store: SqliteStore
    reader: Reader
    timer: Timer
    node_id: int

    async def record(self, claim: Claim, execute: RunExecutor) -> SingleRun:
        try:
            finished = await execute(claim)
        except asyncio.CancelledError:
            cut_off = FinishedRun(claim.run_id, None, Outcome(status=RunStatus.INTERRUPTED))
            self.store.write_now(lambda tx: complete_runs(tx, self.timer.now(), [cut_off]))
            raise
        now = self.timer.now()
        await self.store.write(lambda tx: complete_runs(tx, now, [finished]))
        seconds = (now - finished.started_at).total_seconds() if finished.started_at else 0.0
        return SingleRun(outcome=finished.outcome, run_id=claim.run_id, seconds=seconds)


@asynccontextmanager
async def _open_session(state_dir: Path, timer: Timer) -> AsyncIterator[_Session]:
    node_info = NodeInfo(host=platform.node(), pid=os.getpid(), version=__version__)
    with StateLock(state_dir), closing(SqliteStore(state_dir / LEDGER_FILE_NAME)) as store:
        store.open()
        joined = await store.write(lambda tx: register_node(tx, timer.now(), node_info))
        try:
            with closing(SqliteReader(store.path)) as reader:
                yield _Session(store=store, reader=reader, timer=timer, node_id=joined.node_id)
        finally:
            store.write_now(lambda tx: tx.leave_node(joined.node_id, timer.now()))
