"""`openai@1` and `anthropic@1`: a language model as a construct, through its provider's interface.

Prompt, model name and parameters make the version. Which weights answer to that name cannot be
seen: `version_source` is `declared` (docs/contract/earned.md §2).
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from yarl import URL

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.clock import Clock
from theatre.engine.errors import ParseError
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import MAX_ANSWER_BYTES, Isolation, OracleInvocationRequest
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.guarded_client import GuardedTransport
from theatre.oracles.outbound_policy import Distance, OutboundPolicy, connect_once, system_lookup
from theatre.oracles.plain_call import PlainAdapter, PlainSettings, Said, fill_text
from theatre.oracles.wire_forms import CallFailure, RequestHeaders
from theatre.providers import (
    CONNECTION,
    KEY_REFUSED,
    TIMEOUT,
    UNKNOWN_MODEL,
    ProviderClient,
    ProviderKind,
    ProviderReply,
    open_provider,
)

_QUOTED = 300
_LISTED = 8
_MOST_TOKENS = 1_000_000_000
_DEFAULT_MAX_TOKENS = 1024
_CUT = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")


class ModelSettings(PlainSettings):
    """What is asked of a model; `parameters` go into the request as they are."""

    model: str
    system: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    key_env: str | None = None
    prices: dict[str, float] | None = None

    def body(self, kind: ProviderKind, value: JsonObject) -> JsonObject:
        """Return the request for an episode's input; raises PromptError."""
        asked: JsonObject = {"role": "user", "content": fill_text(self.prompt, value)}
        if kind == "anthropic":
            system = {} if self.system is None else {"system": self.system}
            return {
                "model": self.model,
                "max_tokens": _DEFAULT_MAX_TOKENS,
                **system,
                "messages": [asked],
                **self.parameters,
            }
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        return {"model": self.model, "messages": [*first, asked], **self.parameters}


