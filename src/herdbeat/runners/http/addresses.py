"""Which addresses an endpoint may reach: public ones, and those private ones that the operator has opened. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Written out, and not asked of `is_global`: that has changed its mind between patch releases of Python 3.11 and 3.12,
# and who upgrades Python must not thereby open a door.
_SPECIAL_IPV4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address of a provider's network"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "the metadata address of a cloud"),
        ("169.254.0.0/16", "a link-local address, where clouds keep their metadata"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for measurements"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_SPECIAL_IPV6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "a 6to4 address, which stands for another one"),
        ("3fff::/20", "an address for documentation"),
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The only part of IPv6 that is given out to the world. All else is refused, also what has no name yet."""

_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> Address:
    """The address that a socket is about to be connected to. Its zone, if any, changes nothing about what it is."""
    return ip_address(text.partition("%")[0])


def unwrap_address(address: Address) -> Address:
    """The address that is really reached: IPv6 has two ways to write one of IPv4 that lead there."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


def describe_special_range(address: Address) -> str:
    """What keeps an address from being a public one, in words; empty if it is public."""
    effective = unwrap_address(address)
    if isinstance(effective, IPv4Address):
        return next((what for network, what in _SPECIAL_IPV4 if effective in network), "")
    found = next((what for network, what in _SPECIAL_IPV6 if effective in network), "")
    return found or ("" if effective in _GLOBAL_IPV6 else "a reserved address")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressAllowlist:
    """The operator's list. A host on it may lead anywhere: who names it trusts whoever answers for its name."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    domains: tuple[str, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "EgressAllowlist":
        """Read `egress.allow`: addresses, ranges of them, hosts, and `*.domain` for every host below one."""
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
        """Whether a request to the host may be connected to that address."""
        return not describe_special_range(address) or self._is_listed(_normalize_host(host), address)

    def _is_listed(self, host: str, address: Address) -> bool:
        if host in self.hosts or any(host.endswith(domain) for domain in self.domains):
            return True
        return any(each in network for network in self.networks for each in (address, unwrap_address(address)))


def _normalize_host(host: str) -> str:
    return host.rstrip(".").lower()
