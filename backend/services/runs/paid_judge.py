"""A run's judge in the service: every call is paid from its owner's budget, and made once.

A call is reserved at its maximum before it is made, and settled with what it cost after. What
is between the two when a worker dies is settled at its maximum by the upkeep (docs/adr/0195).
"""

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.models.base import new_id
from backend.errors import BudgetSpentError, JudgeKeyRefusedError
from backend.repositories.judge_ledger import (
    WORKER_LOST,
    NewCall,
    Settlement,
    find_answers,
    find_lost_calls,
    read_balances,
    reserve_call,
    settle_call,
)
from backend.repositories.theatre_runs import StoredTheatre
from backend.services.judge_access import JudgeAccess
from backend.settings import variable
from theatre.engine.canonical_json import (
    JsonObject,
    canonical_bytes,
    canonical_sha256,
    parse_object,
)
from theatre.engine.clock import Clock, Sleep
from theatre.engine.models import exchanges_of
from theatre.engine.replay import RunJournal
from theatre.judging.messages import provider_of
from theatre.judging.model_judge import MAX_ANSWER_BYTES, ModelJudge
from theatre.providers import (
    KEY_REFUSED,
    ProviderClient,
    ProviderKind,
    ProviderReply,
    open_provider,
)

_AT_THE_MOST = frozenset({"not-counted", "above-maximum"})
_log = logging.getLogger(__name__)


class _Purse:
    def __init__(
        self, engine: AsyncEngine, stored: StoredTheatre, access: JudgeAccess, clock: Clock
    ) -> None:
        self._engine = engine
        self._stored = stored
        self._access = access
        self._clock = clock
        self._turn = asyncio.Lock()
        self._under_way = 0
        self._one_ended = asyncio.Event()
        self._spent: BudgetSpentError | None = None

    async def reserve(self, request: JsonObject) -> NewCall:
        """Reserve the most that a call can cost; BudgetSpentError where the budget has less.

        Calls under way have reserved more than they will cost: they are waited for first. So
        none is given up where the run then ends.
        """
        async with self._turn:
            while self._spent is None:
                self._one_ended.clear()
                call = self._new_call(request)
                try:
                    async with self._engine.begin() as connection:
                        await reserve_call(connection, call)
                except BudgetSpentError as error:
                    if self._under_way:
                        await self._one_ended.wait()
                    elif not self._one_ended.is_set():
                        self._spent = await self._explained(call, error)
                else:
                    self._under_way += 1
                    return call
            raise self._spent

    async def settle(
        self, call: NewCall, request: JsonObject, reply: ProviderReply, answer: JsonObject | None
    ) -> None:
        """Settle a call that has ended, in one transaction with the answer that it ended."""
        cost = self._access.settlement(request, reply, call.reserved)
        if answer is not None:
            cost = cost._replace(answer=canonical_bytes(answer))
        try:
            async with self._engine.begin() as connection:
                is_first = await settle_call(connection, call.id, cost, at=self._clock())
        finally:
            self.let_go()
        if not is_first or cost.settled_as in _AT_THE_MOST:
            fields = _fields(call.id, call.theatre_id, unit=call.unit, reserved=call.reserved)
            seen = cost.settled_as if is_first else "settled before"
            _log.warning("judge call is charged its maximum: %s", seen, extra=fields)

    def let_go(self) -> None:
        """Say that a call is no longer under way, settled or not."""
        self._under_way -= 1
        self._one_ended.set()

    def _new_call(self, request: JsonObject) -> NewCall:
        unit, most = self._access.most(request)
        now = self._clock()
        return NewCall(
            id=new_id(now),
            theatre_id=self._stored.id,
            epoch=self._stored.run_epoch,
            provider=provider_of(request),
            model=str(request["model"])[:200],
            request_sha256=canonical_sha256(request),
            unit=unit,
            reserved=most,
            reserved_at=now,
        )

    async def _explained(self, call: NewCall, error: BudgetSpentError) -> BudgetSpentError:
        async with self._engine.connect() as connection:
            found = await read_balances(
                connection, call.theatre_id, unit=call.unit, day=call.reserved_at.date()
            )
        left = ", ".join(f"{one} {found[one].left}" for one in sorted(found)) or "no budget"
        return BudgetSpentError(f"{error} (left: {left}); POST …/run goes on once there is more")


