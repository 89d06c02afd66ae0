"""Which addresses endpoints may reach: public ones, and those private ones that the operator allows. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Listed here instead of using `is_global`, whose results changed between patch releases of Python 3.11 and 3.12: an
# upgrade of Python must not open access to an address.
_SPECIAL_RANGES = {
    "an unspecified address": ("0.0.0.0/8", "::/128"),
    "a private address": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "a shared address of a provider network (carrier-grade NAT)": ("100.64.0.0/10",),
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "a cloud metadata address": ("168.63.129.16/32",),
    "a link-local address, used for cloud metadata": ("169.254.0.0/16",),
    "a link-local address": ("fe80::/10",),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
    "a documentation address": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "a benchmarking address": ("198.18.0.0/15",),
    "a 6to4 address, which embeds another address": ("2002::/16",),
    "a reserved address": ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "2001::/23"),
}
_SPECIAL_NETWORKS = [(ip_network(text), what) for what, texts in _SPECIAL_RANGES.items() for text in texts]
_GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The only range of IPv6 that is assigned to public hosts. Everything else is blocked, including unassigned ranges."""

_NAT64 = IPv6Network("64:ff9b::/96")

_MAX_CACHED_ADDRESSES = 4_096
"""Every connection is checked, and most of them go to a few hosts."""


@lru_cache(_MAX_CACHED_ADDRESSES)
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


@lru_cache(_MAX_CACHED_ADDRESSES)
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


def find_blocked_address(host: str, allowed: EgressAllowlist) -> Address | None:
    """Return the address of a host that is blocked for certain, without asking a name server; else None."""
    try:
        address = parse_address("127.0.0.1" if _is_localhost(host) else host)
    except ValueError:
        return None
    return None if allowed.is_allowed(host, address) else address


def _is_localhost(host: str) -> bool:
    name = _normalize_host(host)
    return name == "localhost" or name.endswith(".localhost")
