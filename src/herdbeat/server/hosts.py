"""The server as other adapters see it: the pages of the dashboard and the MCP tools. `web` connects them."""

from contextlib import AbstractContextManager
from datetime import datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import ConfigSource
from herdbeat.server.auth import Authenticator
from herdbeat.server.routes.actions import build_config_source
from herdbeat.server.routes.session import set_session_cookie
from herdbeat.service.commands.base import Actor, Command, Scope
from herdbeat.service.commands.dispatch import Delivery

R = TypeVar("R")


class ServerPageHost:
    """Lends the fleet and the access rules of the server to pages. Nothing else of the server is theirs."""

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
    """Lends the fleet and the tokens of the server to tools. A cookie, a proxy or loopback alone does not count."""

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
