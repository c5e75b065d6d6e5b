"""A language model as judge, through the client of providers.

It sends requests as they are and keeps what came back as it came. What an answer says is for
`messages.read_answer`, which a check uses too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, Sleep, format_rfc3339
from theatre.judging import JudgeUnavailableError
from theatre.providers import (
    CONNECTION,
    KEY_REFUSED,
    RATE_LIMITED,
    TIMEOUT,
    UNKNOWN_MODEL,
    ProviderKind,
    ProviderReply,
    Timeout,
    open_provider,
)

MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 2.0, 120.0
"""Between attempts: doubled each time, or as long as the API asks for, up to the longest."""

MAX_ANSWER_BYTES = 64 * 1024

_TRIED_AGAIN: Final = frozenset({RATE_LIMITED, "overloaded", "server-error", TIMEOUT, CONNECTION})
_OUT_OF_ORDER: Final = frozenset({KEY_REFUSED, UNKNOWN_MODEL})
"""What no other request would mend: the key, the credit, the rights, the model or the address."""

_QUOTED = 300


class Caller(Protocol):
    """Makes one call of a provider, as `ProviderClient` does, or pays for each that one makes."""

    async def call(self, body: JsonObject) -> ProviderReply:
        """Send one request."""


class ModelJudge:
    """Asks one model at a time; a `Judge` of the engine."""

    def __init__(
        self, client: Caller, *, origin: str, key_variable: str, clock: Clock, sleep: Sleep
    ) -> None:
        """Ask through `client`; `key_variable` is where a user sets its key."""
        self._client = client
        self._origin = origin
        self._key_variable = key_variable
        self._clock = clock
        self._sleep = sleep

    async def ask(self, request: JsonObject) -> JsonObject:
        """Return what came of `request`: `body` as it was sent, or the `reason` why none counts.

        Tried again, MAX_ATTEMPTS times in all, is what is rate-limited, overloaded, a server's
        error, late, or lost. Raises JudgeUnavailableError for a key, model or address that is
        refused.
        """
        asked_at, told = self._clock(), list[JsonObject]()
        while True:
            attempt = await self._attempt(request)
            told.append({"status": attempt.status, "reason": attempt.reason})
            wait = self._wait_before_next(attempt, len(told))
            if wait is None:
                break
            await self._sleep(wait)
        return {
            "origin": self._origin,
            "asked_at": format_rfc3339(asked_at),
            "latency_ms": max(0, int((self._clock() - asked_at).total_seconds() * 1000)),
            "attempts": list(told),
            "status": attempt.status,
            "reason": attempt.reason,
            "body": attempt.body,
        }

    async def probe_temperature(self, probe: Callable[[int | None], JsonObject]) -> int | None:
        """Return 0, or None where the model refuses that; one call or two, which nothing scores.

        `probe` makes a short request at a temperature. Raises JudgeUnavailableError where the
        model answers neither.
        """
        model, seen = probe(None)["model"], ""
        for temperature in (0, None):
            answer = await self.ask(probe(temperature))
            if answer["reason"] is None:
                return temperature
            seen = f"{answer['reason']}: {str(answer['body'])[:_QUOTED]!r}"
            if answer["reason"] != "refused-request":
                break
        raise JudgeUnavailableError(
            f"expected {model} at {self._origin} to answer, got {seen}; try again later, give "
            "another model, or do without a judge"
        )

    async def _attempt(self, body: JsonObject) -> ProviderReply:
        reply = await self._client.call(body)
        if reply.reason in _OUT_OF_ORDER:
            raise JudgeUnavailableError(
                f"expected {self._origin} to take the key and know the model, got {reply.status}: "
                f"{(reply.body or '')[:_QUOTED]!r}; set {self._key_variable}, or give another model"
            )
        if reply.status is None:
            return reply._replace(body=None)
        is_refusal = reply.reason is not None
        return reply._replace(body=(reply.body or "")[:_QUOTED]) if is_refusal else reply

    def _wait_before_next(self, attempt: ProviderReply, made: int) -> float | None:
        """Return how long to wait before another attempt; None where there is none."""
        if attempt.reason not in _TRIED_AGAIN or made == MAX_ATTEMPTS:
            return None
        wait = FIRST_WAIT_SECONDS * 2 ** (made - 1) if attempt.wait is None else attempt.wait
        # A server may ask for hours: then the answer is missing rather than the run blocked.
        return wait if wait <= LONGEST_WAIT_SECONDS else None


@contextlib.asynccontextmanager
async def open_model_judge(
    kind: ProviderKind,
    origin: str,
    *,
    api_key: str | None,
    key_variable: str,
    clock: Clock,
    sleep: Sleep,
    timeouts: Timeout | None = None,
) -> AsyncIterator[ModelJudge]:
    """Open a judge at `origin`, the base URL of an API of that kind; on leaving, it is closed."""
    opened = open_provider(kind, origin, key=api_key, max_bytes=MAX_ANSWER_BYTES, timeouts=timeouts)
    async with opened as client:
        yield ModelJudge(client, origin=origin, key_variable=key_variable, clock=clock, sleep=sleep)
