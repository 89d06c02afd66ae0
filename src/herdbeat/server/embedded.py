"""The server inside somebody's own application: `Herd.asgi()` mounted in FastAPI, Starlette or Django."""

import os
import threading
from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send

from herdbeat.bootstrap.server_spec import ServerSpec, open_server_handle
from herdbeat.clock import SystemClock
from herdbeat.server.auth import Identify
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor
from herdbeat.service.commands.tokens import build_actor, parse_token_scope

IdentifyUser = Callable[[Request], tuple[str, str] | None]
"""Returns the name and the scope of the user who sends a request; None for nobody."""

CreateApp = Callable[[FleetGateway, Identify | None], FastAPI]
"""Makes the application that is embedded."""


class EmbeddedServer:
    """An ASGI application that opens the fleet with its first request: the herd may start later than the application.

    Without `identify` only tokens get in: whoever reaches the host application from this machine is not its user.
    """

    def __init__(
        self, load_spec: Callable[[], ServerSpec], create_app: CreateApp, identify: IdentifyUser | None = None
    ) -> None:
        self._load_spec = load_spec
        self._create_app = create_app
        self._identify = identify
        self._app: FastAPI | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return  # a mounted application gets none; one that is served alone needs nothing
        await self._open()(scope, receive, send)

    def _open(self) -> FastAPI:
        with self._lock:
            if self._app is None:
                spec = self._load_spec()
                gateway = FleetGateway(spec, open_server_handle(spec, SystemClock(), os.environ), os.environ)
                self._app = self._create_app(gateway, self._identify and self._find_actor)
            return self._app

    def _find_actor(self, request: Request) -> Actor | None:
        assert self._identify is not None
        found = self._identify(request)
        return None if found is None else build_actor(found[0], parse_token_scope(found[1]))
