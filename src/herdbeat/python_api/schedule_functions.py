"""`run_schedule`: one run of one schedule, from its prompt to its recorded end, without a scheduler."""

import asyncio
import logging
import os
import platform
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from herdbeat import __version__
from herdbeat.clock import Clock, SystemClock
from herdbeat.control_socket.client import NotRunning, send_request
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.errors import Conflict, NotFound, ScheduleTriggerError, StoreUnavailable, UsageError
from herdbeat.python_api.herdctl_types import (
    PersistedScheduleState,
    SchedulerTriggerCallback,
    ScheduleRunnerLogger,
    ScheduleRunResult,
    ScheduleStanding,
    ScheduleStatus,
    WorkSourceManager,
)
from herdbeat.python_api.options import (
    DEFAULT_STATE_DIR,
    LEDGER_FILE_NAME,
    PROGRAM_ACTOR,
    build_fleet,
    get_current_actor,
)
from herdbeat.python_api.work_source import WorkSourceRunner, build_run_result, callback_runner
from herdbeat.runners.base import Runner
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.scheduler.complete import complete_runs
from herdbeat.scheduler.execute import RunExecutor
from herdbeat.scheduler.manual import SingleClaim, claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.scheduler.timers import SystemTimer, Timer
from herdbeat.service.commands.base import DisableSchedules, EnableSchedules, ScheduleCommand, command_to_json
from herdbeat.service.commands.schedules import execute_offline
from herdbeat.service.queries.schedule_state import documented_status
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.store.base import FinishedRun
from herdbeat.store.reader import Filter, Reader, SqliteReader
from herdbeat.store.spec_cache import SpecCache
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock


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


# The documented state functions: what a state directory keeps of a schedule, whether a scheduler runs there or not.
#
# They are coroutines, as documented: a scheduler in the same event loop must be able to answer while one waits.


log = logging.getLogger(__name__)

MAX_SCHEDULES = 100_000
RETRY_INTERVAL_S = 0.05
LOCK_TIMEOUT_S = 5.0


async def get_schedule_state(state_dir: str | Path, agent: str, schedule: str) -> PersistedScheduleState:
    """How a schedule stands. One that nobody has heard of is idle, has never run and has no next run."""
    return (await get_agent_schedule_states(state_dir, agent)).get(schedule, PersistedScheduleState())


async def get_agent_schedule_states(state_dir: str | Path, agent: str) -> dict[str, PersistedScheduleState]:
    """All schedules of an agent, by name. Empty if nothing has run there yet."""
    return await asyncio.to_thread(_read_states, Path(state_dir), agent)


async def update_schedule_state(
    state_dir: str | Path,
    agent: str,
    schedule: str,
    *,
    status: ScheduleStanding | str,
    by: str | None = None,
    reason: str = "",
    clock: Clock | None = None,
) -> None:
    """Disable a schedule ("disabled") or enable it again ("idle"); what it remembers stays.

    "running" is ignored with a warning: a schedule runs when it has a run, and the ledger knows that better. When it
    last ran and runs next is the ledger's to say, too. Raises NotFound for a schedule that is not there.
    """
    requested_status = _parse_status(status)
    if requested_status is ScheduleStanding.RUNNING:
        log.warning("status ignored schedule=%s/%s status=running a schedule runs when it has a run", agent, schedule)
        return
    kind = DisableSchedules if requested_status is ScheduleStanding.DISABLED else EnableSchedules
    command = kind(who=by or get_current_actor(), reason=reason)
    await execute_command(Path(state_dir), f"{agent}/{schedule}", command, (clock or SystemClock()).now())


def iter_statuses(reader: Reader, agent: str | None = None) -> Iterator[ScheduleStatus]:
    """Every schedule of the ledger, or those of one agent, in the documented words."""
    for record in reader.schedules(Filter(target=agent, limit=MAX_SCHEDULES)):
        state = build_persisted_state(record)
        yield ScheduleStatus(
            agent=record.target,
            schedule=record.name,
            status=state.status,
            last_run_at=state.last_run_at,
            next_run_at=state.next_run_at,
            last_error=state.last_error,
        )


def build_persisted_state(record: ScheduleRecord) -> PersistedScheduleState:
    return PersistedScheduleState(
        status=ScheduleStanding(documented_status(record)),
        last_run_at=record.last_run_at,
        next_run_at=record.next_run_at,
        last_error=record.quarantine or record.last_error,
    )


@contextmanager
def open_ledger_reader(state_dir: Path) -> Iterator[SqliteReader]:
    """The ledger of a state directory. Raises NotFound where there is none yet, StoreUnavailable for a damaged one."""
    path = state_dir / LEDGER_FILE_NAME
    if not path.exists():
        raise NotFound(f"Nothing has run in {state_dir} yet.", hint="Start a scheduler there first.")
    reader = SqliteReader(path)
    try:
        yield reader
    except sqlite3.DatabaseError as error:
        # Not taken for an empty one: who is told "idle, never ran" would start everything again.
        raise StoreUnavailable(f"{path}: {error}", hint="Keep the file, and restore a backup.") from error
    finally:
        reader.close()


async def execute_command(state_dir: Path, label: str, command: ScheduleCommand, now: datetime) -> dict[str, object]:
    """What became of one schedule. Raises NotFound for one that is not there, Conflict with the reason if refused."""
    item = await asyncio.to_thread(_dispatch_command, state_dir, label, command, now)
    if item["refused"]:
        raise Conflict(f"{label}: {item['refused']}.", hint=str(item["hint"]))
    return item


def _dispatch_command(state_dir: Path, label: str, command: ScheduleCommand, now: datetime) -> dict[str, object]:
    """Through the socket of whoever runs there; else into the ledger, under its lock."""
    with open_ledger_reader(state_dir) as reader:
        ids = [find_schedule(reader, label).id]
    request = {"do": "change", "act": command_to_json(command), "schedules": ids}
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        with suppress(NotRunning):
            answered: list[dict[str, object]] = send_request(state_dir, request)["items"]
            return answered[0]
        try:
            return execute_offline(state_dir / LEDGER_FILE_NAME, now, command, ids)[0]
        except Conflict:
            # Somebody came between the question and the lock: a scheduler, which answers next time, or one like us.
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_INTERVAL_S)


def _read_states(state_dir: Path, agent: str) -> dict[str, PersistedScheduleState]:
    try:
        with open_ledger_reader(state_dir) as reader:
            return {
                each.name: build_persisted_state(each)
                for each in reader.schedules(Filter(target=agent, limit=MAX_SCHEDULES))
            }
    except NotFound:
        return {}


def _parse_status(status: ScheduleStanding | str) -> ScheduleStanding:
    try:
        return ScheduleStanding(status)
    except ValueError:
        raise UsageError(f'status cannot be "{status}".', hint="Write idle or disabled.") from None
