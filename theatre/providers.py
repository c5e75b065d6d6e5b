"""The one client of model providers: Anthropic Messages and OpenAI-compatible chat completions.

Constructs and judges use it alike; no other module knows the SDKs.

It makes one call at a time and never retries: how often a call is made is committed, and each
attempt is recorded. A request is sent as it is, and what came back is kept as it came.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from theatre.engine.canonical_json import JsonObject

if TYPE_CHECKING:
    import ssl

    import httpx2

ProviderKind: TypeAlias = Literal["anthropic", "openai"]
Timeout: TypeAlias = "httpx2.Timeout"

RATE_LIMITED, KEY_REFUSED, UNKNOWN_MODEL = "rate-limited", "key-refused", "unknown-model"
CONNECTION, TIMEOUT = "connection", "timeout"
_REASONS: Final = {
    401: KEY_REFUSED,
    402: KEY_REFUSED,
    403: KEY_REFUSED,
    404: UNKNOWN_MODEL,
    408: TIMEOUT,
    429: RATE_LIMITED,
    529: "overloaded",
}
_CALLS: Final[Mapping[ProviderKind, str]] = {
    "anthropic": "/v1/messages",
    "openai": "/chat/completions",
}
_MODELS: Final[Mapping[ProviderKind, str]] = {"anthropic": "/v1/models", "openai": "/models"}
_CONNECT_SECONDS: Final = 20.0
_NO_KEY: Final = "none"
"""What an SDK is given where a server wants no key: it must have something."""


class ProviderReply(NamedTuple):
    """What came of one call: `body` where the status is 200, else the `reason` why none counts.

    `wait` is how long the provider asks to wait, in seconds. Of a refusal `body` has the text.
    `sent` is false where nothing was connected: such a call cannot have cost anything.
    `is_redacted` says that a secret was taken out of `body`.
    """

    status: int | None = None
    reason: str | None = None
    body: str | None = None
    wait: float | None = None
    sent: bool = True
    is_redacted: bool = False


class ProviderClient:
    """Speaks to one provider through its SDK; several calls may be under way.

    `hide` takes secrets out of a text: none may get into what is recorded.
    """

    def __init__(
        self,
        sdk: Any,  # noqa: ANN401 - a client of one of the two
        kind: ProviderKind,
        *,
        max_bytes: int,
        hide: Callable[[str], str],
    ) -> None:
        self._sdk = sdk
        self._kind = kind
        # Both are made by one generator: their errors have the same names.
        self._errors: Any = import_module(kind)
        # As late as the SDK that brings it: the service knows this module without either.
        self._http: Any = import_module("httpx2")
        self._max_bytes = max_bytes
        self._hide = hide

    async def call(self, body: JsonObject, *, seconds: float | None = None) -> ProviderReply:
        """Send one request; never raises for what the other side does.

        `seconds` is how long its answer may be silent, in place of the client's own limit.
        """
        return await self._exchange("post", _CALLS[self._kind], body, seconds)

    async def find_model(self, model: str) -> ProviderReply:
        """Ask what is known of a model, which costs nothing."""
        # Names have slashes, and some what a URL has another meaning for.
        named = quote(model, safe="/:@")
        return await self._exchange("get", f"{_MODELS[self._kind]}/{named}", None)

    async def list_models(self) -> ProviderReply:
        """Ask which models there are."""
        return await self._exchange("get", _MODELS[self._kind], None)

    async def _exchange(
        self, method: str, path: str, body: JsonObject | None, seconds: float | None = None
    ) -> ProviderReply:
        try:
            response = await self._send(method, path, body, seconds)
        except self._errors.APITimeoutError as error:
            return ProviderReply(reason=TIMEOUT, sent=not self._is_unconnected(error))
        except self._errors.APIConnectionError as error:
            cause, sent = error.__cause__ or error, not self._is_unconnected(error)
            return ProviderReply(reason=CONNECTION, body=self._hide(str(cause)), sent=sent)
        except self._errors.APIStatusError as error:
            return self._refused(error.response)
        if len(response.content) > self._max_bytes:
            return ProviderReply(status=response.status_code, reason="answer-too-large")
        text = response.content.decode("utf-8", "replace")
        shown = self._hide(text)
        return ProviderReply(status=response.status_code, body=shown, is_redacted=shown != text)

    async def _send(
        self, method: str, path: str, body: JsonObject | None, seconds: float | None
    ) -> httpx2.Response:
        options: dict[str, Any] = {}
        if seconds is not None:
            options["timeout"] = self._http.Timeout(seconds, connect=_CONNECT_SECONDS)
        if self._kind == "openai":
            # What the SDK takes from the environment unasked is no part of the request.
            omitted = self._errors.Omit()
            headers = {"OpenAI-Organization": omitted, "OpenAI-Project": omitted}
            options["headers"] = headers
        more: dict[str, Any] = {"cast_to": self._http.Response, "options": options}
        made = self._sdk.get(path, **more) if method == "get" else None
        answer: httpx2.Response = await (made or self._sdk.post(path, body=body, **more))
        return answer

    def _refused(self, response: httpx2.Response) -> ProviderReply:
        status = response.status_code
        is_theirs = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        other = "server-error" if is_theirs else "refused-request"
        return ProviderReply(
            status=status,
            reason=_REASONS.get(status, other),
            body=self._hide(response.content.decode("utf-8", "replace")),
            wait=retry_after(response.headers.get("retry-after")),
        )

    def _is_unconnected(self, error: Exception) -> bool:
        return isinstance(error.__cause__, self._http.ConnectError | self._http.ConnectTimeout)


@cache
def tls() -> ssl.SSLContext:
    """Return what servers are judged by; to read the authorities anew takes 20 ms a client."""
    import httpx2  # noqa: PLC0415 - of the extra `models`

    return httpx2.create_ssl_context()


@contextlib.asynccontextmanager
async def open_provider(
    kind: ProviderKind,
    origin: str,
    *,
    key: str | None,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
    timeouts: Timeout | None = None,
    hide: Callable[[str], str] | None = None,
) -> AsyncIterator[ProviderClient]:
    """Open the client of the provider at `origin`; on leaving, it is closed.

    `origin` is what the SDK calls the base URL. The key goes to that origin only: redirects are
    not followed. `transport` decides which addresses are connected; without one, any.
    """
    import httpx2  # noqa: PLC0415 - of the extra `models`

    timeouts = timeouts or httpx2.Timeout(180.0, connect=_CONNECT_SECONDS)
    http_client = httpx2.AsyncClient(
        transport=transport,
        verify=tls(),
        follow_redirects=False,
        timeout=timeouts,
        trust_env=transport is None,
    )
    # Its own retries off: how often a call is made is committed.
    given: dict[str, Any] = {
        "base_url": origin,
        "max_retries": 0,
        "timeout": timeouts,
        "http_client": http_client,
    }
    sdk: Any
    own: dict[str, Any] = {**(headers or {})}
    # Imported here, and only the one that is wanted: each takes up to a second.
    if kind == "openai":
        import openai  # noqa: PLC0415  # see above

        sdk = openai.AsyncOpenAI(api_key=key or _NO_KEY, default_headers=headers, **given)
    else:
        import anthropic  # noqa: PLC0415  # see above

        sdk = anthropic.AsyncAnthropic(
            api_key=key or _NO_KEY, default_headers=headers, open_telemetry=False, **given
        )
        if own and "authorization" not in {name.lower() for name in own}:
            # Else "Bearer none" goes along with the key, which is in a header of its own.
            own["Authorization"] = anthropic.Omit()
    # ANTHROPIC_CUSTOM_HEADERS and OPENAI_CUSTOM_HEADERS, which the SDKs add: a secret for one place
    # would go to any, and change what is asked without another version.
    sdk._custom_headers = own  # noqa: SLF001 - `with_options` reads them again

    def without_key(text: str) -> str:
        return text.replace(key, "[key]") if key else text

    async with sdk:
        yield ProviderClient(sdk, kind, max_bytes=max_bytes, hide=hide or without_key)


def retry_after(text: str | None) -> float | None:
    """Return a `Retry-After` in seconds; None for none, and for a date."""
    if text is None or not text.isascii() or not text.replace(".", "", 1).isdigit():
        return None
    return float(text)
