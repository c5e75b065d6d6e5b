"""One POST to a construct: its answer's bytes, or what went wrong with it.

Nothing here knows envelopes (`theatre.oracles.http` gives the bytes their meaning), and nothing
has a deadline; the caller bounds the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from yarl import URL

from theatre.engine.oracle_contract import MAX_ANSWER_BYTES
from theatre.oracles.breakdown import CallFailure
from theatre.oracles.errors import OutboundRefusedError

_OK = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# The first that fits is the reason.
_BROKEN_TRANSPORT: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientSSLError, "tls-failure"),
    (aiohttp.ClientConnectorError, "unreachable"),
    (aiohttp.ClientResponseError, "not-http"),
    (aiohttp.ClientConnectionError, "disconnected"),
    (aiohttp.ClientPayloadError, "disconnected"),
    (OSError, "disconnected"),
)


async def exchange(
    session: aiohttp.ClientSession,
    url: URL,
    body: bytes,
    *,
    idempotency_key: str,
    redacted: Callable[[bytes], bytes],
) -> bytes | CallFailure:
    """Return the body of a response with status 200 that is whole, plain and small enough.

    `redacted` takes out of a body what must not be recorded; an answer in which it finds
    anything is refused.
    """
    try:
        async with session.post(
            url,
            data=body,
            headers={"Idempotency-Key": idempotency_key},
            allow_redirects=False,
        ) as response:
            return _refuse_head(response) or await _read(response, redacted)
    except OutboundRefusedError as error:
        return CallFailure(reason="endpoint-not-allowed", detail=str(error))
    except (aiohttp.ClientError, OSError) as error:
        reason = next(reason for kind, reason in _BROKEN_TRANSPORT if isinstance(error, kind))
        return CallFailure(
            reason=reason, detail=f"expected an answer from {url.origin()}, got: {_words_of(error)}"
        )


def _refuse_head(response: aiohttp.ClientResponse) -> CallFailure | None:
    """Return what is wrong with a response before its body matters."""
    # Not followed: a redirect could lead to an address that the policy refuses.
    if response.status in _REDIRECTS:
        location = response.headers.get("Location", "nowhere")
        return CallFailure(
            reason="redirect",
            detail=f"expected status {_OK}, got {response.status} to {location}",
        )
    encodings = response.headers.getall("Content-Encoding", [])
    # A small compressed body could unpack to gigabytes before the limit is seen.
    if any(encoding.strip().lower() not in ("", "identity") for encoding in encodings):
        return CallFailure(
            reason="content-encoding",
            detail=f"expected an answer without a content encoding, got {encodings}",
        )
    return None


async def _read(
    response: aiohttp.ClientResponse, redacted: Callable[[bytes], bytes]
) -> bytes | CallFailure:
    received = await _body(response)
    body = redacted(received)
    if response.status != _OK:
        return CallFailure(
            reason="http-status",
            detail=f"expected status {_OK}, got {response.status}",
            raw=body,
        )
    # An operator's credential in an answer would be published with the evidence.
    if body != received:
        return CallFailure(
            reason="credential-echoed",
            detail="expected an answer without the value of a request header, got one with it",
            raw=body,
        )
    if len(body) > MAX_ANSWER_BYTES:
        return CallFailure(
            reason="too-large",
            detail=f"expected at most {MAX_ANSWER_BYTES} bytes, got more",
            raw=body,
        )
    return body


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body as far as it fits, and a piece more where it does not."""
    body = bytearray()
    while len(body) <= MAX_ANSWER_BYTES and not response.content.at_eof():
        body += await response.content.readany()
    return bytes(body)


def _words_of(error: Exception) -> str:
    # Its text is at times the repr of half a response.
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the end of the connection"
    # The text of this one also has the whole URL, which may hold a key in its query.
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message
    return str(error) or type(error).__name__
