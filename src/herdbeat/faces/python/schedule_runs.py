"""`run_schedule`: one run of one schedule, from its prompt to its recorded end, without a scheduler."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from herdbeat import __version__
from herdbeat.domain.claim import Claim
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import ScheduleTriggerError
from herdbeat.faces.python.agents import DEFAULT_STATE_DIR, LEDGER_FILE_NAME, build_fleet
from herdbeat.faces.python.documented import (
    SchedulerTriggerCallback,
    ScheduleRunnerLogger,
    ScheduleRunResult,
    WorkSourceManager,
)
from herdbeat.faces.python.triggering import callback_runner
from herdbeat.faces.python.who import PROGRAM_ACTOR
from herdbeat.faces.python.working import WorkSourceRunner, build_run_result
from herdbeat.runners.base import Runner
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.kinds import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.arrange import apply_fleet
from herdbeat.scheduler.finish import complete_runs
from herdbeat.scheduler.life import NodeInfo, register_node
from herdbeat.scheduler.perform import RunExecutor
from herdbeat.scheduler.single import SingleClaim, claim_single
from herdbeat.scheduler.timer import SystemTimer, Timer
from herdbeat.service.questions import find_schedule
from herdbeat.store.base import FinishedRun
from herdbeat.store.lock import StateLock
from herdbeat.store.reader import Reader, SqliteReader
from herdbeat.store.shelf import SpecCache
from herdbeat.store.sqlite import SqliteStore


async def run_schedule(
    *,
    agent: Target | Mapping[str, Any],
    schedule_name: str,
    schedule: Schedule | Mapping[str, Any] | None = None,
    state_dir: str | Path = DEFAULT_STATE_DIR,
    job_executor: SchedulerTriggerCallback | None = None,
    work_source_manager: WorkSourceManager | None = None,
    logger: ScheduleRunnerLogger | None = None,
    timer: Timer | None = None,
) -> ScheduleRunResult:
    """Run it now, write down how it ended, and decide its next run if this was the one that was due.

    `job_executor` does the work, as `on_trigger` does; without it the target's own runner. With a `work_source` in
    the schedule, an item comes from the `work_source_manager`, or there is no run. Raises Conflict while a scheduler
    runs in the state directory: trigger it there.
    """
    state_path = Path(state_dir)
    fleet = build_fleet(_combine_definition(agent, schedule_name, schedule), state_path)
    found = next((each for each in fleet.schedules if each.name == schedule_name), None)
    if found is None:
        name = fleet.targets[0].name
        raise ScheduleTriggerError(f'The agent "{name}" has no schedule "{schedule_name}".', name, schedule_name)
    async with _open_session(state_path, timer or SystemTimer()) as session:
        await session.store.write(lambda tx: apply_fleet(tx, fleet, session.timer.now(), PROGRAM_ACTOR, is_whole=False))
        result = await session.run(found, job_executor, work_source_manager)
    if logger is not None:
        line = f"{found.id}: {result.skip_reason or result.error or 'done'}"
        (logger.info if result.success else logger.error)(line)
    return result


def _combine_definition(
    agent: Target | Mapping[str, Any], name: str, schedule: Schedule | Mapping[str, Any] | None
) -> list[Any]:
    if schedule is None:
        return [agent]
    if isinstance(schedule, Schedule):
        agent_only = {**agent, "schedules": None} if isinstance(agent, Mapping) else agent
        return [agent_only, schedule]
    if isinstance(agent, Mapping):
        return [{**agent, "schedules": {name: schedule}}]
    raise ScheduleTriggerError(
        "A Target needs a Schedule beside it, not a mapping.", agent.name, name, hint="Hand both over in one form."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SingleRunSession:
    """A state directory that is ours for one run."""

    store: SqliteStore
    reader: Reader
    timer: Timer
    node_id: int

    async def run(
        self, schedule: Schedule, executor: SchedulerTriggerCallback | None, source: WorkSourceManager | None
    ) -> ScheduleRunResult:
        number = find_schedule(self.reader, schedule.id).id
        claimed = await self.store.write(lambda tx: self._claim(tx, number))
        if not claimed.claims:
            return ScheduleRunResult(success=False, skipped=True, skip_reason=claimed.skip_reason)
        override = None if executor is None else callback_runner(executor, lambda _: schedule)
        settings = RunnerSettings(
            state_dir=self.store.path.parent, environ=os.environ, local_functions=LocalFunctions(override=override)
        )
        async with open_runners(settings, self.timer) as runners:
            runner: Runner = runners
            if source is not None and schedule.work_source is not None:
                runner = WorkSourceRunner(schedule, source, runners)
            results = [await self._execute(claim, runner) for claim in claimed.claims]
        return results[-1]

    def _claim(self, tx: Any, schedule_id: int) -> SingleClaim:
        now = self.timer.now()
        return claim_single(tx, now, self.node_id, schedule_id, origin=PROGRAM_ACTOR, event_id=uuid4().hex)

    async def _execute(self, claim: Claim, runner: Runner) -> ScheduleRunResult:
        perform = RunExecutor(SpecCache(self.reader), runner, self.timer)
        try:
            finished = await perform(claim)
        except asyncio.CancelledError:
            cut_off = FinishedRun(claim.run_id, None, Outcome(status=RunStatus.INTERRUPTED))
            self.store.write_now(lambda tx: complete_runs(tx, self.timer.now(), [cut_off]))
            raise
        now = self.timer.now()
        await self.store.write(lambda tx: complete_runs(tx, now, [finished]))
        seconds = (now - finished.started_at).total_seconds() if finished.started_at else 0.0
        item = runner.item if isinstance(runner, WorkSourceRunner) else None
        return build_run_result(finished.outcome, item=item, job_id=format_short_id(claim.run_id), seconds=seconds)


@asynccontextmanager
async def _open_session(state_dir: Path, timer: Timer) -> AsyncIterator[_SingleRunSession]:
    identity = NodeInfo(host=platform.node(), pid=os.getpid(), version=__version__)
    with StateLock(state_dir):
        store = SqliteStore(state_dir / LEDGER_FILE_NAME)
        store.open()
        try:
            joined = await store.write(lambda tx: register_node(tx, timer.now(), identity))
            reader = SqliteReader(store.path)
            try:
                yield _SingleRunSession(store=store, reader=reader, timer=timer, node_id=joined.node_id)
            finally:
                reader.close()
                store.write_now(lambda tx: tx.leave_node(joined.node_id, timer.now()))
        finally:
            store.close()
