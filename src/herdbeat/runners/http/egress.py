"""The egress guard: endpoints may reach public addresses, and those private ones that the operator allows.

`EgressAllowlist` decides, in `addresses.py`. `guarded_socket` enforces the decision where a socket is created: it sees
the address that is really connected to, at that moment, whatever the URL says, a name server has answered before, or a
redirect names. `ThreadedResolver` looks up host names in threads of its own: the loop has few threads, and six hosts
with a silent name server would block all others, and the end of the process.
"""

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType

from herdbeat.runners.http.addresses import (
    Address,
    EgressAllowlist,
    describe_special_range,
    parse_address,
    unwrap_address,
)
from herdbeat.runners.thread_pool import DaemonThreadPool


@dataclass(slots=True, kw_only=True)
class ConnectAttempt:
    """One attempt to connect to a host, and the addresses that the guard blocked.

    The guard records them here, because aiohttp tries the addresses of a host in separate tasks and merges their
    errors into one text.
    """

    host: str
    blocked: list[Address] = field(default_factory=list)

    def describe_block(self) -> str:
        """Return why the host was not called, and how the operator can allow it."""
        address = unwrap_address(self.blocked[0])
        named = self.host if self.host == str(address) else f"{self.host} ({address})"
        return (
            f"{named} was not called because it is {describe_special_range(address)}."
            f' To allow it, add "{address}" to egress.allow in the fleet file.'
        )


_CURRENT_ATTEMPT: ContextVar[ConnectAttempt] = ContextVar("connect_attempt")


@contextmanager
def track_attempt(host: str) -> Iterator[ConnectAttempt]:
    """Attribute the sockets that are created in the block to that host."""
    attempt = ConnectAttempt(host=host)
    token = _CURRENT_ATTEMPT.set(attempt)
    try:
        yield attempt
    finally:
        _CURRENT_ATTEMPT.reset(token)


def guarded_socket(allowed: EgressAllowlist, info: AddrInfoType) -> socket.socket:
    """Return a socket for an allowed address; raise PermissionError for others."""
    family, kind, protocol, _, sockaddr = info
    attempt, address = _CURRENT_ATTEMPT.get(), parse_address(str(sockaddr[0]))
    if not allowed.is_allowed(attempt.host, address):
        attempt.blocked.append(address)
        raise PermissionError(errno.EACCES, "refused by the guard")
    return socket.socket(family, kind, protocol)


AddrInfos = Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]
HostLookup = Callable[[str, int], AddrInfos]
"""Looks up the addresses of a host, like `socket.getaddrinfo`; tests replace it."""


def lookup_host(host: str, port: int) -> AddrInfos:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class ThreadedResolver(AbstractResolver):
    """Resolves host names in a DaemonThreadPool."""

    def __init__(self, lookup: HostLookup, max_concurrent: int) -> None:
        self._lookup = lookup
        self._threads: DaemonThreadPool[AddrInfos] = DaemonThreadPool(max_concurrent)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            result = await self._threads.call(partial(self._lookup, host, port))
        except UnicodeError as error:  # an empty label: "a..b"
            raise OSError(socket.EAI_NONAME, "not a valid host name") from error
        return [_to_resolve_result(host, info) for info in result if family in (socket.AF_UNSPEC, info[0])]

    async def close(self) -> None:
        self._threads.close()


def _to_resolve_result(host: str, info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> ResolveResult:
    family, _, protocol, _, sockaddr = info
    # A link-local address cannot be connected to without its zone.
    zone = f"%{sockaddr[3]}" if family == socket.AF_INET6 and sockaddr[3] else ""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(
        hostname=host, host=f"{sockaddr[0]}{zone}", port=sockaddr[1], family=family, proto=protocol, flags=flags
    )
