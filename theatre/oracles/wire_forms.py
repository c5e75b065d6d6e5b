"""What goes over the wire to a construct behind HTTP, and how its answer is read.

`http@1` sends the envelope and wants one back. `plain_http@1` is for services that know no
envelope: they are sent the bare input, and what they answer is the output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes, parse_json
from theatre.engine.errors import ParseError
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationRequest,
    failed_attempt,
    read_answer,
)

# A call without a readable answer, and the attempt that is recorded for it.


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFailure:
    """Why there is no answer, with a stable `reason`; the version stands in for a reported one."""

    reason: str
    detail: str
    status: InvocationStatus = InvocationStatus.ERROR
    raw: bytes | None = None
    reported_version: str | None = None

    def as_attempt(
        self, request: OracleInvocationRequest, *, latency_ms: int, responded_at: datetime
    ) -> Attempt:
        """Return the attempt that is recorded for `request`."""
        attempt = failed_attempt(
            request,
            self.status,
            reason=self.reason,
            detail=self.detail,
            latency_ms=latency_ms,
            responded_at=responded_at,
            raw=self.raw,
        )
        response = replace(attempt.response, construct_version=self.reported_version)
        return replace(attempt, response=response)


async def wait_within(exchange: Awaitable[_T], *, seconds: float) -> _T | CallFailure:
    """Return what `exchange` comes to, or that it came to nothing within `seconds`."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await exchange
    except TimeoutError:
        if not deadline.expired():
            raise
        return CallFailure(
            reason="timeout",
            detail=f"expected an answer within {seconds:g} s, got none",
            status=InvocationStatus.TIMEOUT,
        )


def version_mismatch(request: OracleInvocationRequest, computed: str) -> CallFailure:
    """Return what becomes of a call to a program whose files are not the pinned ones."""
    return CallFailure(
        reason="version-mismatch",
        detail=f"expected construct_version {request.construct_version} (pinned), "
        f"got {computed} (computed)",
        reported_version=computed,
    )


PLAIN_PIN = "plain_http@1"


class WireForm(Protocol):
    """One way to put a request into a body, and to read the body that comes back."""

    @property
    def pin(self) -> str:
        """Return `name@version`, as evidence and `adapter_version` spell it."""

    def body(self, request: OracleInvocationRequest) -> bytes:
        """Return what is sent."""

    def read(
        self,
        raw: bytes,
        request: OracleInvocationRequest,
        *,
        latency_ms: int,
        responded_at: datetime,
    ) -> Attempt:
        """Read what came back, with reasons as `read_answer`; never raises."""


class EnvelopeForm:
    """The envelope of docs/contract/construct.md, both ways."""

    pin = "http@1"

    def body(self, request: OracleInvocationRequest) -> bytes:
        """Return the envelope."""
        return canonical_bytes(request.as_document())

    def read(
        self,
        raw: bytes,
        request: OracleInvocationRequest,
        *,
        latency_ms: int,
        responded_at: datetime,
    ) -> Attempt:
        """Read an envelope."""
        return read_answer(raw, request, latency_ms=latency_ms, responded_at=responded_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainForm:
    """The bare input out, the bare output back.

    `bare` makes of `input_data` what the service is sent. Such a service echoes nothing and
    reports no version: the evidence says the pinned one, and the pin of this form caps the tier
    (`version-unreported`).
    """

    bare: Callable[[JsonObject], JsonObject]

    @property
    def pin(self) -> str:
        """Return `plain_http@1`."""
        return PLAIN_PIN

    def body(self, request: OracleInvocationRequest) -> bytes:
        """Return the bare input."""
        return canonical_bytes(self.bare(request.input_data))

    def read(
        self,
        raw: bytes,
        request: OracleInvocationRequest,
        *,
        latency_ms: int,
        responded_at: datetime,
    ) -> Attempt:
        """Take an object as `output_data`; all else is refused as no envelope would be."""
        try:
            output = parse_json(raw, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_INPUT_DEPTH - 1)
        except ParseError:
            output = None
        if isinstance(output, dict):
            reported: JsonObject = {
                "invocation_id": request.invocation_id,
                "construct_id": request.construct_id,
                "construct_version": request.construct_version,
                "status": "success",
            }
            # The bytes as they came: what is unusable in them is found where it always is.
            raw = canonical_bytes(reported)[:-1] + b',"output_data":' + raw + b"}"
        return read_answer(raw, request, latency_ms=latency_ms, responded_at=responded_at)


ENVELOPES = EnvelopeForm()
