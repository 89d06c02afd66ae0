"""The egress guard: endpoints may reach public addresses, and those private ones that the operator allows.

`EgressAllowlist` decides, in `addresses.py`. `guarded_socket` enforces the decision where a socket is created: it sees
the address that is really connected to, at that moment, whatever the URL says, a name server has answered before, or a
redirect names. `HostResolver` looks up host names in threads of its own: the loop has few threads, and six hosts
with a silent name server would block all others, and the end of the process.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohappyeyeballs import AddrInfoType

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

    The guard records them here: the addresses of a host are tried in separate tasks, and their errors become one.
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


def guarded_socket(allowed: EgressAllowlist, attempt: ConnectAttempt, info: AddrInfoType) -> socket.socket:
    """Return a socket for an allowed address; raise PermissionError for others."""
    family, kind, protocol, _, sockaddr = info
    address = parse_address(str(sockaddr[0]))
    if not allowed.is_allowed(attempt.host, address):
        attempt.blocked.append(address)
        raise PermissionError(errno.EACCES, "refused by the guard")
    return socket.socket(family, kind, protocol)


AddrInfos = Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]
HostLookup = Callable[[str, int], AddrInfos]
"""Looks up the addresses of a host, like `socket.getaddrinfo`; tests replace it."""

_KEPT_S = 10.0
"""For how long the addresses of a host are kept: a thousand endpoints of one host need one lookup."""

_MAX_KEPT_HOSTS = 1_000


def lookup_host(host: str, port: int) -> AddrInfos:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class HostResolver:
    """Resolves host names in a DaemonThreadPool, and keeps the answers for some seconds."""

    def __init__(self, lookup: HostLookup, max_concurrent: int) -> None:
        self._lookup = lookup
        self._threads: DaemonThreadPool[AddrInfos] = DaemonThreadPool(max_concurrent)
        self._lookups: dict[tuple[str, int], tuple[float, asyncio.Future[AddrInfos]]] = {}

    async def resolve(self, host: str, port: int) -> list[AddrInfoType]:
        """Return the addresses of a host, which may be an address itself. Raises OSError."""
        if ":" in host:
            return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))]
        if _is_ipv4(host):
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
        try:
            # Shielded: a run that is cancelled leaves the lookup to the others that wait for it.
            result = await asyncio.shield(self._find_lookup(host, port))
        except UnicodeError as error:  # an empty label: "a..b"
            raise OSError(socket.EAI_NONAME, "not a valid host name") from error
        return [(family, kind, protocol, "", address) for family, kind, protocol, _, address in result]

    def forget(self) -> None:
        """Look up every host again."""
        self._lookups.clear()

    def close(self) -> None:
        self._threads.close()

    def _find_lookup(self, host: str, port: int) -> "asyncio.Future[AddrInfos]":
        """Return a lookup that is under way or was answered just now; else begin one."""
        now = asyncio.get_running_loop().time()
        began_at, lookup = self._lookups.get((host, port), (now, None))
        if lookup is not None and (not lookup.done() or (now - began_at < _KEPT_S and _has_answer(lookup))):
            return lookup
        if len(self._lookups) >= _MAX_KEPT_HOSTS:
            self._lookups.clear()
        lookup = self._threads.call(partial(self._lookup, host, port))
        self._lookups[host, port] = now, lookup
        return lookup


def _has_answer(lookup: "asyncio.Future[AddrInfos]") -> bool:
    return not lookup.cancelled() and lookup.exception() is None


def _is_ipv4(host: str) -> bool:
    """Only four decimal numbers. Other spellings (`0x7f.1`) are for the lookup to decide, as for any program."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, UnicodeError, ValueError):
        return False
    return True
