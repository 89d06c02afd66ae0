"""Which addresses are public, and which of the others the operator's list allows."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.runners.http.addresses import EgressAllowlist, describe_special_range, parse_address, unwrap_address

PRIVATE = [
    ("0.0.0.0", "an unspecified address"),
    ("10.1.2.3", "a private address"),
    ("100.64.0.1", "a shared address of a provider network (carrier-grade NAT)"),
    ("100.100.100.200", "a shared address of a provider network (carrier-grade NAT)"),
    ("127.0.0.1", "a loopback address"),
    ("127.255.255.254", "a loopback address"),
    ("168.63.129.16", "a cloud metadata address"),
    ("169.254.169.254", "a link-local address, used for cloud metadata"),
    ("172.31.255.255", "a private address"),
    ("192.0.0.192", "a reserved address"),
    ("192.168.1.1", "a private address"),
    ("198.19.0.1", "a benchmarking address"),
    ("224.0.0.1", "a multicast address"),
    ("255.255.255.255", "a reserved address"),
    ("::", "an unspecified address"),
    ("::1", "a loopback address"),
    ("::1%1", "a loopback address"),
    ("::127.0.0.1", "a reserved address"),
    ("::ffff:127.0.0.1", "a loopback address"),
    ("::ffff:a9fe:a9fe", "a link-local address, used for cloud metadata"),
    ("::ffff:0:127.0.0.1", "a reserved address"),
    ("64:ff9b::7f00:1", "a loopback address"),
    ("64:ff9b::10.0.0.1", "a private address"),
    ("64:ff9b:1::1", "a reserved address"),
    ("100::1", "a reserved address"),
    ("2001::1", "a reserved address"),
    ("2001:db8::1", "a documentation address"),
    ("2002:7f00:1::", "a 6to4 address, which embeds another address"),
    ("fd00:ec2::254", "a private address"),
    ("fe80::1%eth0", "a link-local address"),
    ("fec0::1", "a reserved address"),
    ("ff02::1", "a multicast address"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize(("text", "what"), PRIVATE)
def test_an_address_that_is_not_public_is_described(text: str, what: str) -> None:
    assert describe_special_range(parse_address(text)) == what


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_needs_no_permission(text: str) -> None:
    address = parse_address(text)

    assert describe_special_range(address) == ""
    assert EgressAllowlist().is_allowed("example.com", address)


@given(st.ip_addresses(v=4))
def test_an_embedded_ipv4_address_decides(address: IPv4Address) -> None:
    number = int(address)
    disguises = [IPv6Address(0xFFFF << 32 | number), IPv6Address(0x64_FF9B << 96 | number)]

    assert [unwrap_address(each) for each in disguises] == [address, address]
    assert [describe_special_range(each) for each in disguises] == [describe_special_range(address)] * 2


@given(st.ip_addresses())
def test_no_address_that_python_calls_private_is_public(address: IPv4Address | IPv6Address) -> None:
    real = unwrap_address(address)
    is_private = real.is_private or real.is_loopback or real.is_link_local or real.is_multicast or real.is_reserved

    assert describe_special_range(address) or not is_private


@pytest.mark.parametrize(
    ("entry", "host", "address", "permitted"),
    [
        ("10.1.2.3/32", "api", "10.1.2.3", True),
        ("10.1.2.3/32", "api", "10.1.2.4", False),
        ("10.1.2.3/32", "api", "::ffff:10.1.2.3", True),
        ("127.0.0.0/8", "localhost", "127.0.0.1", True),
        ("127.0.0.0/8", "localhost", "::1", False),
        ("fe80::/10", "printer", "fe80::1%eth0", True),
        ("db.internal", "db.internal", "10.0.0.1", True),
        ("db.internal", "DB.Internal.", "10.0.0.1", True),
        ("db.internal", "web.internal", "10.0.0.1", False),
        ("db.internal", "evil.db.internal", "10.0.0.1", False),
        ("*.internal", "db.internal", "10.0.0.1", True),
        ("*.internal", "internal", "10.0.0.1", False),
        ("*.internal", "notinternal", "10.0.0.1", False),
    ],
)
def test_an_entry_of_the_allowlist_allows_only_what_it_names(
    entry: str, host: str, address: str, permitted: bool
) -> None:
    assert EgressAllowlist.parse([entry]).is_allowed(host, parse_address(address)) is permitted