class ModelAdapter(PlainAdapter):
    """Asks one model at one address.

    Reasons beyond `PlainAdapter`'s: `unreachable`, `rate-limited`, `overloaded`, `server-error`,
    `key-refused`, `unknown-model`, `refused-request`, `not-a-message`, `cut-short` (the limit of
    tokens came first) and `credential-echoed`. What the model declines to answer is a refusal.
    """

    def __init__(
        self,
        kind: ProviderKind,
        url: str,
        settings: ModelSettings,
        *,
        version: str,
        headers: RequestHeaders,
        policy: OutboundPolicy,
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(clock=clock, monotonic=monotonic)
        self.answer = settings.answer
        self._kind: ProviderKind = kind
        self._url: URL = policy.check_url(url)
        self._settings = settings
        self._version = version
        self._headers = headers
        self._policy = policy
        self._distance = Distance(policy, self._url, lookup=system_lookup)
        self._stack = contextlib.AsyncExitStack()
        self._client: ProviderClient | None = None

    @property
    def pin(self) -> str:
        """Return `openai@1` or `anthropic@1`."""
        return f"{self._kind}@1"

    @property
    def computed_version(self) -> str:
        """Return the hash of what is asked."""
        return self._version

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Connect once, as for any construct behind a URL."""
        return await self._distance.probe()

    async def check_reachable(self) -> None:
        """Ask for the model by name, which costs nothing.

        Raises ConstructUnreachableError, with what to do, where nothing listens, the key is
        refused or the model is not among those that the server lists.
        """
        await connect_once(self._policy, self._url, lookup=system_lookup)
        client = await self._open()
        reply = await client.find_model(self._settings.model)
        if reply.reason == UNKNOWN_MODEL:
            listed = await client.list_models()
            names = _names(listed)
            # A server that lists none cannot be asked: the first call will tell.
            if names and self._settings.model not in names:
                raise ConstructUnreachableError(self._words(reply, names))
        elif reply.reason in {KEY_REFUSED, CONNECTION, TIMEOUT}:
            raise ConstructUnreachableError(self._words(reply))

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        await self._stack.aclose()

    async def _open(self) -> ProviderClient:
        if self._client is None:
            transport = GuardedTransport(
                self._policy, max_bytes=MAX_ANSWER_BYTES, is_refused=self._distance.refuses
            )
            self._client = await self._stack.enter_async_context(
                open_provider(
                    self._kind,
                    str(self._url).rstrip("/"),
                    key=None,
                    headers=self._headers.values,
                    max_bytes=MAX_ANSWER_BYTES,
                    transport=transport,
                    hide=lambda text: self._headers.redacted(
                        text.encode("utf-8", "replace")
                    ).decode("utf-8", "replace"),
                )
            )
        return self._client

    async def _ask(self, request: OracleInvocationRequest) -> Said | CallFailure:
        body = self._settings.body(self._kind, request.input_data)
        reply = await (await self._open()).call(body, seconds=request.metadata.timeout_seconds)
        if reply.reason is not None:
            reason = "unreachable" if reply.reason == CONNECTION else reply.reason
            is_late = reply.reason == TIMEOUT
            return CallFailure(
                reason=reason,
                detail=self._words(reply),
                status=InvocationStatus.TIMEOUT if is_late else InvocationStatus.ERROR,
                raw=None if reply.status is None else (reply.body or "").encode(),
                wait=reply.wait,
            )
        text = reply.body or ""
        said = read_message(self._kind, text)
        # A key in an answer would be published with the evidence.
        if reply.is_redacted:
            return CallFailure(
                reason="credential-echoed",
                detail="expected an answer without the key, got one with it",
                raw=text.encode(),
                usage=said.usage,
            )
        return said

    def _words(self, reply: ProviderReply, names: Sequence[str] = ()) -> str:
        """Return one sentence on a refusal: expected, seen, and what to do."""
        settings, origin = self._settings, str(self._url)
        seen = f"{reply.status or reply.reason}"
        if reply.body:
            seen += f": {reply.body[:_QUOTED]}"
        match reply.reason:
            case "key-refused":
                variable = settings.key_env
                what = f"another key in {variable}" if variable else "key_env in adapter_settings"
                return f"expected {origin} to take the key, got {seen}; set {what}"
            case "unknown-model":
                known = f" (it has {', '.join(names[:_LISTED])})" if names else ""
                return (
                    f"expected {origin} to know the model {settings.model}, got {seen}{known}; "
                    "correct model, or the path in adapter_endpoint"
                )
            case "connection" if not reply.sent:
                return (
                    f"expected {origin} to accept a connection, got {reply.body or 'none'}; start "
                    "the server, or correct adapter_endpoint"
                )
            case "rate-limited" | "overloaded":
                return (
                    f"expected an answer of {settings.model}, got {seen}; raise backoff_seconds in "
                    "retry_policy, or run with --concurrency 1"
                )
        return f"expected an answer of {settings.model}, got {seen}"


def _names(reply: ProviderReply) -> list[str]:
    try:
        data = parse_object((reply.body or "").encode()).get("data")
    except ParseError:
        return []
    found = data if isinstance(data, list) and reply.reason is None else []
    return [str(one["id"]) for one in found if isinstance(one, dict) and "id" in one]


def read_message(kind: ProviderKind, text: str) -> Said | CallFailure:
    """Return what a model said in the body of its answer, with the tokens that it took."""
    read = _anthropic_text if kind == "anthropic" else _openai_text
    try:
        # Not as strict as an answer is read: what stands around it, a seed of 64 bits say, is the
        # provider's. The text in it is judged as ever.
        found = json.loads(text)
        message: JsonObject = found if isinstance(found, dict) else {}
        said, why_ended = read(message)
    except (ValueError, RecursionError):
        detail = f"expected JSON, got {text[:200]!r}"
        return CallFailure(reason="not-json", detail=detail, raw=text.encode())
    # A word, wherever a server keeps to its interface.
    usage, ended = _usage(message.get("usage")), str(why_ended)
    if ended in {"refusal", "content_filter"}:
        why = said or f"the provider ended the answer: {ended}"
        return Said(text=why, refused=True, usage=usage)
    if ended in _CUT:
        return CallFailure(
            reason="cut-short",
            detail="expected a whole answer, got one that was cut at the limit of tokens; raise "
            "max_tokens in parameters",
            raw=text.encode(),
            usage=usage,
        )
    if ended == "error":
        # With a status of 200: the provider began the answer, and broke off.
        return CallFailure(
            reason="server-error",
            detail=f"expected a whole answer, got one that ended in an error: {text[:200]!r}",
            raw=text.encode(),
            usage=usage,
        )
    if said is None:
        return CallFailure(
            reason="not-a-message",
            detail=f"expected a message with text, got {text[:200]!r}",
            raw=text.encode(),
            usage=usage,
        )
    return Said(text=said, usage=usage)


def _openai_text(message: JsonObject) -> tuple[str | None, object]:
    choices = message.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    choice = first if isinstance(first, dict) else {}
    spoken = choice.get("message")
    said = spoken if isinstance(spoken, dict) else {}
    # Some servers have an empty one with each answer.
    if isinstance(refusal := said.get("refusal"), str) and refusal:
        return refusal, "refusal"
    # What it would call is its answer, where it says nothing: nothing is called here.
    return _text_of(said.get("content"), said.get("tool_calls")), choice.get("finish_reason")


def _anthropic_text(message: JsonObject) -> tuple[str | None, object]:
    content = message.get("content")
    calls = [one for one in _parts(content) if one.get("type") == "tool_use"]
    return _text_of(content, calls), message.get("stop_reason")


def _parts(content: JsonValue) -> list[JsonObject]:
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _text_of(content: JsonValue, calls: object) -> str | None:
    """Return the text of a content, in one piece or in parts, else the calls, else None."""
    texts = [one.get("text") for one in _parts(content) if one.get("type") == "text"]
    words = [one for one in texts if isinstance(one, str)]
    said = content if isinstance(content, str) else "".join(words) if words else None
    return said if said or not calls else json.dumps(calls, sort_keys=True)


def _usage(found: object) -> dict[str, int] | None:
    """Return the tokens of a call; None where the server does not count them.

    What a cache took or gave is part of a prompt: Anthropic counts it apart, and OpenAI within.
    """
    usage = found if isinstance(found, dict) else {}
    if "prompt_tokens" in usage:
        counts = [usage["prompt_tokens"], usage.get("completion_tokens")]
    else:
        cached = (usage.get(name) or 0 for name in _CACHED)
        counts = [usage.get("input_tokens"), usage.get("output_tokens"), *cached]
    if not all(type(one) is int and one >= 0 for one in counts):
        return None
    asked, said = counts[0] + sum(counts[2:]), counts[1]
    is_plausible = max(asked, said) < _MOST_TOKENS
    return {"input_tokens": asked, "output_tokens": said} if is_plausible else None
