"""What can be asked of a running fleet through its socket: ping, stop, run, change, prune."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from herdbeat import __version__
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.events import Listener, SchedulesChanged, contained, nobody
from herdbeat.faces.local.beats_desk import BeatsDesk
from herdbeat.faces.local.server import Handler, Request
from herdbeat.scheduler.node import ServingNode
from herdbeat.serve import Ready
from herdbeat.service.acts import Act, act_from_json
from herdbeat.service.changing import BATCH, change_here, stop_elsewhere, why_stopped
from herdbeat.service.firing import fire_here
from herdbeat.service.objects import Json
from herdbeat.service.retention import prune
from herdbeat.store.opening import audit_at


class Desk:
    """Answers for one fleet at work."""

    def __init__(self, fleet: Fleet, ready: Ready, clock: Clock, listener: Listener = nobody) -> None:
        self._tell = contained(listener)
        self._fleet = fleet
        self._ready = ready
        self._clock = clock
        self._beats = BeatsDesk(fleet, ready, clock, listener)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        own = {"ping": self.ping, "stop": self.stop, "run": self.run, "change": self.change, "prune": self.prune}
        return {**own, **self._beats.handlers}

    @property
    def _node(self) -> ServingNode:
        return self._ready.node

    async def ping(self, request: Request) -> Json:  # noqa: ARG002 - there is nothing to say in it
        return {"pid": os.getpid(), "version": __version__, "fleet": self._fleet.name, "running": self._running()}

    async def stop(self, request: Request) -> Json:
        """`timeout` in seconds, else the fleet's own; `force` cuts off what runs."""
        timeout = self._timeout(request)
        if request.get("force") is True:
            self._node.cut_off()
        else:
            self._node.stop(timeout)
        return {"pid": os.getpid(), "running": self._running(), "timeout": timeout.total_seconds()}

    async def run(self, request: Request) -> Json:
        """`schedule` names it, `origin` who wants it, `queue` whether it may wait."""
        schedule, origin = request.get("schedule"), request.get("origin")
        if not isinstance(schedule, str) or not isinstance(origin, str):
            raise UsageError("The request has no schedule or no origin.", hint='Send "schedule" and "origin" as texts.')
        queue = request.get("queue") is True
        answer = await fire_here(self._ready.store, self._clock.now(), schedule, origin=origin, queue=queue)
        self._node.wake()
        return answer

    async def change(self, request: Request) -> Json:
        """`act` is what to do, `schedules` the ids it is about; `cancel_running` also stops their runs."""
        ids = request.get("schedules")
        if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids) or len(ids) > BATCH:
            hint = f'Send "schedules" as a list of at most {BATCH} ids.'
            raise UsageError("The request does not say which schedules.", hint=hint)
        act = act_from_json(request.get("act"))
        now = self._clock.now()
        items = await change_here(self._ready.store, now, act, ids)
        changed = tuple(str(each["schedule"]) for each in items if each["changed"])
        if changed:
            self._tell(SchedulesChanged(now, act.what, act.who, act.reason, changed))
        if request.get("cancel_running") is True:
            await self._cancel_runs(act, ids)
        self._node.wake()
        return {"items": items}

    async def _cancel_runs(self, act: Act, schedule_ids: list[int]) -> None:
        """Ours at once; those of other nodes are theirs to end."""
        loop = self._node.loop
        if loop is None:
            return
        for each in schedule_ids:
            loop.cancel_runs(each, why_stopped(act))
        await self._ready.store.write(lambda tx: stop_elsewhere(tx, act, schedule_ids, loop.node_id))

    async def prune(self, request: Request) -> Json:  # noqa: ARG002 - the fleet's own retention says what stays
        store = self._ready.store
        return asdict(await prune(store, audit_at(store.place), self._fleet.retention, self._clock.now()))

    def _timeout(self, request: Request) -> timedelta:
        seconds = request.get("timeout")
        if seconds is None:
            return self._fleet.stop_timeout
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise UsageError("The timeout is not a number of seconds.", hint="Send for example 30.")
        return timedelta(seconds=seconds)

    def _running(self) -> int:
        return len(self._node.loop.running) if self._node.loop else 0
