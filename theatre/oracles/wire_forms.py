"""What goes over the wire to a construct behind HTTP, and what comes of it.

Bodies: `http@1` sends the envelope and wants one back; `plain_http@1` is for services that know no
envelope, are sent the bare input, and answer with the output. Headers: those that an operator adds
to each call come from `constructs.toml` (`headers_env`) or the command line, never from a template;
they are secrets, kept out of everything that is recorded (docs/contract/construct.md §3).
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes, parse_json
from theatre.engine.errors import ParseError
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationRequest,
    failed_attempt,
    read_answer,
)
from theatre.oracles.errors import RequestHeadersError

# A call without a readable answer, and the attempt that is recorded for it.


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed(Attempt):
    """An attempt that was put off: the other side wants the next one in `wait` seconds."""

    wait: float

    def as_document(self) -> JsonObject:
        """Return what the evidence keeps: that of any attempt."""
        document = Attempt.as_document(self)
        del document["wait"]
        return document


class CallFailure(NamedTuple):
    """Why there is no answer, with a stable `reason`; the version stands in for a reported one.

    `usage` is what a provider counted all the same: an answer that does not count is paid, too.
    `wait` is in how many seconds the other side wants to be asked again, where it says so.
    """

    reason: str
    detail: str
    status: InvocationStatus = InvocationStatus.ERROR
    raw: bytes | None = None
    reported_version: str | None = None
    usage: Mapping[str, int] | None = None
    wait: float | None = None

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
        usage = None if self.usage is None else dict(self.usage)
        if self.wait is None:
            return replace(attempt, response=response, usage=usage)
        raw, reason = attempt.raw, self.reason
        return Postponed(response=response, reason=reason, raw=raw, usage=usage, wait=self.wait)


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


# What a body holds.


PLAIN_PIN = "plain_http@1"


class WireForm(NamedTuple):
    """How a request is put into a body, and how the body that comes back is read.

    Without `bare` it is the envelope of docs/contract/construct.md, both ways. `bare` makes of
    `input_data` what a service is sent that knows no envelope: it answers with the bare output,
    echoes nothing and reports no version. The evidence says the pinned one, and the pin of this
    form caps the tier (`version-unreported`).
    """

    bare: Callable[[JsonObject], JsonObject] | None = None

    @property
    def pin(self) -> str:
        """Return `name@version`, as evidence and `adapter_version` spell it."""
        return "http@1" if self.bare is None else PLAIN_PIN

    def body(self, request: OracleInvocationRequest) -> bytes:
        """Return what is sent."""
        bare = self.bare
        return canonical_bytes(request.as_document() if bare is None else bare(request.input_data))

    def read(
        self,
        raw: bytes,
        request: OracleInvocationRequest,
        *,
        latency_ms: int,
        responded_at: datetime,
    ) -> Attempt:
        """Read what came back, with reasons as `read_answer`; never raises.

        Of a bare answer an object is the `output_data`; all else is refused as no envelope would
        be.
        """
        output = None
        with suppress(ParseError):
            if self.bare is not None:
                depth = MAX_INPUT_DEPTH - 1
                output = parse_json(raw, max_bytes=MAX_ANSWER_BYTES, max_depth=depth)
        if isinstance(output, dict):
            reported: JsonObject = {
                "invocation_id": request.invocation_id,
                "construct_id": request.construct_id,
                "construct_version": request.construct_version,
                "status": "success",
            }
            # The bytes as they came: what is unusable in them is found where it always is.
            raw = canonical_bytes(reported)[:-1] + b',"output_data":' + raw + b"}"
        return read_answer(raw, request, latency_ms=latency_ms, responded_at=responded_at)


ENVELOPES = WireForm()


# The headers that an operator adds to each call.


REDACTED = "[redacted]"

# Shorter values say little, and would be found in any answer.
_MIN_SECRET = 8
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The escapes that can stand for a character of a value.
_JSON_ESCAPE = re.compile(rb'\\(?:u00([0-7][0-9A-Fa-f])|(["\\/t]))')
# What frames the message, what the protocol of constructs decides, and what the adapter says.
_OURS = re.compile(
    "accept|accept-encoding|connection|content-.*|expect|host|idempotency-key|keep-alive|proxy-.*"
    "|te|trailer|transfer-encoding|upgrade|user-agent",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Headers by name; the repr shows none of the values.

    Raises RequestHeadersError for a name that is no header name or belongs to the adapter, one
    that comes twice in different case, and a value that is not printable ASCII; never with the
    value in the message.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    _secrets: tuple[tuple[bytes, bytes], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            _check(name, value)
        names = [name.lower() for name in self.values]
        if len(set(names)) != len(names):
            raise RequestHeadersError(f"expected each header once, got {', '.join(sorted(names))}")
        secrets = {secret for value in self.values.values() for secret in _secrets_of(value)}
        longest_first = sorted(secrets, key=lambda secret: (-len(secret), secret))
        replaced = tuple((secret.encode("ascii"), REDACTED.encode()) for secret in longest_first)
        object.__setattr__(self, "_secrets", replaced)

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str], environment: Mapping[str, str]
    ) -> "RequestHeaders":
        """Return the headers whose values stand in environment variables (name → variable).

        Raises RequestHeadersError for a variable that is not set or cannot be one, and as the
        constructor.
        """
        for name, variable in variables.items():
            if not _VARIABLE.fullmatch(variable):
                # Not echoed: it may be the value itself.
                raise RequestHeadersError(
                    f"expected the name of an environment variable for header {name}, "
                    "got something else: put the value into a variable and name that"
                )
            if variable not in environment:
                raise RequestHeadersError(
                    f"expected the value of header {name} in the environment variable {variable}, "
                    "got none: set it"
                )
        return cls({name: environment[variable] for name, variable in variables.items()})

    def redacted(self, data: bytes) -> bytes:
        """Return `data` without the values of 8 characters or more, as they are sent or in JSON.

        Of a value with a scheme (`Bearer …`) the credentials alone are found as well. Where a
        value is spelt with escapes of JSON, what comes back is `data` with those resolved.
        """
        if not self._secrets:
            return data
        plain = self._without_secrets(data)
        resolved = _JSON_ESCAPE.sub(_resolve, plain)
        redacted = self._without_secrets(resolved)
        return plain if redacted == resolved else redacted

    def _without_secrets(self, data: bytes) -> bytes:
        for secret, replacement in self._secrets:
            data = data.replace(secret, replacement)
        return data


def _check(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise RequestHeadersError(f"expected the name of a header, got {name!r:.100}")
    if _OURS.fullmatch(name):
        raise RequestHeadersError(f"expected a header that calls leave free, got {name}")
    if not _VALUE.fullmatch(value):
        raise RequestHeadersError(
            f"expected the value of header {name} as printable ASCII without spaces around it"
        )


def _secrets_of(value: str) -> set[str]:
    credentials = value.rpartition(" ")[2]
    secrets = {text for text in (value, credentials) if len(text) >= _MIN_SECRET}
    return secrets | {json.dumps(text)[1:-1] for text in secrets}


def _resolve(escape: re.Match[bytes]) -> bytes:
    code, character = escape.groups()
    if code is not None:
        return bytes.fromhex(code.decode("ascii"))
    return b"\t" if character == b"t" else character
