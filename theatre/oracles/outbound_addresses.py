"""What kind of place an IP address is, and which addresses hide inside it.

A table of our own, after the IANA special-purpose registries: `ipaddress.is_global` calls
NAT64, 6to4 and multicast addresses global, and answers by the version of the interpreter.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_IPV4_BITS = 32
_IPV4_MASK = 2**_IPV4_BITS - 1

# The first kind that holds an address is its kind.
_KINDS: tuple[tuple[str, ...], ...] = (
    (
        # AWS and most others; ECS tasks; Azure's wire server; Alibaba; Oracle; AWS; GCP
        "metadata",
        "169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192",
        "fd00:ec2::254 fd20:ce::254",
    ),
    ("unspecified", "0.0.0.0/8 ::/128"),
    ("loopback", "127.0.0.0/8 ::1/128"),
    ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"),
    ("shared", "100.64.0.0/10"),
    ("link-local", "169.254.0.0/16 fe80::/10"),
    ("site-local", "fec0::/10"),
    ("multicast", "224.0.0.0/4 ff00::/8"),
    ("ipv4-mapped", "::ffff:0:0/96"),
    ("ipv4-translated", "::ffff:0:0:0/96"),
    ("ipv4-compatible", "::/96"),
    ("nat64", "64:ff9b::/96 64:ff9b:1::/48"),
    ("6to4", "2002::/16 192.88.99.0/24"),
    ("teredo", "2001::/32"),
    (
        # Protocol assignments, documentation, benchmarking, future use.
        "reserved",
        "192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4",
        "2001::/23 2001:db8::/32 3fff::/20",
    ),
)
_TABLE: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(text) for text in " ".join(networks).split()))
    for kind, *networks in _KINDS
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")

# Where an IPv6 form keeps an IPv4 address: the network, and how far from its last bit.
_EMBEDDED: tuple[tuple[IPv6Network, int], ...] = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("64:ff9b:1::/48"), 0),
    (IPv6Network("2002::/16"), 80),
    (IPv6Network("2001::/32"), 64),
)
_TEREDO = IPv6Network("2001::/32")


def classify_address(address: Address) -> str | None:
    """Return why an address is no ordinary public one (`loopback`, …), None where it is one."""
    for kind, networks in _TABLE:
        if any(address in network for network in networks):
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "reserved"
    return None


def embedded_addresses(address: Address) -> tuple[Address, ...]:
    """Return the address and then every IPv4 address that its form carries inside."""
    if isinstance(address, IPv4Address):
        return (address,)
    bits = int(address)
    if bits <= 1:  # `::` and `::1` are no IPv4 addresses in the oldest of the forms
        return (address,)
    inner = [
        IPv4Address((bits >> shift) & _IPV4_MASK)
        for network, shift in _EMBEDDED
        if address in network
    ]
    if address in _TEREDO:
        inner.append(IPv4Address(~bits & _IPV4_MASK))
    return (address, *inner)
