"""The server with its pages: where API, dashboard and MCP meet. `python -m herdbeat.web` is the server process."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

from fastapi import FastAPI, Request, Response

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import ConfigSource
from herdbeat.bootstrap.server_spec import ServerSpec
from herdbeat.dashboard.app import Dashboard
from herdbeat.mcp.http import add_mcp
from herdbeat.server.app import create_app
from herdbeat.server.auth import Authenticator, Identify
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.process import EmbeddedServer as EmbeddedServer  # noqa: PLC0414 -- python_api takes it from here
from herdbeat.server.process import IdentifyUser as IdentifyUser  # noqa: PLC0414
from herdbeat.server.process import main
from herdbeat.server.routes.actions import build_config_source
from herdbeat.server.routes.session import set_session_cookie
from herdbeat.service.commands.base import Actor, Command, Scope
from herdbeat.service.commands.dispatch import Delivery

R = TypeVar("R")


def create_web_app(gateway: FleetGateway, identify: Identify | None = None) -> FastAPI:
    """Return the API with the dashboard and the MCP server. With `identify` it is mounted in another application."""
    return create_app(gateway, identify=identify, extend=(_add_dashboard, _add_mcp))


def embed_server(load_spec: Callable[[], ServerSpec], identify: IdentifyUser | None) -> EmbeddedServer:
    return EmbeddedServer(load_spec, create_web_app, identify)


def _add_dashboard(app: FastAPI) -> None:
    Dashboard(ServerPageHost(app.state.authenticator)).add_to(app)


def _add_mcp(app: FastAPI) -> None:
    add_mcp(app, ServerToolHost(app.state.authenticator))


class ServerPageHost:
    """The server as the pages of the dashboard see it (`PageHost`): the fleet, and the access rules of the server."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._gateway = authenticator.gateway

    @property
    def fleet_name(self) -> str:
        return self._gateway.spec.name

    @property
    def now(self) -> datetime:
        return self._gateway.handle.now

    @property
    def zone(self) -> ZoneInfo:
        return self._gateway.spec.zone

    @property
    def config_source(self) -> ConfigSource:
        return build_config_source(self._gateway)

    def open(self) -> AbstractContextManager[FleetHandle]:
        return self._gateway.open()

    def deliver(self, actor: Actor, command: Command[R]) -> Delivery[R]:
        return self._gateway.deliver(actor, command)

    def authenticate(self, request: Request, form_token: str = "") -> tuple[Actor, str]:
        """Return who is asking, and the CSRF token for their forms. Pages show the whole fleet.

        Raises HttpError for a request that is refused, Forbidden for a visitor who may see one target only.
        """
        caller = self._authenticator.authenticate(request, form_token)
        caller.require(Scope.READ)
        caller.require_whole_fleet()
        return caller.actor, self._authenticator.build_csrf_token(caller)

    def log_in(self, request: Request, token: str, answer: Response) -> None:
        """Put a session cookie into the answer. Raises HttpError 401, 403 or 429."""
        self._authenticator.require_no_foreign_page(request)
        self._authenticator.login(request, token)
        set_session_cookie(request, answer, token)


class ServerToolHost:
    """The server as MCP tools see it (`ToolHost`). Only tokens count: no cookie, no proxy, no loopback."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._gateway = authenticator.gateway

    def open(self) -> AbstractContextManager[FleetHandle]:
        return self._gateway.open()

    def deliver(self, actor: Actor, command: Command[R]) -> Delivery[R]:
        return self._gateway.deliver(actor, command)

    def log_in(self, request: Request, token: str) -> Actor:
        """Raises HttpError 401 for a token that is not valid, 429 after too many of them."""
        return self._authenticator.login(request, token).actor


if __name__ == "__main__":
    main(create_web_app)
