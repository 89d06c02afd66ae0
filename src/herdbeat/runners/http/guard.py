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

from herdbeat.runners.http.addresses import Address, Allowed, meant, read_address, specialty


@dataclass(slots=True, kw_only=True)
class Way:
    """The way to one host, and what was refused on it. The addresses of a host are tried in tasks of their own, and
    their errors come back as one text; so the guard writes here what it has refused."""

    host: str
    refused: list[Address] = field(default_factory=list)

    def refusal(self) -> str:
        """Why the host was not called, and what the operator can do about it."""
        address = meant(self.refused[0])
        named = self.host if self.host == str(address) else f"{self.host} ({address})"
        return (
            f"{named} was not called: it is {specialty(address)}."
            f' If it is meant, add "{address}" to egress.allow in the fleet file.'
        )


_WAY: ContextVar[Way] = ContextVar("way")


@contextmanager
def on_the_way_to(host: str) -> Iterator[Way]:
    """Sockets that are made in here are for that host."""
    way = Way(host=host)
    token = _WAY.set(way)
    try:
        yield way
    finally:
        _WAY.reset(token)


class Guard:
    """Makes sockets for addresses that may be reached, and for no others."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    def __call__(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, place = info
        way, address = _WAY.get(), read_address(str(place[0]))
        if not self._allowed.permits(way.host, address):
            way.refused.append(address)
            raise PermissionError(errno.EACCES, "refused by the guard")
        return socket.socket(family, kind, protocol)
