"""What can be asked of a running fleet through its socket: ping, stop, run, change, prune."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from herdbeat import __version__
from herdbeat.bootstrap.config import load_config
from herdbeat.bootstrap.fleet import RunningFleet, replace_fleet
from herdbeat.clock import Clock
from herdbeat.control_socket.server import ControlRequest, RequestHandler
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, UsageError
from herdbeat.events import EventListener, SchedulesChanged, null_listener, safe_listener
from herdbeat.scheduler.apply.apply import ApplyResult
from herdbeat.scheduler.backfill import BackfillWindow
from herdbeat.scheduler.loop import Loop
from herdbeat.scheduler.node import Node
from herdbeat.service.commands.base import ScheduleCommand, command_from_json
from herdbeat.service.commands.fleet import (
    PARTIAL_FILE_KINDS,
    build_partial_fleet,
    execute_upsert,
    read_stored_fleet,
    require_valid_fleet,
    serialize_apply_result,
    upsert_from_json,
)
from herdbeat.service.commands.runs import (
    BackfillSchedule,
    backfill_in_process,
    cancel_in_process,
    cancel_run_in_process,
    clip_to_past,
    retry_in_process,
    trigger_in_process,
)
from herdbeat.service.commands.schedules import (
    MAX_SCHEDULES_PER_TRANSACTION,
    execute_in_process,
    format_stop_reason,
    request_remote_stop,
)
from herdbeat.service.config_watch import load_in_thread, publish_applied, restart_required
from herdbeat.service.maintenance.retention import prune_history
from herdbeat.service.maintenance.state_file import import_states, imported_states_from_rows
from herdbeat.service.serialize import JsonObject
from herdbeat.store.location import open_audit
from herdbeat.timestamps import parse_timestamp

# What can be asked about single beats and runs of a running fleet: cancel, retry, backfill.


MAX_IDS_PER_REQUEST = 1_000


class RunHandlers:
    """Answers for one fleet at work."""

    def __init__(
        self, fleet: Fleet, running_fleet: RunningFleet, clock: Clock, listener: EventListener = null_listener
    ) -> None:
        self._publish = safe_listener(listener)
        self._fleet = fleet
        self._running_fleet = running_fleet
        self._clock = clock

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"cancel": self.cancel, "retry": self.retry, "backfill": self.backfill}

    async def cancel(self, request: ControlRequest) -> JsonObject:
        """`schedules` are the ids whose runs and waiting beats are meant; or `run` is the one run, with its `label`."""
        who, reason, force = _get_text(request, "who"), _get_text(request, "reason"), request.get("force") is True
        store, now = self._running_fleet.store, self._clock.now()
        if "run" in request:
            run_id, label = _get_ids(request, "run")[0], _get_text(request, "label")
            item = await cancel_run_in_process(
                store, self._loop, now, run_id, label, who=who, reason=reason, force=force
            )
            return {"items": [item]}
        ids = _get_ids(request, "schedules")
        items = await cancel_in_process(
            store, self._loop, now, ids, who=who, reason=reason, force=force, publish=self._publish
        )
        self._running_fleet.node.wake()
        return {"items": items}

    async def retry(self, request: ControlRequest) -> JsonObject:
        """`runs` are the ids; `force` also repeats what succeeded."""
        who, reason, force = _get_text(request, "who"), _get_text(request, "reason"), request.get("force") is True
        runs = _get_ids(request, "runs")
        items = await retry_in_process(
            self._running_fleet.store, self._clock.now(), runs, who=who, reason=reason, force=force
        )
        self._running_fleet.node.wake()
        return {"items": items}

    async def backfill(self, request: ControlRequest) -> JsonObject:
        """`schedule` is the id, `label` its name, `from` and `until` are the window of its past."""
        window = BackfillWindow(
            start=parse_timestamp(_get_text(request, "from")), end=parse_timestamp(_get_text(request, "until"))
        )
        command = BackfillSchedule(
            schedule_id=_get_ids(request, "schedule")[0],
            label=_get_text(request, "label"),
            window=clip_to_past(window, self._clock.now()),
            rate=self._fleet.catchup_rate,
            who=_get_text(request, "who"),
            reason=_get_text(request, "reason"),
        )
        answer = await backfill_in_process(self._running_fleet.store, self._clock.now(), command)
        self._running_fleet.node.wake()
        return answer

    @property
    def _loop(self) -> Loop:
        loop = self._running_fleet.node.loop
        if loop is None:
            raise Conflict("The fleet is just starting.", hint="Ask again in a moment.")
        return loop


def _get_text(request: ControlRequest, key: str) -> str:
    found = request.get(key)
    if not isinstance(found, str):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as a text.')
    return found


def _get_ids(request: ControlRequest, key: str) -> list[int]:
    """One number, or a list of them."""
    found = request.get(key)
    numbers: list[Any] = found if isinstance(found, list) else [found]
    if not 0 < len(numbers) <= MAX_IDS_PER_REQUEST or not all(type(each) is int for each in numbers):
        raise UsageError(f'The request has no "{key}".', hint=f'Send "{key}" as ids, at most {MAX_IDS_PER_REQUEST}.')
    return numbers


class ControlHandlers:
    """Answers for one fleet at work."""

    def __init__(
        self, fleet: Fleet, running_fleet: RunningFleet, clock: Clock, listener: EventListener = null_listener
    ) -> None:
        self._publish = safe_listener(listener)
        self._fleet = fleet
        self._running_fleet = running_fleet
        self._clock = clock
        self._run_handlers = RunHandlers(fleet, running_fleet, clock, listener)

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        own = {"ping": self.ping, "stop": self.stop, "run": self.run, "change": self.change, "prune": self.prune}
        return {**own, **self._run_handlers.handlers}

    @property
    def _node(self) -> Node:
        return self._running_fleet.node

    async def ping(self, request: ControlRequest) -> JsonObject:  # noqa: ARG002 - there is nothing to say in it
        return {"pid": os.getpid(), "version": __version__, "fleet": self._fleet.name, "running": self._count_running()}

    async def stop(self, request: ControlRequest) -> JsonObject:
        """`timeout` in seconds, else the fleet's own; `force` cuts off what runs."""
        timeout = self._timeout(request)
        if request.get("force") is True:
            self._node.hard_stop()
        else:
            self._node.stop(timeout)
        return {"pid": os.getpid(), "running": self._count_running(), "timeout": timeout.total_seconds()}

    async def run(self, request: ControlRequest) -> JsonObject:
        """`schedule` names it, `origin` who wants it, `queue` whether it may wait."""
        schedule, origin = request.get("schedule"), request.get("origin")
        if not isinstance(schedule, str) or not isinstance(origin, str):
            raise UsageError("The request has no schedule or no origin.", hint='Send "schedule" and "origin" as texts.')
        queue = request.get("queue") is True
        answer = await trigger_in_process(
            self._running_fleet.store, self._clock.now(), schedule, origin=origin, queue=queue
        )
        self._node.wake()
        return answer

    async def change(self, request: ControlRequest) -> JsonObject:
        """`act` is what to do, `schedules` the ids it is about; `cancel_running` also stops their runs."""
        ids = request.get("schedules")
        if (
            not isinstance(ids, list)
            or not all(isinstance(each, int) for each in ids)
            or len(ids) > MAX_SCHEDULES_PER_TRANSACTION
        ):
            hint = f'Send "schedules" as a list of at most {MAX_SCHEDULES_PER_TRANSACTION} ids.'
            raise UsageError("The request does not say which schedules.", hint=hint)
        command = command_from_json(request.get("act"))
        now = self._clock.now()
        items = await execute_in_process(self._running_fleet.store, now, command, ids)
        changed = tuple(str(each["schedule"]) for each in items if each["changed"])
        if changed:
            self._publish(SchedulesChanged(now, command.what, command.who, command.reason, changed))
        if request.get("cancel_running") is True:
            await self._cancel_runs(command, ids)
        self._node.wake()
        return {"items": items}

    async def _cancel_runs(self, command: ScheduleCommand, schedule_ids: list[int]) -> None:
        """Ours at once; those of other nodes are theirs to end."""
        loop = self._node.loop
        if loop is None:
            return
        for each in schedule_ids:
            loop.cancel_schedule_runs(each, format_stop_reason(command))
        await self._running_fleet.store.write(lambda tx: request_remote_stop(tx, command, schedule_ids, loop.node_id))

    async def prune(self, request: ControlRequest) -> JsonObject:  # noqa: ARG002 - the fleet's own retention says what stays
        store = self._running_fleet.store
        return asdict(await prune_history(store, open_audit(store.location), self._fleet.retention, self._clock.now()))

    def _timeout(self, request: ControlRequest) -> timedelta:
        seconds = request.get("timeout")
        if seconds is None:
            return self._fleet.stop_timeout
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise UsageError("The timeout is not a number of seconds.", hint="Send for example 30.")
        return timedelta(seconds=seconds)

    def _count_running(self) -> int:
        return len(self._node.loop.active_runs) if self._node.loop else 0


