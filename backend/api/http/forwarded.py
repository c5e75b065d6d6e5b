"""Whose a request is behind proxies: `X-Forwarded-For`, or `Forwarded` (RFC 7239), of trusted ones.

What a client sends in these headers reaches the service, too. So they are read from the right, the
end that the nearest proxy has written, and only as long as each hop is a trusted proxy.
"""

import ipaddress
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.types import ASGIApp, Receive, Scope, Send

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MAX_HOPS = 20
"""More proxies in a row than anybody has; a longer list is not read to its end."""

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d{1,5})?|([0-9.]+):\d{1,5}", re.ASCII)
_PAIR = re.compile(r'\s*([A-Za-z-]+)\s*=\s*("[^"\\]*"|[^\s",;]+)\s*', re.ASCII)


class ForwardedMiddleware:
    """Puts the client's address into the scope, for limits, where a trusted proxy says it."""

    def __init__(self, app: ASGIApp, *, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = tuple(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and self._trusted and scope.get("client"):
            peer, _ = scope["client"]
            client = client_of(peer, scope["headers"], self._trusted)
            if client != peer:
                # No port: that of the client is not known.
                scope["client"] = (client, 0)
        await self._app(scope, receive, send)


def client_of(peer: str, headers: Sequence[tuple[bytes, bytes]], trusted: Sequence[Network]) -> str:
    """Return the address of the nearest hop that is not a trusted proxy; else that of the peer.

    Where both headers are there, one of them may be the client's own: neither is believed.
    """
    address = parse_address(peer)
    if address is None or not _is_in(address, trusted):
        return peer
    listed = _lines(headers, b"x-forwarded-for")
    elements = _lines(headers, b"forwarded")
    if bool(listed) == bool(elements):
        return peer
    for hop in reversed(listed or [_for(one) for one in elements]):
        found = parse_address(hop)
        # Written by a proxy that is trusted: it does not know, so its own address counts.
        if found is None:
            break
        address = found
        if not _is_in(address, trusted):
            break
    return str(address)


def parse_address(text: str) -> Address | None:
    """Return an IP address, with or without port, brackets and zone; None for anything else.

    An IPv4 address that is written as IPv6 is the IPv4 address.
    """
    found = _WITH_PORT.fullmatch(text.strip())
    bare = (found[1] or found[2] or "") if found else text.strip()
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _lines(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """Return the last elements of a list header, its lines in their order (RFC 9110 §5.3)."""
    whole = ",".join(value.decode("latin-1") for key, value in headers if key == name)
    return whole.rsplit(",", _MAX_HOPS)[-_MAX_HOPS:] if whole else []


def _for(element: str) -> str:
    """Return what one element of `Forwarded` says after `for=`; an empty text without it."""
    for part in element.split(";"):
        found = _PAIR.fullmatch(part)
        if found and found[1].lower() == "for":
            return found[2].strip('"')
    return ""