class _PaidCaller:
    def __init__(self, client: ProviderClient, purse: _Purse) -> None:
        self._client = client
        self._purse = purse
        self._ended: tuple[NewCall, JsonObject, ProviderReply] | None = None

    async def call(self, body: JsonObject) -> ProviderReply:
        """Make one call; what came of the one before is settled first."""
        await self.settle(None)
        reserved = await self._purse.reserve(body)
        try:
            reply = await self._client.call(body)
        except BaseException:
            # What it costs is not known: the upkeep settles it.
            self._purse.let_go()
            raise
        self._ended = reserved, body, reply
        if reply.reason == KEY_REFUSED:
            raise _key_refused(provider_of(body), f"refused with {reply.status}")
        return reply

    async def settle(self, answer: JsonObject | None) -> None:
        """Settle what was called last; `answer` is what the question came to, if it did."""
        ended, self._ended = self._ended, None
        if ended is not None:
            await self._purse.settle(*ended, answer)


class PaidJudge:
    """A `Judge` whose calls are paid from the budget of the run's owner."""

    def __init__(
        self,
        purse: _Purse,
        access: JudgeAccess,
        clients: Mapping[ProviderKind, ProviderClient],
        answers: Mapping[str, deque[bytes]],
        *,
        clock: Clock,
        sleep: Sleep,
    ) -> None:
        """Ask through `clients`; `answers` are those of earlier attempts, by their request."""
        self._purse = purse
        self._access = access
        self._clients = clients
        self._answers = answers
        self._clock = clock
        self._sleep = sleep

    async def ask(self, request: JsonObject) -> JsonObject:
        """Return what was answered in an earlier attempt at the run, or ask.

        Raises BudgetSpentError where the budget does not cover another call, JudgeKeyRefusedError
        where the operator's key is not good, and what `ModelJudge` raises.
        """
        kept = self._answers.get(canonical_sha256(request))
        if kept:
            return parse_object(kept.popleft())
        kind = provider_of(request)
        if kind not in self._clients:
            raise _key_refused(kind, "none")
        caller = _PaidCaller(self._clients[kind], self._purse)
        judge = ModelJudge(
            caller,
            origin=self._access.providers[kind].origin,
            key_variable=variable(f"{kind}_api_key"),
            clock=self._clock,
            sleep=self._sleep,
        )
        answer = None
        try:
            answer = await judge.ask(request)
        finally:
            await caller.settle(answer)
        return answer


def _key_refused(kind: ProviderKind, got: str) -> JudgeKeyRefusedError:
    return JudgeKeyRefusedError(
        f"expected a key of the operator that the judge's provider {kind} takes, got {got}; "
        "POST …/run goes on once the operator has set another, and asks nothing again"
    )


@asynccontextmanager
async def open_paid_judge(
    engine: AsyncEngine,
    stored: StoredTheatre,
    journal: RunJournal,
    access: JudgeAccess,
    *,
    clock: Clock,
    sleep: Sleep,
) -> AsyncIterator[PaidJudge]:
    """Open the judges of the operator's providers for one attempt at a run."""
    answers = await _unused_answers(engine, stored.id, journal)
    async with AsyncExitStack() as stack:
        clients = {}
        for kind, provider in access.providers.items():
            key = None if provider.key is None else provider.key.get_secret_value()
            opened = open_provider(kind, provider.origin, key=key, max_bytes=MAX_ANSWER_BYTES)
            clients[kind] = await stack.enter_async_context(opened)
        purse = _Purse(engine, stored, access, clock)
        yield PaidJudge(purse, access, clients, answers, clock=clock, sleep=sleep)


async def _unused_answers(
    engine: AsyncEngine, theatre_id: str, journal: RunJournal
) -> Mapping[str, deque[bytes]]:
    """Return by request the answers that earlier attempts paid for and no record has."""
    async with engine.connect() as connection:
        found = await find_answers(connection, theatre_id)
    unused: defaultdict[str, deque[bytes]] = defaultdict(deque)
    if not found:
        return unused
    recorded: Counter[bytes] = Counter()
    async for result in journal.results():
        for exchange in exchanges_of(result.record.document):
            recorded[canonical_bytes(exchange["answer"])] += 1
    for request_sha256, answer in found:
        if recorded[answer]:
            recorded[answer] -= 1
        else:
            unused[request_sha256].append(answer)
    return unused


async def settle_lost_calls(engine: AsyncEngine, clock: Clock) -> None:
    """Settle at its maximum what lost its worker between reservation and settlement.

    Each in a transaction of its own: two processes may do the same.
    """
    async with engine.connect() as connection:
        lost = await find_lost_calls(connection)
    for call in lost:
        async with engine.begin() as connection:
            cost = Settlement(call.reserved, WORKER_LOST)
            is_first = await settle_call(connection, call.id, cost, at=clock())
        if is_first:
            fields = _fields(call.id, call.theatre_id, unit=call.unit, spent=call.reserved)
            _log.warning("judge call lost its worker, and is charged its maximum", extra=fields)


def _fields(call_id: str, theatre_id: str, **more: str | int) -> dict[str, dict[str, str | int]]:
    return {"fields": {"judge_call_id": call_id, "theatre_id": theatre_id, **more}}
