"""The one retry loop of every transport (docs/contract/construct.md §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from theatre.engine.canonical_json import JsonValue
from theatre.engine.clock import Sleep
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, Invoker, OracleAdapter, OracleInvocationRequest
from theatre.engine.templates import Budget
from theatre.oracles.errors import BudgetSpentError, ConstructUnreachableError
from theatre.oracles.wire_forms import Postponed

if TYPE_CHECKING:
    # Only a type: what finds constructs is a good deal more than what asks one again.
    from theatre.oracles.endpoints import ReachableAdapter

_GONE = frozenset({"unreachable", "disconnected", "key-refused"})
_COUNTED = ("openai@", "anthropic@")
_FREE = {"input": 0.0, "output": 0.0}
_RETRIED = frozenset({InvocationStatus.TIMEOUT, InvocationStatus.ERROR})
_FINAL = frozenset({"version-mismatch", "output-spec", "answer-not-found"})


def make_retrying_invoker(sleep: Sleep) -> Invoker:
    """Return the invoker that obeys the policy committed in a request, and waits with `sleep`.

    Timeouts and errors are tried again, after `backoff_seconds`, then twice that, and so on, or
    later where a `Retry-After` says so, by `timeout_seconds` at most; successes and refusals are
    final, and so is a `version-mismatch`: the same program would report the same version. So is an
    answer that does not fit its `output_spec`, or in which its `answer` finds nothing: a shape that
    only right answers have would let a construct guess until it is right.
    """

    async def invoke(
        adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        policy = request.metadata.retry_policy
        attempts = [await adapter.invoke(request)]
        while len(attempts) <= policy.max_retries:
            latest = attempts[-1]
            if latest.response.status not in _RETRIED or latest.reason in _FINAL:
                break
            # Doubling: a service under load needs more time at each attempt.
            wait = policy.backoff_seconds * 2 ** (len(attempts) - 1)
            if isinstance(latest, Postponed):
                # No longer than its answer may take: a construct must not hold a run up.
                wait = max(wait, min(latest.wait, request.metadata.timeout_seconds))
            await sleep(wait)
            attempts.append(await adapter.invoke(request))
        return tuple(attempts)

    return invoke


def within_budget(
    invoke: Invoker, budget: Budget | None, priced: Mapping[str, JsonValue]
) -> Invoker:
    """Return the invoker that stops before the call that a spent budget does not pay for.

    `priced` has the committed prices of a construct: dollars for a million tokens, `input` and
    `output`; null or nothing for one without.

    It counts what this start of a run has used: attempts, tokens that providers counted, and those
    at the committed prices. Calls under way are ended, so as many as run at a time can go over it.
    Raises BudgetSpentError, also behind an answer whose model counted none where that is limited.
    """
    if budget is None:
        return invoke
    used = {"max_calls": 0.0, "max_tokens": 0.0, "max_cost_usd": 0.0}
    uncounted: set[str] = set()

    async def paid(adapter: OracleAdapter, request: OracleInvocationRequest) -> tuple[Attempt, ...]:
        for name, spent in used.items():
            limit = getattr(budget, name)
            if limit is not None and spent >= limit:
                raise BudgetSpentError(
                    f"expected execution_policy.budget.{name} of {limit:g} to last, got {spent:g} "
                    "spent by this start; what is recorded is kept, and the same command goes on "
                    "with as much again"
                )
        if uncounted and (budget.max_tokens or budget.max_cost_usd):
            raise BudgetSpentError(
                f"expected the provider of {', '.join(uncounted)} to count tokens, got an answer "
                "without: execution_policy.budget cannot hold; limit max_calls instead"
            )
        attempts = await invoke(adapter, request)
        price = cast("dict[str, float]", priced.get(request.construct_id) or _FREE)
        for attempt in attempts:
            is_answered = attempt.response.status is InvocationStatus.SUCCESS
            if is_answered and attempt.usage is None and adapter.pin.startswith(_COUNTED):
                uncounted.add(request.construct_id)
            tokens = attempt.usage or {"input_tokens": 0, "output_tokens": 0}
            asked, said = tokens["input_tokens"], tokens["output_tokens"]
            used["max_calls"] += 1
            used["max_tokens"] += asked + said
            used["max_cost_usd"] += (asked * price["input"] + said * price["output"]) / 1_000_000
        return attempts

    return paid


def require_reachable(invoke: Invoker, adapters: Mapping[str, ReachableAdapter]) -> Invoker:
    """Return the invoker that ends a run once the construct is gone, and records no such call.

    `adapters` are the ways to each construct by its id. Where the last attempt reached nothing, and
    nothing can be reached now either, it raises ConstructUnreachableError, so that the run can go
    on from this episode when the construct is back. A construct that is there and fails, fails as
    ever.
    """

    async def checked(
        adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        attempts = await invoke(adapter, request)
        # A machine that is down is no failure of the construct; it must not count against it.
        if attempts[-1].reason in _GONE:
            try:
                await adapters[request.construct_id].check_reachable()
            except ConstructUnreachableError as error:
                raise ConstructUnreachableError(
                    f"construct {request.construct_id} cannot be reached any more: {error}"
                ) from error
        return attempts

    return checked
