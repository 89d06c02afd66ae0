"""What the dashboard needs of the server that shows its pages. The server fulfils it; neither imports the other."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.bootstrap.remote_specs import ConfigSource
from herdbeat.service.commands.base import Actor, Command, Scope
from herdbeat.service.commands.dispatch import Delivery

R = TypeVar("R")


class PageHost(Protocol):
    """The server, as its pages see it."""

    @property
    def fleet_name(self) -> str: ...

    @property
    def now(self) -> datetime: ...

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the fleet."""

    @property
    def config_source(self) -> ConfigSource:
        """Where the files of the fleet are, for a change of a schedule and for its patch."""

    def open(self) -> AbstractContextManager[FleetHandle]:
        """Yield the fleet with a reader. Raises NotFound if nothing has ever run, StoreUnavailable."""

    def deliver(self, actor: Actor, command: Command[R]) -> Delivery[R]:
        """Raises what the command raises."""

    def authenticate(self, request: Request, form_token: str = "") -> tuple[Actor, str]:
        """Return who is asking, and the CSRF token for their forms. `form_token` is what a form has sent.

        Raises HerdbeatError for a request without credentials, from another site, or without its CSRF token.
        """

    def log_in(self, request: Request, token: str, answer: Response) -> None:
        """Put a session cookie into the answer. Raises HerdbeatError if the token is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks at a page, and what they may do there."""

    actor: Actor
    csrf_token: str

    @property
    def can_operate(self) -> bool:
        return Scope.CONTROL in self.actor.scopes

    @property
    def can_administer(self) -> bool:
        return Scope.ADMIN in self.actor.scopes
