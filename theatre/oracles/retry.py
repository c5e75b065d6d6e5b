"""The one retry loop of every transport (contract/construct.md, "Adapters")."""

from __future__ import annotations

from theatre.engine.clock import Sleep
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    Invoker,
    OracleAdapter,
    OracleInvocationRequest,
)

_RETRIED = frozenset({InvocationStatus.TIMEOUT, InvocationStatus.ERROR})


async def invoke_with_retries(
    adapter: OracleAdapter, request: OracleInvocationRequest, *, sleep: Sleep
) -> tuple[Attempt, ...]:
    """Make one call under the policy committed in `request`; return every attempt, in order.

    Timeouts and errors are tried again, after `backoff_seconds`, then twice that, and so on;
    successes and refusals are final, and so is a `version-mismatch`: the same program would
    report the same version.
    """
    policy = request.metadata.retry_policy
    attempts = [await adapter.invoke(request)]
    while len(attempts) <= policy.max_retries and _may_be_retried(attempts[-1]):
        await sleep(policy.backoff_seconds * 2 ** (len(attempts) - 1))
        attempts.append(await adapter.invoke(request))
    return tuple(attempts)


def retrying(sleep: Sleep) -> Invoker:
    """Return the invoker that waits with `sleep` between attempts."""

    async def invoke(
        adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        return await invoke_with_retries(adapter, request, sleep=sleep)

    return invoke


def _may_be_retried(attempt: Attempt) -> bool:
    return attempt.response.status in _RETRIED and attempt.reason != "version-mismatch"
