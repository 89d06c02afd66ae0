"""What can be asked of a running fleet through its socket: ping, stop, run, prune."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from herdbeat import __version__
from herdbeat.clock import Clock
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.faces.local.server import Handler, Request
from herdbeat.scheduler.node import ServingNode
from herdbeat.serve import Ready
from herdbeat.service.firing import fire_here
from herdbeat.service.objects import Json
from herdbeat.service.retention import prune
from herdbeat.store.audit import SqliteAudit


class Desk:
    """Answers for one fleet at work."""

    def __init__(self, fleet: Fleet, ready: Ready, clock: Clock) -> None:
        self._fleet = fleet
        self._ready = ready
        self._clock = clock

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"ping": self.ping, "stop": self.stop, "run": self.run, "prune": self.prune}

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

    async def prune(self, request: Request) -> Json:  # noqa: ARG002 - the fleet's own retention says what stays
        store = self._ready.store
        return asdict(await prune(store, SqliteAudit(store.path), self._fleet.retention, self._clock.now()))

    def _timeout(self, request: Request) -> timedelta:
        seconds = request.get("timeout")
        if seconds is None:
            return self._fleet.stop_timeout
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise UsageError("The timeout is not a number of seconds.", hint="Send for example 30.")
        return timedelta(seconds=seconds)

    def _running(self) -> int:
        return len(self._node.loop.running) if self._node.loop else 0
