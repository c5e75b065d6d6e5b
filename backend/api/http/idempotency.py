"""`Idempotency-Key`: one effect and one answer, however often a request comes (docs/adr/0083).

The key is claimed when the request's transaction begins, and the answer is stored with it before
that transaction is committed: effect and answer are stored together, or neither is.
"""

import hashlib
import re
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple

from fastapi import Depends, Request
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import Response, StreamingResponse

from backend.api.http.service import get_service
from backend.errors import RequestInvalidError, RequestRefusedError, RequestViolation
from backend.repositories.idempotency import KeyedRequest, claim, find_answer, store_answer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_KEY = re.compile(r'"?([!#-\[\]-~ ]{1,255})"?', re.ASCII)
_LOCK_NOT_AVAILABLE = "55P03"
_PREFIX = re.compile(r"/api(/v1)?(?=/)")


class ReplayedResponse(Exception):  # noqa: N818 - no error: the answer to a request that had its effect
    """The request was answered before: this is the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _Claimed(NamedTuple):
    connection: AsyncConnection
    request: KeyedRequest


async def claim_key(request: Request, connection: AsyncConnection) -> None:
    """Claim the key of a request in its transaction, if it has one and its route stores answers.

    Where it was claimed before, raises ReplayedResponse, or RequestRefusedError for another
    request and for one that has not ended.
    """
    keyed = await _read_key(request)
    if keyed is None:
        return
    now = get_service(request).clock()
    try:
        is_first = await claim(connection, keyed, at=now)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise RequestRefusedError(
                "idempotency-in-progress", "the first request with this key has not ended yet"
            ) from None
        raise
    if is_first:
        request.state.claimed = _Claimed(connection, keyed)
        return
    kept = await find_answer(connection, keyed)
    if kept is None:
        raise RequestRefusedError(
            "idempotency-in-progress", "the answer under this key has just expired"
        )
    if not kept.belongs_to(keyed):
        raise RequestRefusedError(
            "idempotency-mismatch",
            "this key was used for a request with another method, path or body",
        )
    raise ReplayedResponse(Response(kept.answer, kept.status, {**kept.headers, REPLAYED: "true"}))


async def store_response(request: Request, response: Response) -> None:
    """Store the answer in the transaction that claimed the request's key, if one did."""
    claimed: _Claimed | None = getattr(request.state, "claimed", None)
    if claimed is None:
        return
    if isinstance(response, StreamingResponse):
        raise TypeError("expected an answer that can be kept, got one that is streamed")
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    await store_answer(
        claimed.connection,
        claimed.request,
        status=response.status_code,
        headers=headers,
        answer=bytes(response.body),
    )


async def _read_key(request: Request) -> KeyedRequest | None:
    given = request.headers.get(HEADER)
    principal, declared = request.state.principal, request.state.declared
    if given is None or request.method != "POST" or not declared.idempotent or principal is None:
        return None
    found = _KEY.fullmatch(given)
    if found is None:
        raise RequestInvalidError(
            [
                RequestViolation(
                    f"header:{HEADER}",
                    "idempotency-key",
                    "expected 1 to 255 visible ASCII characters, with or without quotes",
                )
            ]
        )
    path = _PREFIX.sub("", request.url.path, count=1)
    query = f"?{request.url.query}" if request.url.query else ""
    return KeyedRequest(
        user_id=principal.user_id,
        key=found[1],
        method=request.method,
        path=path + query,
        body_sha256=hashlib.sha256(await request.body()).hexdigest(),
    )


# The transaction of a request: committed before the answer is sent, or no answer is 2xx.


async def get_transaction(request: Request) -> AsyncIterator[AsyncConnection]:
    """Yield a connection in a transaction. What is raised in the route rolls it back.

    The idempotency key of a POST, where it has one, is claimed in it.
    """
    async with get_service(request).engine.begin() as connection:
        await claim_key(request, connection)
        yield connection


async def get_reading(request: Request) -> AsyncIterator[AsyncConnection]:
    """Yield a connection in autocommit mode, for routes that only read.

    That saves the two round trips which begin and end a transaction. What is read by two
    statements may be of two moments, as it may in a transaction that is READ COMMITTED.
    """
    async with get_service(request).engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")


# scope="function" matters: FastAPI's default commits after the answer is sent (docs/adr/0079).
Transaction = Annotated[AsyncConnection, Depends(get_transaction, scope="function")]
Reading = Annotated[AsyncConnection, Depends(get_reading, scope="function")]
