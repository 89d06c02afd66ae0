"""Names of hosts into addresses, in threads of our own.

Why not the loop's own: its few threads are shared, so six hosts whose name server is silent would keep everybody else
from being called, and Python waits for them at exit.
"""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from herdbeat.runners.threads import DaemonThreadPool

AddrInfos = Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]
HostLookup = Callable[[str, int], AddrInfos]
"""Asks for the addresses of a host, as `socket.getaddrinfo` does; a test may answer what it likes."""


def lookup_host(host: str, port: int) -> AddrInfos:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class ThreadedResolver(AbstractResolver):
    def __init__(self, lookup: HostLookup, max_concurrent: int) -> None:
        self._lookup = lookup
        self._threads: DaemonThreadPool[AddrInfos | OSError | UnicodeError] = DaemonThreadPool(max_concurrent)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._threads.call(partial(_lookup_safely, self._lookup, host, port))
        if isinstance(found, UnicodeError):
            raise OSError(socket.EAI_NONAME, "it is not the name of a host") from found
        if isinstance(found, OSError):
            raise found
        return [_to_resolve_result(host, each) for each in found if family in (socket.AF_UNSPEC, each[0])]

    async def close(self) -> None:
        self._threads.close()


def _lookup_safely(lookup: HostLookup, host: str, port: int) -> AddrInfos | OSError | UnicodeError:
    """What was found, or the error: a thread must not raise. A name with an empty part is a UnicodeError."""
    try:
        return lookup(host, port)
    except (OSError, UnicodeError) as error:
        return error


def _to_resolve_result(host: str, info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> ResolveResult:
    family, _, protocol, _, sockaddr = info
    zone = f"%{sockaddr[3]}" if family == socket.AF_INET6 and sockaddr[3] else ""  # link-local leads nowhere without it
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(
        hostname=host, host=f"{sockaddr[0]}{zone}", port=sockaddr[1], family=family, proto=protocol, flags=flags
    )
