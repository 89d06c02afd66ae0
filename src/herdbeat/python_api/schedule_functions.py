"""The documented functions on a state directory: `run_schedule`, and the state of a schedule.

They are coroutines, as documented: a scheduler in the same event loop must be able to answer meanwhile.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from herdbeat.bootstrap.embedding import LocalFunctions, Runner, SystemTimer, Timer
from herdbeat.bootstrap.handle import Filter, FleetHandle, PostgresLocation, open_ledger_reader, open_state_dir
from herdbeat.bootstrap.single_run import run_single
from herdbeat.clock import Clock, SystemClock
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CreatedVia, Target
from herdbeat.errors import Conflict, NotFound, ScheduleTriggerError, UsageError
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
    PROGRAM_ACTOR,
    TimeOption,
    apply_jitter_percent,
    build_fleet,
    get_current_actor,
    parse_moment,
)
from herdbeat.python_api.work_source import WorkSourceRunner, build_run_result, callback_runner
from herdbeat.service.commands.base import (
    Actor,
    DisableSchedules,
    EnableSchedules,
    RecordState,
    ScheduleChange,
    ScheduleCommand,
    UpsertSchedule,
)
from herdbeat.service.commands.fleet import build_new_schedule, build_new_target
from herdbeat.service.queries.schedule_state import to_documented_status
from herdbeat.service.queries.selectors import find_schedule
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

MAX_SCHEDULES = 100_000


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
    """Run a schedule now, record the result, and decide its next run if this one was due.

    `job_executor` does the work, as `on_trigger` does; without it the target's own runner does. With a `work_source` in
    the schedule, an item comes from the `work_source_manager`; without an item or a manager there is no run.
    Raises Conflict while a scheduler runs in the state directory; trigger the schedule there instead.
    """
    state_path = Path(state_dir)
    fleet = apply_jitter_percent(build_fleet(_combine_definition(agent, schedule_name, schedule), state_path), 0)
    definition = next((each for each in fleet.schedules if each.name == schedule_name), None)
    if definition is None:
        name = fleet.targets[0].name
        raise ScheduleTriggerError(f'The agent "{name}" has no schedule "{schedule_name}".', name, schedule_name)
    work_runner: WorkSourceRunner | None = None

    def wrap_runner(runner: Runner) -> Runner:
        nonlocal work_runner
        if work_source_manager is None or definition.work_source is None:
            return runner
        work_runner = WorkSourceRunner(definition, work_source_manager, runner)
        return work_runner

    override = None if job_executor is None else callback_runner(job_executor, lambda _: definition)
    single = await run_single(
        fleet,
        definition.id,
        state_dir=state_path,
        timer=timer or SystemTimer(),
        origin=PROGRAM_ACTOR,
        local_functions=LocalFunctions(override=override),
        wrap_runner=wrap_runner,
        serves_work_sources=work_source_manager is not None,
    )
    if single.outcome is None:
        result = ScheduleRunResult(success=False, skipped=True, skip_reason=single.skip_reason)
    else:
        item, job_id = work_runner.item if work_runner else None, format_short_id(single.run_id)
        result = build_run_result(single.outcome, item=item, job_id=job_id, seconds=single.seconds)
    if logger is not None:
        write_line = logger.info if result.success else logger.error
        write_line(f"{definition.id}: {result.skip_reason or result.error or 'done'}")
    return result


def _combine_definition(
    agent: Target | Mapping[str, Any], name: str, schedule: Schedule | Mapping[str, Any] | None
) -> list[Any]:
    if schedule is None:
        return [agent]
    if isinstance(schedule, Schedule):
        return [{**agent, "schedules": None} if isinstance(agent, Mapping) else agent, schedule]
    if isinstance(agent, Mapping):
        return [{**agent, "schedules": {name: schedule}}]
    raise ScheduleTriggerError(
        "A Target must be passed with a Schedule, not with a mapping.",
        agent.name,
        name,
        hint="Pass two mappings, or a Target and a Schedule.",
    )


async def get_schedule_state(state_dir: str | Path, agent: str, schedule: str) -> PersistedScheduleState:
    """Return the state of a schedule. An unknown one is idle, has never run and has no next run."""
    return (await get_agent_schedule_states(state_dir, agent)).get(schedule, PersistedScheduleState())


async def get_agent_schedule_states(state_dir: str | Path, agent: str) -> dict[str, PersistedScheduleState]:
    """Return the states of all schedules of an agent, by name. Empty if nothing has run there yet."""
    records = await call_in_thread(_read_records, Path(state_dir), agent)
    return {record.name: _build_persisted_state(record) for record in records}


async def update_schedule_state(
    state_dir: str | Path,
    agent: str,
    schedule: str,
    *,
    status: ScheduleStanding | str | None = None,
    last_run_at: TimeOption | None = None,
    next_run_at: TimeOption | None = None,
    last_error: str | None = None,
    by: str | None = None,
    reason: str = "",
    clock: Clock | None = None,
) -> None:
    """Disable a schedule ("disabled") or enable it again ("idle"), and record its last and next run.

    None leaves a value unchanged. Times are aware datetimes or RFC 3339 texts. "running" is ignored with a warning:
    only an active run sets it. An interval counts from that last run, or to that next one; for cron the next run is one
    more instant. An empty `last_error` removes the error. A missing ledger, agent or schedule is created, with a manual
    trigger.
    """
    requested_status = None if status is None else _parse_status(status)
    who, label, timer = by or get_current_actor(), f"{agent}/{schedule}", clock or SystemClock()
    state = RecordState(
        reason=reason,
        last_run_at=None if last_run_at is None else parse_moment(last_run_at),
        next_run_at=None if next_run_at is None else parse_moment(next_run_at),
        last_error=last_error,
    )
    await call_in_thread(_create_missing, Path(state_dir), agent, schedule, who, timer)
    if state != RecordState(reason=reason):
        await change_schedule(Path(state_dir), label, who, state, timer)
    if requested_status is ScheduleStanding.RUNNING:
        log.warning("status ignored schedule=%s status=running only an active run sets it", label)
    elif requested_status is not None:
        kind = DisableSchedules if requested_status is ScheduleStanding.DISABLED else EnableSchedules
        await change_schedule(Path(state_dir), label, who, kind(reason=reason), timer)


def _create_missing(state_dir: Path, agent: str, schedule: str, who: str, clock: Clock) -> None:
    """Add an agent and its schedule to the ledger, if it does not know them. Blocks: call it in a thread."""
    known = _read_records(state_dir, agent)
    if any(record.name == schedule for record in known):
        return
    fleet = build_fleet([{"name": agent, "schedules": {schedule: {"type": "manual"}}}], state_dir)
    command = UpsertSchedule(
        what=ChangeKind.ADD,
        target=agent,
        name=schedule,
        new_target=None if known else build_new_target(fleet.targets[0]),
        new_schedule=build_new_schedule(fleet.schedules[0]),
        way=CreatedVia.API,
    )
    try:
        open_state_dir(state_dir, clock).dispatcher.run(Actor(name=who), command)
    except Conflict:
        # The agent is there without a schedule, or another program has just created it.
        if any(record.name == schedule for record in _read_records(state_dir, agent)):
            return
        open_state_dir(state_dir, clock).dispatcher.run(Actor(name=who), replace(command, new_target=None))


def read_statuses(state_dir: Path) -> tuple[ScheduleStatus, ...]:
    """Return every schedule of the ledger in the documented words; none if nothing has run there yet."""
    return tuple(
        ScheduleStatus(agent=record.target, schedule=record.name, **asdict(_build_persisted_state(record)))
        for record in _read_records(state_dir)
    )


def _build_persisted_state(record: ScheduleRecord) -> PersistedScheduleState:
    return PersistedScheduleState(
        status=ScheduleStanding(to_documented_status(record)),
        last_run_at=record.last_run_at,
        next_run_at=record.next_run_at,
        last_error=record.quarantine or record.last_error,
    )


async def change_schedule(
    state_dir: Path, label: str, who: str, command: ScheduleCommand, clock: Clock
) -> ScheduleChange:
    """Run a command on one schedule. Raises NotFound for one that is not there, Conflict with the reason if refused."""
    handle = open_state_dir(state_dir, clock)
    return await call_in_thread(dispatch_change, handle, state_dir, label, who, command)


def dispatch_change(
    handle: FleetHandle, place: Path | PostgresLocation, label: str, who: str, command: ScheduleCommand
) -> ScheduleChange:
    """Do the same on any ledger. Blocks: call it in a thread."""
    with open_ledger_reader(place) as reader:
        command = replace(command, schedules=(find_schedule(reader, label).id,))
    change = handle.dispatcher.run(Actor(name=who), command).items[0]
    if change.refused:
        raise Conflict(f"{label}: {change.refused}.", hint=change.hint)
    return change


def _read_records(state_dir: Path, agent: str | None = None) -> Sequence[ScheduleRecord]:
    try:
        with open_ledger_reader(state_dir) as reader:
            return reader.schedules(Filter(target=agent, limit=MAX_SCHEDULES))
    except NotFound:
        return []


def _parse_status(status: ScheduleStanding | str) -> ScheduleStanding:
    try:
        return ScheduleStanding(status)
    except ValueError:
        raise UsageError(f'status cannot be "{status}".', hint="Use idle or disabled.") from None
