"""The one retry loop: what it tries again, how long it waits, what it keeps."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    NOT_ISOLATED,
    Attempt,
    Isolation,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
    failed_attempt,
)
from theatre.oracles.retry import make_retrying_invoker

RequestFor = Callable[..., OracleInvocationRequest]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)


class ScriptedAdapter:
    """Returns given outcomes, one for each try; its last one again and again."""

    pin = "scripted@1"
    computed_version = None

    def __init__(self, *outcomes: tuple[InvocationStatus, str | None]) -> None:
        self._outcomes = list(outcomes)
        self.asked: list[OracleInvocationRequest] = []

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        return NOT_ISOLATED

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        self.asked.append(request)
        status, reason = self._outcomes[min(len(self.asked), len(self._outcomes)) - 1]
        if reason is not None:
            return failed_attempt(
                request, status, reason=reason, detail="", latency_ms=0, responded_at=NOW
            )
        return Attempt(
            response=OracleInvocationResponse(
                invocation_id=request.invocation_id,
                construct_id=request.construct_id,
                construct_version=request.construct_version,
                output_data={},
                latency_ms=0,
                status=status,
                responded_at="2026-11-21T02:07:00.000000Z",
            )
        )

    async def aclose(self) -> None:
        return


ERROR = (InvocationStatus.ERROR, None)
CRASHED = (InvocationStatus.ERROR, "crashed")
MISFIT = (InvocationStatus.ERROR, "output-spec")
NOT_FOUND = (InvocationStatus.ERROR, "answer-not-found")
MISMATCH = (InvocationStatus.ERROR, "version-mismatch")
TIMEOUT = (InvocationStatus.TIMEOUT, "timeout")
REFUSED = (InvocationStatus.REFUSED, None)
SUCCESS = (InvocationStatus.SUCCESS, None)

CASES = {
    "success": ([SUCCESS], 3, 5, [SUCCESS], []),
    "refusal": ([REFUSED], 3, 5, [REFUSED], []),
    "version mismatch": ([MISMATCH], 3, 5, [MISMATCH], []),
    "misfit": ([MISFIT], 3, 5, [MISFIT], []),
    "nothing found": ([NOT_FOUND], 3, 5, [NOT_FOUND], []),
    "error for ever": ([ERROR], 3, 5, [ERROR] * 4, [5, 10, 20]),
    "timeout for ever": ([TIMEOUT], 2, 0.5, [TIMEOUT] * 3, [0.5, 1.0]),
    "no retries": ([CRASHED], 0, 5, [CRASHED], []),
    "no wait": ([CRASHED], 2, 0, [CRASHED] * 3, [0, 0]),
    "success at last": ([CRASHED, TIMEOUT, SUCCESS], 5, 1, [CRASHED, TIMEOUT, SUCCESS], [1, 2]),
    "refusal at last": ([ERROR, REFUSED], 5, 1, [ERROR, REFUSED], [1]),
    "mismatch at last": ([CRASHED, MISMATCH], 5, 1, [CRASHED, MISMATCH], [1]),
}


@pytest.mark.parametrize(
    ("outcomes", "max_retries", "backoff", "attempts", "waits"), CASES.values(), ids=CASES.keys()
)
def test_calls_are_retried_by_the_committed_policy(
    outcomes: list[tuple[InvocationStatus, str | None]],
    max_retries: int,
    backoff: float,
    attempts: list[tuple[InvocationStatus, str | None]],
    waits: list[float],
    request_for: RequestFor,
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    adapter = ScriptedAdapter(*outcomes)
    policy = RetryPolicy(max_retries=max_retries, backoff_seconds=backoff)
    request = request_for(retry_policy=policy)
    made = asyncio.run(make_retrying_invoker(sleep)(adapter, request))
    assert [(attempt.response.status, attempt.reason) for attempt in made] == attempts
    assert waited == waits
    assert adapter.asked == [request] * len(attempts)
