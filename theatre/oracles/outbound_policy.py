"""Where a call to a construct may go (docs/contract/construct.md §3).

Pure: it judges URLs and addresses and connects to nothing. `theatre.oracles.outbound_connector`
brings every address that is about to be connected before it, so a name that changes its answer
gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from yarl import URL

from theatre.oracles.errors import (
    AddressNotAllowedError,
    OutboundPolicyError,
    OutboundRefusedError,
)
from theatre.oracles.outbound_addresses import (
    Address,
    Network,
    classify_address,
    embedded_addresses,
)

_MAX_URL = 2048
_MAX_HOST_NAME = 253
_MAX_PORT = 65535
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,62})"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
# As browsers decide it: such a host is an IPv4 address in some spelling, or nothing.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.ASCII | re.IGNORECASE)
_ALLOWED_BY_NAME = frozenset({"loopback", "private", "shared"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exception:
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
        """Read the entries once."""
        object.__setattr__(self, "_exceptions", tuple(_read_entry(text) for text in self.allow))

    def check_url(self, text: str) -> URL:
        """Return the URL of an endpoint, parsed once and for all.

        Raises OutboundRefusedError for another scheme than http and https, credentials, a
        fragment, a host that is no plain host name and no address in its usual spelling, and
        an address that the policy refuses. Names are judged when they are resolved.
        """
        url = _parse(text)
        host = _host_of(url)
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
        for layer in embedded_addresses(outermost):
            kind = classify_address(layer)
            if kind is not None and not self._allows(layer, kind, host=host, port=port):
                inside = "" if layer == outermost else f" (it carries {layer})"
                raise AddressNotAllowedError(
                    f"expected a public address for {host} port {port}, got {address}{inside}, "
                    f"which is {kind}; only the operator can allow it"
                )

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

    def _allows(self, address: Address, kind: str, *, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return any(entry.covers(address, kind, host=name, port=port) for entry in self._exceptions)


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


def _host_of(url: URL) -> str:
    host = url.raw_host
    if not host or len(host) > _MAX_HOST_NAME:
        raise OutboundRefusedError(f"expected a URL with a host, got {str(url)!r:.100}")
    return host


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
