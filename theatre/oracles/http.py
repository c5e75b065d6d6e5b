"""`http@1`: a construct as a service, one JSON envelope a POST (docs/contract/construct.md).

What the body and the headers hold is in `wire_forms`, where the call may go in `outbound_policy`.

The other side is not trusted: it decides neither how long a call takes, nor how much of it is
read, nor where it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from theatre.engine.clock import Clock
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    Isolation,
    OracleInvocationRequest,
)
from theatre.oracles.errors import AdapterClosedError, OutboundRefusedError
from theatre.oracles.http_client import Connection, HttpClient, NoResponseError
from theatre.oracles.key_origins import PROVIDERS_ONLY, KeyOrigins, headers_of
from theatre.oracles.outbound_policy import (
    Distance,
    Lookup,
    OutboundPolicy,
    connect_once,
    judged_lookup,
    system_lookup,
)
from theatre.oracles.wire_forms import ENVELOPES, CallFailure, RequestHeaders, WireForm, wait_within
from theatre.providers import retry_after

if TYPE_CHECKING:
    from theatre.oracles.construct_registry import RemoteConstruct

_OK = 200
_POSTPONED = frozenset({429, 503})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def _refuse_head(response: Connection) -> CallFailure | None:
    """Return what is wrong with a response before its body matters."""
    # Not followed: a redirect could lead to an address that the policy refuses.
    if response.status in _REDIRECTS:
        location = response.value("location") or "nowhere"
        return CallFailure(
            reason="redirect",
            detail=f"expected status {_OK}, got {response.status} to {location}",
        )
    encodings = response.values("content-encoding")
    # A small compressed body could unpack to gigabytes before the limit is seen.
    if any(encoding.strip().lower() not in ("", "identity") for encoding in encodings):
        return CallFailure(
            reason="content-encoding",
            detail=f"expected an answer without a content encoding, got {encodings}",
        )
    return None


_MILLISECONDS = 1000
_OWN_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "echelon-theatre",
}


class HTTPOracleAdapter:
    """Asks the construct at one URL; up to 100 calls at a time, each with its own deadline.

    `policy` decides where calls may go, `headers` are sent with each of them and recorded
    nowhere, `monotonic` returns seconds and measures latency, `form` is what is said. Construct
    it anywhere; it belongs to the event loop of its first call.
    Raises OutboundRefusedError for a URL that the policy refuses as written.

    More reasons than in `read_answer`: `timeout`, `endpoint-not-allowed` (the host's address
    is refused), `unreachable`, `tls-failure`, `disconnected` (before or within the answer),
    `not-http`, `redirect`, `http-status` (other than 200), `content-encoding`,
    `credential-echoed` (the answer holds a request header's value).
    """

    def __init__(
        self,
        url: str,
        *,
        policy: OutboundPolicy,
        clock: Clock,
        monotonic: Callable[[], float],
        headers: RequestHeaders | None = None,
        lookup: Lookup = system_lookup,
        form: WireForm = ENVELOPES,
    ) -> None:
        self._url = policy.check_url(url)
        self._policy = policy
        self._headers = headers or RequestHeaders()
        self._sent = {**_OWN_HEADERS, **self._headers.values}
        self._clock = clock
        self._monotonic = monotonic
        self._lookup = lookup
        self._form = form
        self._distance = Distance(policy, self._url, lookup=lookup)
        self._client = HttpClient(
            lookup=judged_lookup(policy, lookup, is_refused=self._distance.refuses)
        )
        self._closed = False

    @property
    def pin(self) -> str:
        """Return `http@1`, or the pin of another form."""
        return self._form.pin

    @property
    def computed_version(self) -> None:
        """Return None: what runs behind a URL is known by what it reports only."""

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Connect once: see `Distance`."""
        return await self._distance.probe()

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try; raises AdapterClosedError after `aclose`, and nothing for the other side.

        A connection that the other side closes while it is idle can cost a call (reason
        `disconnected`): sending it again unseen would keep an attempt out of the evidence.
        """
        if self._closed:
            raise AdapterClosedError("The adapter is closed: aclose() was called before")
        started = self._monotonic()
        outcome = await wait_within(
            self._exchange(request), seconds=request.metadata.timeout_seconds
        )
        latency_ms = round((self._monotonic() - started) * _MILLISECONDS)
        responded_at = self._clock()
        if isinstance(outcome, bytes):
            return self._form.read(
                outcome, request, latency_ms=latency_ms, responded_at=responded_at
            )
        detail = self._headers.redacted(outcome.detail.encode("utf-8", "replace")).decode()
        outcome = outcome._replace(detail=detail)
        return outcome.as_attempt(request, latency_ms=latency_ms, responded_at=responded_at)

    async def check_reachable(self) -> None:
        """Connect once and ask nothing, within ten seconds.

        Raises OutboundRefusedError where the policy refuses an address of the host, and
        ConstructUnreachableError where nothing accepts the connection.
        """
        await connect_once(self._policy, self._url, lookup=self._lookup)

    async def aclose(self) -> None:
        """Close every connection; calls under way end as `disconnected`."""
        self._closed = True
        await self._client.aclose()

    async def _exchange(self, request: OracleInvocationRequest) -> bytes | CallFailure:
        """Return the body of a response with status 200 that is whole, plain and small enough."""
        try:
            return await self._client.ask(
                "POST",
                self._url,
                read=self._read,
                headers={**self._sent, "Idempotency-Key": request.invocation_id},
                body=self._form.body(request),
            )
        except OutboundRefusedError as error:
            return CallFailure(reason="endpoint-not-allowed", detail=str(error))
        except NoResponseError as error:
            detail = f"expected an answer from {self._url.origin()}, got: {error}"
            return CallFailure(reason=error.reason, detail=detail)

    async def _read(self, response: Connection) -> bytes | CallFailure:
        if problem := _refuse_head(response):
            return problem
        received = await response.read(MAX_ANSWER_BYTES)
        body = self._headers.redacted(received)
        if response.status != _OK:
            return CallFailure(
                reason="http-status",
                detail=f"expected status {_OK}, got {response.status}",
                raw=body,
                wait=retry_after(response.value("retry-after"))
                if response.status in _POSTPONED
                else None,
            )
        # An operator's credential in an answer would be published with the evidence.
        if body != received:
            return CallFailure(
                reason="credential-echoed",
                detail="expected an answer without the value of a request header, got one with it",
                raw=body,
            )
        if len(body) > MAX_ANSWER_BYTES:
            return CallFailure(
                reason="too-large",
                detail=f"expected at most {MAX_ANSWER_BYTES} bytes, got more",
                raw=body,
            )
        return body


def http_adapter_for(
    construct: RemoteConstruct,
    *,
    policy: OutboundPolicy,
    environment: Mapping[str, str],
    clock: Clock,
    monotonic: Callable[[], float],
    keys: KeyOrigins = PROVIDERS_ONLY,
    form: WireForm = ENVELOPES,
) -> HTTPOracleAdapter:
    """Return the adapter that calls `construct`, its headers' values from `environment`.

    Raises OutboundRefusedError for its URL, RequestHeadersError for its headers and
    KeyNotAllowedError for headers that may not go there. That a construct is
    registered does not allow its address: the operator's policy does.
    """
    return HTTPOracleAdapter(
        construct.url,
        policy=policy,
        headers=headers_of(construct, environment, keys),
        clock=clock,
        monotonic=monotonic,
        form=form,
    )
