"""The egress guard: endpoints may reach public addresses, and those private ones that the operator allows.

`EgressAllowlist` decides, and is pure. `guarded_socket` enforces the decision where every socket is created: it sees
the address that is really connected to, at that moment, whatever the URL says, a name server has answered before, or a
redirect names. `ThreadedResolver` looks up host names in threads of its own: the loop has few threads, and six hosts
with a silent name server would block all others, and the end of the process.
"""

import errno
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType

from herdbeat.runners.thread_pool import DaemonThreadPool

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Listed here instead of using `is_global`, whose results changed between patch releases of Python 3.11 and 3.12: an
# upgrade of Python must not open access to an address.
_SPECIAL_RANGES = {
    "an unspecified address": ("0.0.0.0/8", "::/128"),
    "a private address": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "a shared address of a provider's network": ("100.64.0.0/10",),
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "the metadata address of a cloud": ("168.63.129.16/32",),
    "a link-local address, where clouds keep their metadata": ("169.254.0.0/16",),
    "a link-local address": ("fe80::/10",),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "an address for documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "an address for measurements": ("198.18.0.0/15",),
    "a 6to4 address, which stands for another one": ("2002::/16",),
    "a reserved address": ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "2001::/23"),
}
_SPECIAL_NETWORKS = [(ip_network(text), what) for what, texts in _SPECIAL_RANGES.items() for text in texts]
_GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The only range of IPv6 that is assigned to public hosts. Everything else is blocked, including unassigned ranges."""

_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> Address:
    """Parse an address, without its IPv6 zone, which makes no difference here."""
    return ip_address(text.partition("%")[0])


def unwrap_address(address: Address) -> Address:
    """Return the address that is really reached: mapped and NAT64 addresses of IPv6 lead to one of IPv4."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


def describe_special_range(address: Address) -> str:
    """Return what kind of non-public address it is, in words; empty if it is public."""
    effective = unwrap_address(address)
    is_assigned = isinstance(effective, IPv4Address) or effective in _GLOBAL_IPV6
    kinds = (what for network, what in _SPECIAL_NETWORKS if effective in network)
    return next(kinds, "" if is_assigned else "a reserved address")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressAllowlist:
    """The operator's list. A listed host may resolve to any address: listing it means trusting its name server."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    domains: tuple[str, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "EgressAllowlist":
        """Parse `egress.allow`: addresses, address ranges, hosts, and `*.domain` for every host of a domain."""
        networks: list[Network] = []
        hosts: set[str] = set()
        domains: list[str] = []
        for entry in entries:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                name = _normalize_host(entry)
                if name.startswith("*."):
                    domains.append(name[1:])
                else:
                    hosts.add(name)
        return cls(networks=tuple(networks), hosts=frozenset(hosts), domains=tuple(domains))

    def is_allowed(self, host: str, address: Address) -> bool:
        """True if a request to the host may connect to that address."""
        name = _normalize_host(host)
        if not describe_special_range(address) or name in self.hosts or name.endswith(self.domains):
            return True
        return any(form in network for network in self.networks for form in (address, unwrap_address(address)))


def _normalize_host(host: str) -> str:
    return host.rstrip(".").lower()


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
            f"{named} was not called: it is {describe_special_range(address)}."
            f' If it is meant, add "{address}" to egress.allow in the fleet file.'
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
            raise OSError(socket.EAI_NONAME, "it is not the name of a host") from error
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
