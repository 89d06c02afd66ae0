"""What the control socket of a running fleet answers: ping, stop, and every command."""

import os
from collections.abc import Mapping
from datetime import timedelta

from herdbeat import __version__
from herdbeat.control_socket.server import ControlRequest, RequestHandler
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import UsageError
from herdbeat.scheduler.node import Node
from herdbeat.service.commands.base import Actor, command_from_json, result_to_json
from herdbeat.service.commands.dispatch import EXECUTE, NodeDispatcher
from herdbeat.service.serialize import JsonObject


class ControlHandlers:
    """Answers for one running fleet."""

    def __init__(self, fleet: Fleet, node: Node, dispatcher: NodeDispatcher) -> None:
        self._fleet = fleet
        self._node = node
        self._dispatcher = dispatcher

    @property
    def handlers(self) -> Mapping[str, RequestHandler]:
        return {"ping": self.ping, "stop": self.stop, EXECUTE: self.execute}

    async def ping(self, request: ControlRequest) -> JsonObject:  # noqa: ARG002 - it carries nothing
        return {"pid": os.getpid(), "version": __version__, "fleet": self._fleet.name, "running": self._count_running()}

    async def stop(self, request: ControlRequest) -> JsonObject:
        """`timeout` in seconds, else the fleet's own; `force` cuts off what runs."""
        timeout = self._timeout(request)
        if request.get("force") is True:
            self._node.hard_stop()
        else:
            self._node.stop(timeout)
        return {"pid": os.getpid(), "running": self._count_running(), "timeout": timeout.total_seconds()}

    async def execute(self, request: ControlRequest) -> JsonObject:
        """`command` is what to do, `actor` who asks."""
        actor, command = Actor.from_json(request.get("actor")), command_from_json(request.get("command"))
        result = await self._dispatcher.run(actor, command)
        return {"pid": os.getpid(), "result": result_to_json(result)}

    def _timeout(self, request: ControlRequest) -> timedelta:
        seconds = request.get("timeout")
        if seconds is None:
            return self._fleet.stop_timeout
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
            raise UsageError("The timeout is not a number of seconds.", hint="Send for example 30.")
        return timedelta(seconds=seconds)

    def _count_running(self) -> int:
        return len(self._node.loop.running) if self._node.loop else 0
