"""What can be asked of a running fleet through its socket: ping, stop, run, change, prune."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from herdbeat import __version__
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.events import EventListener, SchedulesChanged, null_listener, safe_listener
from herdbeat.faces.local.beats_desk import RunHandlers
from herdbeat.faces.local.server import ControlRequest, RequestHandler
from herdbeat.scheduler.node import Node
from herdbeat.serve import RunningFleet
from herdbeat.service.acts import ScheduleCommand, command_from_json
from herdbeat.service.changing import (
    MAX_SCHEDULES_PER_TRANSACTION,
    execute_in_process,
    format_stop_reason,
    request_remote_stop,
)
from herdbeat.service.firing import trigger_in_process
from herdbeat.service.objects import JsonObject
from herdbeat.service.retention import prune_history
from herdbeat.store.opening import open_audit


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
        return len(self._node.loop.running) if self._node.loop else 0
