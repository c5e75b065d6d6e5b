"""The outbound policy applied to the very addresses that aiohttp connects."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from theatre.oracles.errors import (
    AddressNotAllowedError,
    ConstructUnreachableError,
    OutboundRefusedError,
)
from theatre.oracles.outbound_policy import OutboundPolicy

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host name; raises OSError where it has none."""

MAX_CONNECTIONS = 100
# Shorter than the 5 s after which common servers close an idle connection: a call sent into
# the closing would fail for no reason.
_IDLE_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
_LOOKUP_SECONDS = 3.0


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


def guarded_connector(
    policy: OutboundPolicy,
    url: URL,
    *,
    lookup: Lookup = system_lookup,
    is_refused: Callable[[str], bool] = lambda _: False,
) -> aiohttp.TCPConnector:
    """Return a pool of connections for one endpoint that obeys `policy`.

    A name is resolved once for a connection; one refused answer among others refuses it whole.
    What a socket is opened for is judged once more, so that no way through aiohttp (an address
    in the URL is never resolved) leads round the policy, or to an address that `is_refused`. Call
    it in a running loop.
    """
    host, port = url.raw_host or "", url.port or 0

    def open_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        try:
            # Judged at the socket: between lookup and connection DNS may have changed (rebinding).
            policy.judge(str(address[0]), host=host, port=port)
            if is_refused(str(address[0])):
                raise AddressNotAllowedError(
                    f"expected {host} to stay on another machine, got {address[0]}, which is of "
                    "this one"
                )
        except OutboundRefusedError as error:
            raise PermissionError(errno.EACCES, str(error)) from error
        return socket.socket(family=family, type=kind, proto=protocol)

    return aiohttp.TCPConnector(
        resolver=_JudgingResolver(policy, lookup),
        socket_factory=open_socket,
        limit=MAX_CONNECTIONS,
        keepalive_timeout=_IDLE_SECONDS,
    )


async def connect_once(policy: OutboundPolicy, url: URL, *, lookup: Lookup) -> str:
    """Open one connection that `policy` allows to the host of `url`, and close it again.

    Returns the address that took it.

    Raises OutboundRefusedError for an address that the policy refuses, and
    ConstructUnreachableError where there is none or it takes no connection within ten seconds.
    """
    host, port = url.raw_host or "", url.port or 0
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            results = await _JudgingResolver(policy, lookup).resolve(host, port)
            return await _connect_first(results)
    except TimeoutError as error:
        raise ConstructUnreachableError(
            f"expected {url.origin()} to accept a connection within {_PATIENCE_SECONDS:g} s, "
            "got none"
        ) from error
    except OSError as error:
        raise ConstructUnreachableError(
            f"expected {url.origin()} to accept a connection, got: {error}"
        ) from error


async def _connect_first(results: Sequence[ResolveResult]) -> str:
    """Return the first address that could be connected; raises the OSError of the last."""
    for result in results:
        try:
            _, writer = await asyncio.open_connection(result["host"], result["port"])
        except OSError:
            if result is results[-1]:
                raise
        else:
            writer.close()
            return result["host"]
    raise OSError(errno.EADDRNOTAVAIL, "expected an address, got none")


class _JudgingResolver(AbstractResolver):
    """Hands on the addresses of a host, if all of them may be connected."""

    def __init__(self, policy: OutboundPolicy, lookup: Lookup) -> None:
        self._policy = policy
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raise OutboundRefusedError for one bad address, OSError where there is none."""
        addresses = await self._lookup(host, port)
        if not addresses:
            raise OSError(errno.EADDRNOTAVAIL, f"expected an address for {host}, got none")
        # Every address: a name that also resolves to a private one could lead there next time.
        for address in addresses:
            self._policy.judge(address, host=host, port=port)
        results = [_result(host, address, port) for address in addresses]
        return [result for result in results if family in (socket.AF_UNSPEC, result["family"])]

    async def close(self) -> None:
        """Hold nothing, so let go of nothing."""


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
