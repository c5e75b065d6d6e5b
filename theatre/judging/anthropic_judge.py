"""The judge behind the Anthropic Messages API: the only module that knows its SDK.

It sends requests as they are and keeps what came back as it came. What an answer says is for
`messages.read_answer`, which a check uses too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import anthropic
import httpx2

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, Sleep, format_rfc3339
from theatre.judging import JudgeUnavailableError

MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 2.0, 120.0
"""Between attempts: doubled each time, or as long as the API asks for, up to the longest."""

MAX_ANSWER_BYTES = 64 * 1024

_TIMEOUTS: Final = httpx2.Timeout(180.0, connect=20.0)
_REASONS = {408: "timeout", 429: "rate-limited", 529: "overloaded"}
_TRIED_AGAIN = frozenset({"rate-limited", "overloaded", "server-error", "timeout", "connection"})
_OUT_OF_ORDER = frozenset({401, 402, 403, 404})
"""What no other request would mend: the key, the credit, the rights, the model or the address."""

_QUOTED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """What came of one call; `wait` is what the API asks for, in seconds."""

    status: int | None = None
    reason: str | None = None
    body: str | None = None
    wait: float | None = None


class AnthropicJudge:
    """Asks one model at a time; a `Judge` of the engine."""

    def __init__(
        self, client: anthropic.AsyncAnthropic, *, origin: str, clock: Clock, sleep: Sleep
    ) -> None:
        """Ask through `client`, which must not retry by itself."""
        self._client = client
        self._origin = origin
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

    async def _attempt(self, body: JsonObject) -> _Attempt:
        try:
            response = await self._client.post("/v1/messages", cast_to=httpx2.Response, body=body)
        except anthropic.APITimeoutError:
            return _Attempt(reason="timeout")
        except anthropic.APIConnectionError:
            return _Attempt(reason="connection")
        except anthropic.APIStatusError as error:
            return self._refused(error.response)
        if len(response.content) > MAX_ANSWER_BYTES:
            return _Attempt(status=response.status_code, reason="answer-too-large")
        return _Attempt(status=response.status_code, body=self._text_of(response))

    def _refused(self, response: httpx2.Response) -> _Attempt:
        status = response.status_code
        body = self._text_of(response)[:_QUOTED]
        if status in _OUT_OF_ORDER:
            raise JudgeUnavailableError(
                f"expected {self._origin} to take the key and know the model, got {status}: "
                f"{body!r}; set ANTHROPIC_API_KEY, or give another model"
            )
        is_theirs = status >= httpx2.codes.INTERNAL_SERVER_ERROR
        other = "server-error" if is_theirs else "refused-request"
        return _Attempt(
            status=status,
            reason=_REASONS.get(status, other),
            body=body,
            wait=_seconds(response.headers.get("retry-after")),
        )

    def _text_of(self, response: httpx2.Response) -> str:
        """Return a body as text, without the key: it must not appear in evidence."""
        text = response.content.decode("utf-8", "replace")
        key = self._client.api_key
        return text.replace(key, "[key]") if key else text

    def _wait_before_next(self, attempt: _Attempt, made: int) -> float | None:
        """Return how long to wait before another attempt; None where there is none."""
        if attempt.reason not in _TRIED_AGAIN or made == MAX_ATTEMPTS:
            return None
        wait = FIRST_WAIT_SECONDS * 2 ** (made - 1) if attempt.wait is None else attempt.wait
        # A server may ask for hours: then the answer is missing rather than the run blocked.
        return wait if wait <= LONGEST_WAIT_SECONDS else None


@contextlib.asynccontextmanager
async def open_anthropic_judge(
    api_key: str,
    origin: str,
    *,
    clock: Clock,
    sleep: Sleep,
    timeouts: httpx2.Timeout = _TIMEOUTS,
) -> AsyncIterator[AnthropicJudge]:
    """Open a judge at `origin`, the root of an Anthropic API; on leaving, it is closed.

    The key goes to that origin only: redirects are not followed.
    """
    http_client = anthropic.DefaultAsyncHttpxClient(follow_redirects=False, timeout=timeouts)
    async with anthropic.AsyncAnthropic(
        api_key=api_key,
        base_url=origin,
        max_retries=0,
        timeout=timeouts,
        http_client=http_client,
        open_telemetry=False,
    ) as client:
        yield AnthropicJudge(client, origin=origin, clock=clock, sleep=sleep)


def _seconds(text: str | None) -> float | None:
    """Return a `Retry-After` in seconds; None for none, and for a date."""
    if text is None or not text.isascii() or not text.replace(".", "", 1).isdigit():
        return None
    return float(text)
