"""Asking constructs behind HTTP in the tests: an adapter, and servers that behave in some way."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.theatre.oracles.loopback import LoopbackServer, Received, Respond, envelope, response
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.outbound_policy import OutboundPolicy

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
LOOPBACK = OutboundPolicy(allow=("127.0.0.1",))


def adapter_of(url: str, **settings: Any) -> HTTPOracleAdapter:  # noqa: ANN401 - as the class
    """An adapter whose clocks stand still, so that attempts compare whole."""
    given_settings = {"policy": LOOPBACK, "clock": lambda: NOW, "monotonic": lambda: 0.0}
    return HTTPOracleAdapter(url, **{**given_settings, **settings})


def ask(
    server: LoopbackServer,
    *requests: OracleInvocationRequest,
    **settings: Any,  # noqa: ANN401 - as the class
) -> list[Attempt]:
    """Put requests to a server one after the other over one adapter, and leave it alone."""

    async def session() -> list[Attempt]:
        adapter = adapter_of(server.url, **settings)
        try:
            return [await adapter.invoke(request) for request in requests]
        finally:
            await adapter.aclose()

    attempts = asyncio.run(session())
    assert server.is_left_alone()
    return attempts


def answering(whole_response: bytes) -> Respond:
    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(whole_response)

    return respond


def closing(whole_response: bytes) -> Respond:
    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(whole_response)
        writer.close()

    return respond


def saying(**members: object) -> Respond:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request, **members)))

    return respond
