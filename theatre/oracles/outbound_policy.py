"""Where a call to a construct may go, and nowhere else (docs/contract/construct.md §3).

The policy is pure: it judges URLs and addresses. A client connects nothing but addresses that were
judged, never names, so a name that changes its answer gains nothing. One module, longer than
others: what is judged and where it is judged must be read together.
"""

import asyncio
import contextlib
import errno
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias, TypeVar

from yarl import URL

from theatre.engine.oracle_contract import NOT_ISOLATED, REMOTE, Isolation
from theatre.oracles.errors import (
    AddressNotAllowedError,
    ConstructUnreachableError,
    OutboundPolicyError,
    OutboundRefusedError,
)

# What kind of place an IP address is, and which addresses hide inside it.
#
# A table of our own, after the IANA special-purpose registries: `ipaddress.is_global` calls
# NAT64, 6to4 and multicast addresses global, and answers by the version of the interpreter.


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


_MAX_URL = 2048
_MAX_HOST_NAME = 253
_MAX_PORT = 65535
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,62})"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
# As browsers decide it: such a host is an IPv4 address in some spelling, or nothing.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.ASCII | re.IGNORECASE)
_ALLOWED_BY_NAME = frozenset({"loopback", "private", "shared"})


class _Exception(NamedTuple):
    """One entry of the operator's list: a host name or a network, and a port or any."""

    host: str | None
    network: Network | None
    port: int | None

    def covers(self, address: Address, kind: str, *, host: str, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address in self.network
        return self.host == host and kind in _ALLOWED_BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundPolicy:
    """Public addresses, and what the operator allows in addition.

    Each entry of `allow` is a host name, an address or a network in CIDR form, with `:port` for
    one port only (IPv6 in brackets then). A name lifts the refusal of loopback, private and
    shared (100.64.0.0/10) addresses that it resolves to; any other kind, and an IPv4 address
    inside an IPv6 form, is allowed by its own address or network only.

    Raises OutboundPolicyError for an entry of another form.
    """

    allow: tuple[str, ...] = ()
    _exceptions: tuple[_Exception, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exceptions", tuple(_read_entry(text) for text in self.allow))

    def check_url(self, text: str) -> URL:
        """Return the URL of an endpoint, parsed once and for all.

        Raises OutboundRefusedError for another scheme than http and https, credentials, a
        fragment, a host that is no plain host name and no address in its usual spelling, and
        an address that the policy refuses. Names are judged when they are resolved.
        """
        url = _parse(text)
        host = url.raw_host or ""
        if not 0 < len(host) <= _MAX_HOST_NAME:
            raise OutboundRefusedError(f"expected a URL with a host, got {str(url)!r:.100}")
        if _HOST_NAME.fullmatch(host) and not _ENDS_IN_NUMBER.fullmatch(host):
            return url
        try:
            ip_address(host)
        except ValueError as error:
            raise OutboundRefusedError(
                f"expected a host name, an IPv4 address in four decimal numbers or an IPv6 "
                f"address in brackets, got {host!r:.100}"
            ) from error
        self.judge(host, host=host, port=url.port or 0)
        return url

    def judge(self, address: str, *, host: str, port: int) -> None:
        """Raise AddressNotAllowedError unless `address`, found for `host`, may be connected.

        An IPv6 form that carries IPv4 addresses is judged with each of them.
        """
        try:
            outermost = ip_address(address)
        except ValueError as error:
            raise OutboundRefusedError(f"expected an IP address, got {address!r:.100}") from error
        name = host.lower().rstrip(".")
        for layer in embedded_addresses(outermost):
            kind = classify_address(layer)
            if kind is not None and not any(
                entry.covers(layer, kind, host=name, port=port) for entry in self._exceptions
            ):
                inside = "" if layer == outermost else f" (it carries {layer})"
                refusal = AddressNotAllowedError(
                    f"expected a public address for {host} port {port}, got {address}{inside}, "
                    f"which is {kind}; only the operator can allow it"
                )
                if kind == "loopback":
                    refusal.entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                raise refusal

    def judge_found(self, url: URL, addresses: Sequence[str]) -> str | None:
        """Return what is doubtful of the addresses that a host has now; None where nothing is.

        Raises AddressNotAllowedError where it has some and none may be connected. Whatever is
        found now, what is connected later is judged again.
        """
        host, port, refused = url.raw_host or "", url.port or 0, []
        for address in addresses:
            try:
                self.judge(address, host=host, port=port)
            except OutboundRefusedError as error:
                refused.append(error)
        if refused and len(refused) == len(addresses):
            raise refused[0]
        if refused:
            return "expected a host that calls may go to, got one with addresses that are refused"
        return None if addresses else "expected a host name that resolves, got none that does now"


def _parse(text: str) -> URL:
    # Whitespace and controls are dropped by some parsers, and not by others.
    if len(text) > _MAX_URL or not text.isprintable() or " " in text:
        raise OutboundRefusedError(
            f"expected a URL of at most {_MAX_URL} printable characters, got {text[:100]!r}"
        )
    authority = re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        # Not echoed: what is there is a secret.
        raise OutboundRefusedError(
            "expected a URL without credentials, got some: send them as request headers"
        )
    try:
        url = URL(text)
    except ValueError as error:
        raise OutboundRefusedError(f"expected a URL, got {text!r:.100}: {error}") from error
    if url.scheme not in ("http", "https"):
        raise OutboundRefusedError(f"expected an http or https URL, got {text!r:.100}")
    if url.raw_fragment or text.endswith("#"):
        raise OutboundRefusedError(f"expected a URL without a fragment, got {text!r:.100}")
    return url


def _read_entry(text: str) -> _Exception:
    place, port = _split_port(text)
    try:
        network = ip_network(place)
    except ValueError:
        network = None
    name = place.lower().rstrip(".")
    if network is None and (not _HOST_NAME.fullmatch(name) or _ENDS_IN_NUMBER.fullmatch(name)):
        raise OutboundPolicyError(
            f"expected a host name, an address or a network, with a port or without, got {text!r}"
        )
    return _Exception(host=None if network else name, network=network, port=port)


def _split_port(text: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[(.*)\](?::(\d+))?", text, re.ASCII)
    plain = re.fullmatch(r"([^:]*):(\d+)", text, re.ASCII)
    match = bracketed or plain
    if match is None:
        return text, None
    place, digits = match.groups()
    if digits is None:
        return place, None
    port = int(digits) if len(digits) <= len(str(_MAX_PORT)) else 0
    if not 0 < port <= _MAX_PORT:
        raise OutboundPolicyError(f"expected a port from 1 to {_MAX_PORT}, got {text!r:.100}")
    return place, port


# The policy applied to the very addresses that are connected.


Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host name; raises OSError where it has none."""

_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)

_PATIENCE_SECONDS = 10.0
_NEXT_SECONDS = 3.0
"""After which another address of a host is tried: of one kind none may be reached from here."""
_LOOKUP_SECONDS = 3.0
_FOUND_SECONDS = 10.0


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def resolve_addresses(
    policy: OutboundPolicy, places: Iterable[str], *, lookup: Lookup = system_lookup
) -> Mapping[str, Sequence[str]]:
    """Return the addresses that each URL's host has now, none for one that does not resolve.

    What `policy` refuses as written is not looked up. One after the other, in three seconds
    altogether: what is slower counts as not resolved.
    """
    found: dict[str, Sequence[str]] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOKUP_SECONDS):
            for place in dict.fromkeys(places):
                # No such name, or none that a name server is asked for.
                with contextlib.suppress(OutboundRefusedError, socket.gaierror, UnicodeError):
                    url = policy.check_url(place)
                    found[place] = await lookup(url.raw_host or "", url.port or 0)
    return found


def is_own_address(address: str) -> bool:
    """Return whether an IP address is one of this machine's: a socket can be bound to no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one:
        try:
            one.bind((address, 0))
        except OSError as error:
            # Whatever else went wrong says nothing of the address: it counts as our own.
            return error.errno != errno.EADDRNOTAVAIL
    return True


def judged_lookup(
    policy: OutboundPolicy,
    lookup: Lookup = system_lookup,
    *,
    is_refused: Callable[[str], bool] = lambda _: False,
) -> Lookup:
    """Return the lookup whose addresses may all be connected.

    It raises OutboundRefusedError where `policy` refuses one of them or `is_refused` does, and
    OSError where there is none. What was found is good for ten seconds, and judged each time.
    """
    found: dict[tuple[str, int], tuple[float, Sequence[str]]] = {}

    async def judged(host: str, port: int) -> Sequence[str]:
        now = asyncio.get_running_loop().time()
        until, addresses = found.get((host, port), (now, ()))
        if until <= now:
            addresses = await lookup(host, port)
            found[host, port] = now + _FOUND_SECONDS, addresses
        if not addresses:
            raise OSError(errno.EADDRNOTAVAIL, f"expected an address for {host}, got none")
        # Every address: a name that also resolves to a private one could lead there next time.
        for address in addresses:
            policy.judge(address, host=host, port=port)
            if is_refused(address):
                raise AddressNotAllowedError(
                    f"expected {host} to stay on another machine, got {address}, which is of "
                    "this one"
                )
        return addresses

    return judged


async def connect_first(
    addresses: Sequence[str],
    port: int,
    factory: Callable[[], _Protocol],
    *,
    host: str,
    tls: ssl.SSLContext | None = None,
) -> tuple[str, asyncio.Transport, _Protocol]:
    """Connect the first address that takes it; raises the OSError of the last.

    `host` is what the certificate must be for, where there is `tls`.
    """
    name = host.rstrip(".") if tls else None
    loop = asyncio.get_running_loop()
    for address in addresses:
        is_last = address == addresses[-1]
        try:
            # An address, not a name: what was judged is what is connected.
            async with asyncio.timeout(None if is_last else _NEXT_SECONDS):
                return address, *await loop.create_connection(
                    factory, address, port, ssl=tls, server_hostname=name
                )
        except OSError:
            if is_last:
                raise
    raise OSError(errno.EADDRNOTAVAIL, "expected an address, got none")


async def connect_once(policy: OutboundPolicy, url: URL, *, lookup: Lookup) -> str:
    """Open one connection that `policy` allows to the host of `url`, and close it again.

    Returns the address that took it.

    Raises OutboundRefusedError for an address that the policy refuses, and
    ConstructUnreachableError where there is none or it takes no connection within ten seconds.
    """
    host, port = url.raw_host or "", url.port or 0
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            addresses = await judged_lookup(policy, lookup)(host, port)
            address, transport, _ = await connect_first(
                addresses, port, asyncio.Protocol, host=host
            )
    except TimeoutError as error:
        raise ConstructUnreachableError(
            f"expected {url.origin()} to accept a connection within {_PATIENCE_SECONDS:g} s, "
            "got none"
        ) from error
    except OSError as error:
        raise ConstructUnreachableError(
            f"expected {url.origin()} to accept a connection, got: {error}; start it, or correct "
            "the address"
        ) from error
    transport.abort()
    return address


class Distance:
    """Whether what a URL leads to is on another machine, as the last connection showed.

    Where it is, no address of this machine is connected from then on: a name may come to mean
    another place.
    """

    def __init__(self, policy: OutboundPolicy, url: URL, *, lookup: Lookup) -> None:
        self._policy = policy
        self._url = url
        self._lookup = lookup
        self._is_elsewhere = False

    async def probe(self) -> Isolation:
        """Connect once; nothing holds what answers from an address of this machine.

        What does not answer is not known to be elsewhere.
        """
        try:
            address = await connect_once(self._policy, self._url, lookup=self._lookup)
        except (ConstructUnreachableError, OutboundRefusedError):
            return NOT_ISOLATED
        self._is_elsewhere = not is_own_address(address)
        return REMOTE if self._is_elsewhere else NOT_ISOLATED

    def refuses(self, address: str) -> bool:
        """Return whether an address is this machine's, where the URL led to another."""
        return self._is_elsewhere and is_own_address(address)
