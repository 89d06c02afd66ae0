"""`Scheduler`: the documented class, on top of the engine that `herdbeat up` runs.

It lives in one event loop: await `start` there, and it works in the background until `stop`. A plain script puts
both into a coroutine and hands that to `asyncio.run`.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from herdbeat.bootstrap.embedding import LocalFunctions, Timer
from herdbeat.bootstrap.engine import Engine
from herdbeat.bootstrap.handle import open_ledger_reader
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.errors import ScheduleTriggerError
from herdbeat.events import BeatSettled, Event, RunFinished, RunStarted, ScheduleQuarantined
from herdbeat.python_api.client import RUN_START_TIMEOUT_S, trigger_result_from_beat, trigger_result_from_ledger
from herdbeat.python_api.herdctl_types import (
    AgentsInput,
    DurationLike,
    ScheduleCheckResult,
    SchedulerLogger,
    SchedulerState,
    SchedulerStatus,
    SchedulerTriggerCallback,
    TriggerResult,
)
from herdbeat.python_api.options import (
    DEFAULT_STATE_DIR,
    PROGRAM_ACTOR,
    apply_jitter_percent,
    build_fleet,
    parse_duration_option,
    parse_interval_option,
    require_positive,
)
from herdbeat.python_api.schedule_functions import read_statuses
from herdbeat.python_api.work_source import callback_runner
from herdbeat.service.queries.schedule_state import find_blocking_reason
from herdbeat.service.queries.selectors import find_schedule


class Scheduler:
    """Runs agents on their schedules. The ledger is in `state_dir`.

    `on_trigger` is called for every run and does the work; without it, the runners of the targets' kinds do. With a
    `timer` that is moved manually, use a long `lease`: a scheduler without a heartbeat for longer counts as asleep.
    """

    def __init__(
        self,
        state_dir: str | Path = DEFAULT_STATE_DIR,
        check_interval: DurationLike = 1.0,
        on_trigger: SchedulerTriggerCallback | None = None,
        *,
        logger: SchedulerLogger | None = None,
        jitter_percent: float = 0,
        timer: Timer | None = None,
        lease: DurationLike = 30.0,
        max_concurrent: int = 100,
    ) -> None:
        self._state_dir = Path(state_dir)
        self._check_interval = parse_interval_option(check_interval, "check_interval")
        self._lease = parse_interval_option(lease, "lease")
        self._jitter_percent = jitter_percent
        self._on_trigger = on_trigger
        self._logger: SchedulerLogger = logger or logging.getLogger("herdbeat.scheduler")
        self._timer = timer
        self._max_concurrent = require_positive(max_concurrent, "max_concurrent")
        self._engine: Engine | None = None
        self._started_count = 0
        self._is_stopping = False

    async def start(self, agents: AgentsInput) -> None:
        """Start with these agents, and return when the scheduler is running. Does nothing if it already is.

        During a stop it first waits until the scheduler has stopped. Raises ConfigError for invalid agents,
        Conflict if another process runs in the state directory.
        """
        if self._is_stopping and self._engine is not None:
            await self._engine.wait_ended()
        if self.is_running:
            self._logger.warning("The scheduler is already running; use set_agents to change its agents.")
            return
        fleet = self._fleet(agents)
        override = None if self._on_trigger is None else callback_runner(self._on_trigger, self._schedule)
        self._started_count = 0
        self._engine = Engine(
            fleet,
            LocalFunctions(override=override),
            timer=self._timer,
            listener=self._on_event,
            max_concurrent=self._max_concurrent,
        )
        self._is_stopping = False
        await self._engine.start()

    # The documented names. The timeout is for the runs, so a caller's asyncio.timeout() would say something else.
    async def stop(self, wait_for_jobs: bool = True, timeout: DurationLike = 30.0) -> None:  # noqa: ASYNC109
        """Start no new runs, and wait for active ones. Does nothing if the scheduler has already stopped.

        Runs that exceed the timeout are stopped and recorded as interrupted; SchedulerShutdownError has their number.
        With `wait_for_jobs=False` all runs are interrupted immediately, without an error.
        """
        engine, grace = self._engine, parse_duration_option(timeout, "timeout")
        if engine is None or not engine.is_running:
            return
        self._is_stopping = True
        await engine.stop(grace, wait_for_runs=wait_for_jobs)

    def set_agents(self, agents: AgentsInput) -> "asyncio.Task[None]":
        """Replace the agents. Schedules that stay the same keep their times, and active runs continue.

        Await the task to know that the change is written. Raises immediately if the agents are invalid or the scheduler
        is not running.
        """
        engine = self._require_running()
        self._agents_task = asyncio.create_task(engine.set_fleet(self._fleet(agents)), name="set agents")
        return self._agents_task

    async def trigger(self, agent: str, schedule: str | None = None, *, by: str = PROGRAM_ACTOR) -> TriggerResult:
        """Run a schedule now, or the agent's first one; return when it has started, waits to start, or was skipped.

        Skipped if the agent is at capacity and, unless `by` is a person (`human:you`), if it is disabled or paused.
        Its next run does not change. An unknown agent or schedule is an `error` in the result. Raises
        ScheduleTriggerError if the scheduler is not running.
        """
        engine = self._require_running(agent, schedule or "")
        try:
            schedule_id = self._find_schedule(agent, schedule).id
        except ScheduleTriggerError as error:
            return TriggerResult(success=False, error=f"{error.message} {error.hint}".strip())
        beat = await engine.trigger(schedule_id, origin=by)
        result = trigger_result_from_beat(beat)
        if result is None:
            result = await self._wait_started(engine, str(beat.beat))
        elif result.skip_reason is SkipReason.AT_CAPACITY:
            self._log_capacity(schedule_id)
        return result

    def check(self, agent: str, schedule: str) -> ScheduleCheckResult:
        """Return whether a schedule would start now, and if not, which documented reason prevents it."""
        schedule_id = self._find_schedule(agent, schedule).id
        engine = self._require_running(agent, schedule)
        with open_ledger_reader(self._state_dir) as reader:
            reason = find_blocking_reason(find_schedule(reader, schedule_id), engine.timer.now())
        return ScheduleCheckResult(should_trigger=reason is None, skip_reason=reason)

    @property
    def is_running(self) -> bool:
        return self._engine is not None and self._engine.is_running

    @property
    def status(self) -> SchedulerStatus:
        if not self.is_running:
            return SchedulerStatus.STOPPED
        return SchedulerStatus.STOPPING if self._is_stopping else SchedulerStatus.RUNNING

    @property
    def state(self) -> SchedulerState:
        """The current state. The schedules are read from the ledger, which also works after a stop."""
        engine, loop = self._engine, self._engine.loop if self._engine else None
        return SchedulerState(
            status=self.status,
            started_at=engine.started_at if engine else None,
            check_count=loop.cycles if loop else 0,
            last_check_at=loop.last_cycle_at if loop else None,
            trigger_count=self._started_count,
            active_jobs=self.total_running_job_count,
            schedules=read_statuses(self._state_dir),
        )

    def running_job_count(self, agent: str) -> int:
        """Return how many runs of an agent are active."""
        running = self._engine.running if self._engine else []
        return sum(claim.label.rpartition("/")[0] == agent for claim in running)

    @property
    def total_running_job_count(self) -> int:
        return len(self._engine.running) if self._engine else 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _fleet(self, agents: AgentsInput) -> Fleet:
        fleet = apply_jitter_percent(build_fleet(agents, self._state_dir), self._jitter_percent)
        return replace(fleet, check_interval=self._check_interval, lease=self._lease)

    async def _wait_started(self, engine: Engine, beat: str) -> TriggerResult:
        """Return when the run has started. One that waits long for a free slot or for a label has no job yet."""
        with open_ledger_reader(self._state_dir) as reader:
            try:
                async with asyncio.timeout(RUN_START_TIMEOUT_S):
                    result = await engine.wait_until(lambda: trigger_result_from_ledger(reader, beat))
            except TimeoutError:
                return TriggerResult(success=True)
        return result or TriggerResult(
            success=False, error="The request was saved, but the scheduler stopped before the run started."
        )

    def _require_running(self, agent: str = "", schedule: str = "") -> Engine:
        if self._engine is None or not self._engine.is_running:
            hint = "Await start(agents) first."
            raise ScheduleTriggerError("The scheduler is not running.", agent, schedule, hint=hint)
        return self._engine

    def _find_schedule(self, agent: str, name: str | None) -> Schedule:
        fleet = self._require_running(agent, name or "").fleet
        own = [schedule for schedule in fleet.schedules if schedule.target == agent]
        for schedule in own:
            if name in (None, schedule.name):
                return schedule
        what = f'no schedule "{name}"' if name else "no schedule"
        message, known = f'The agent "{agent}" has {what}.', [schedule.name for schedule in own]
        if fleet.target(agent) is None:
            message, known = f'There is no agent "{agent}".', [target.name for target in fleet.targets]
        raise ScheduleTriggerError(message, agent, name or "", hint=f"Known: {', '.join(known) or 'none'}.")

    def _schedule(self, label: str) -> Schedule | None:
        return self._engine.fleet.schedule(label) if self._engine else None

    def _log_capacity(self, schedule: str) -> None:
        agent = schedule.rpartition("/")[0]
        target = self._engine.fleet.target(agent) if self._engine else None
        limit = target.max_concurrent if target else 0
        line = f"Skipping {schedule}: at max capacity ({self.running_job_count(agent)}/{limit})"
        self._logger.info(line)

    def _on_event(self, event: Event) -> None:
        """Count the runs that start, and log the documented lines."""
        match event:
            case RunStarted():
                self._started_count += 1
            case RunFinished() if event.status.is_failure:
                line = f"Error executing {event.schedule}: {event.error or event.status}"
                self._logger.error(line)
            case BeatSettled() if event.reason == SkipReason.AT_CAPACITY:
                self._log_capacity(event.schedule)
            case BeatSettled():
                line = f"Skipping {event.schedule}: {event.reason or event.outcome}"
                self._logger.info(line)
            case ScheduleQuarantined():
                line = f"Skipping {event.schedule}: {SkipReason.CONFIG_ERROR} ({event.reason})"
                self._logger.error(line)
            case _:
                return