# What can be asked of a running fleet about what it consists of: apply its files now, make something without one.


class FleetHandlers:
    """Answers for one fleet at work. Files are read here, with this process's own environment."""

    def __init__(
        self,
        fleet: Fleet,
        running_fleet: RunningFleet,
        clock: Clock,
        environ: Mapping[str, str],
        base: Path,
        publish: EventListener = null_listener,
    ) -> None:
        self._fleet = fleet
        self._running_fleet = running_fleet
        self._clock = clock
        self._environ = environ
        self._base = base
        self._publish = publish

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"apply": self.apply, "make": self.upsert, "remember": self.import_state}

    async def apply(self, request: ControlRequest) -> JsonObject:
        """`path` names the files, `who` wants it."""
        path, who = request.get("path"), request.get("who")
        if not isinstance(path, str) or not isinstance(who, str):
            raise UsageError("The request has no path or no author.", hint='Send "path" and "who" as texts.')
        fleet, is_whole = await load_in_thread(lambda: self._read(path))
        result = await self.apply_fleet(fleet, who, is_whole=is_whole)
        publish_applied(self._publish, self._clock.now(), result, restart_required(self._fleet, fleet))
        return {**serialize_apply_result(result), "pid": os.getpid()}

    async def upsert(self, request: ControlRequest) -> JsonObject:
        """`making` is what is to be made, changed or removed."""
        command = upsert_from_json(request.get("making"))
        done = await self._running_fleet.store.write(lambda tx: execute_upsert(tx, self._clock.now(), command))
        self._running_fleet.spec_cache.clear()
        self._running_fleet.node.wake()
        return done

    async def import_state(self, request: ControlRequest) -> JsonObject:
        """`memories` are rows of a state file, `who` wants them taken over."""
        who = request.get("who")
        try:
            states = imported_states_from_rows(request.get("memories"))
        except (TypeError, ValueError) as error:
            raise UsageError(f"The memories cannot be read: {error}.", hint="Send rows of five.") from error
        if not isinstance(who, str):
            raise UsageError("The request has no author.", hint='Send "who" as a text.')
        now = self._clock.now()
        done = await self._running_fleet.store.write(lambda tx: import_states(tx, now, states, who))
        self._running_fleet.node.wake()
        return asdict(done)

    async def apply_fleet(self, fleet: Fleet, who: str = "files", *, is_whole: bool = True) -> ApplyResult:
        return await replace_fleet(self._running_fleet, fleet, self._clock.now(), who, is_whole=is_whole)

    def _read(self, path: str) -> tuple[Fleet, bool]:
        load_result = load_config(path, self._environ, self._base)
        if load_result.kind not in PARTIAL_FILE_KINDS:
            return require_valid_fleet(load_result), True
        return build_partial_fleet(
            self._fleet, load_result, read_stored_fleet(self._running_fleet.store.location)
        ), False
