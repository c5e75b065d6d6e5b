"""The outbound policy for what speaks through httpx2: the SDKs of providers and of MCP.

A name is resolved here, every address is judged, and the connection goes to the very address that
was. An answer is read up to a limit and never unpacked.
"""

from collections.abc import AsyncIterator, Callable

import httpx2

from theatre.oracles.errors import OutboundRefusedError
from theatre.oracles.outbound_policy import Lookup, OutboundPolicy, judged_lookup, system_lookup
from theatre.providers import tls


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends a request only to an address that `policy` allows.

    Raises httpx2.ConnectError where it may not, or the host has no address, and
    httpx2.ReadError for a compressed answer and one of more than `max_bytes`.
    """

    def __init__(
        self,
        policy: OutboundPolicy,
        *,
        max_bytes: int,
        lookup: Lookup = system_lookup,
        is_refused: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._max_bytes = max_bytes
        self._lookup = judged_lookup(policy, lookup, is_refused=is_refused)
        self._transport = httpx2.AsyncHTTPTransport(verify=tls())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first of the addresses of its host."""
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            address, *_ = await self._lookup(host, port)
        except (OSError, OutboundRefusedError) as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        # The name stays what the server is asked for, and what its certificate must be for.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=address)
        # A small compressed body could unpack to gigabytes before the limit is seen.
        request.headers["Accept-Encoding"] = "identity"
        response = await self._transport.handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("expected an answer without a content encoding", request=request)
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that is read up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what comes; raises httpx2.ReadError past the limit."""
        received = 0
        async for chunk in self._stream:
            received += len(chunk)
            if received > self._limit:
                raise httpx2.ReadError(f"expected at most {self._limit} bytes, got more")
            yield chunk

    async def aclose(self) -> None:
        """Close the connection of the body."""
        await self._stream.aclose()
