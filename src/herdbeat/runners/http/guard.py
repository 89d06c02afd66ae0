"""The guard: every socket of every request is made here, after a look at the address it is for.

It sees what is really connected to, at the moment it is. So it does not matter how an address was written, what a
name server answered a moment ago, or which host a redirect names.
"""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from aiohttp.connector import AddrInfoType

from herdbeat.runners.http.addresses import (
    Address,
    EgressAllowlist,
    describe_special_range,
    parse_address,
    unwrap_address,
)


@dataclass(slots=True, kw_only=True)
class ConnectAttempt:
    """The way to one host, and what was refused on it. The addresses of a host are tried in tasks of their own, and
    their errors come back as one text; so the guard writes here what it has refused."""

    host: str
    blocked: list[Address] = field(default_factory=list)

    def describe_block(self) -> str:
        """Why the host was not called, and what the operator can do about it."""
        address = unwrap_address(self.blocked[0])
        named = self.host if self.host == str(address) else f"{self.host} ({address})"
        return (
            f"{named} was not called: it is {describe_special_range(address)}."
            f' If it is meant, add "{address}" to egress.allow in the fleet file.'
        )


_CURRENT_ATTEMPT: ContextVar[ConnectAttempt] = ContextVar("way")


@contextmanager
def track_attempt(host: str) -> Iterator[ConnectAttempt]:
    """Sockets that are made in here are for that host."""
    attempt = ConnectAttempt(host=host)
    token = _CURRENT_ATTEMPT.set(attempt)
    try:
        yield attempt
    finally:
        _CURRENT_ATTEMPT.reset(token)


class EgressGuard:
    """Makes sockets for addresses that may be reached, and for no others."""

    def __init__(self, allowed: EgressAllowlist) -> None:
        self._allowed = allowed

    def __call__(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, sockaddr = info
        attempt, address = _CURRENT_ATTEMPT.get(), parse_address(str(sockaddr[0]))
        if not self._allowed.is_allowed(attempt.host, address):
            attempt.blocked.append(address)
            raise PermissionError(errno.EACCES, "refused by the guard")
        return socket.socket(family, kind, protocol)
