"""The server as the MCP tools see it."""

from contextlib import AbstractContextManager
from typing import TypeVar

from fastapi import Request

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.server.auth import Authenticator
from herdbeat.service.commands.base import Actor, Command
from herdbeat.service.commands.dispatch import Delivery

R = TypeVar("R")


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
