"""The documented state functions: what a state directory keeps of a schedule, whether a scheduler runs there or not.

They are coroutines, as documented: a scheduler in the same event loop must be able to answer while one waits.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from herdbeat.clock import Clock, SystemClock
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import Conflict, NotFound, StoreUnavailable, UsageError
from herdbeat.faces.local.client import NotRunning, send_request
from herdbeat.faces.python.agents import LEDGER_FILE_NAME
from herdbeat.faces.python.documented import PersistedScheduleState, ScheduleStanding, ScheduleStatus
from herdbeat.faces.python.who import get_current_actor
from herdbeat.service.acts import DisableSchedules, EnableSchedules, ScheduleCommand, command_to_json
from herdbeat.service.changing import execute_offline
from herdbeat.service.questions import find_schedule
from herdbeat.store.reader import Filter, Reader, SqliteReader

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
        status=_resolve_status(record),
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


def _resolve_status(record: ScheduleRecord) -> ScheduleStanding:
    if record.running:
        return ScheduleStanding.RUNNING
    is_off = not record.enabled or record.disabled_by is not None
    return ScheduleStanding.DISABLED if is_off else ScheduleStanding.IDLE


def _parse_status(status: ScheduleStanding | str) -> ScheduleStanding:
    try:
        return ScheduleStanding(status)
    except ValueError:
        raise UsageError(f'status cannot be "{status}".', hint="Write idle or disabled.") from None
