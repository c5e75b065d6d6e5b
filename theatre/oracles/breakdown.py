"""A call without a readable answer, and the attempt that is recorded for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest, failed_attempt

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
