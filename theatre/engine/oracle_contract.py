"""How a construct is called and how its answer is read (docs/contract/construct.md §1).

The same strict reader serves every adapter, so a construct cannot be judged differently because of
the wire it sits on.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    canonical_bytes,
    json_type,
    parse_json,
    sha256_hex,
)
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import ParseError
from theatre.engine.models import (
    Attempt,
    InvocationMetadata,
    InvocationStatus,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
)

__all__ = [
    "DECLARED_ADAPTERS",
    "MAX_ANSWER_BYTES",
    "MAX_ERROR_DETAIL",
    "MAX_STDERR",
    "NOT_ISOLATED",
    "RECORDED_ADAPTERS",
    "REMOTE",
    "Attempt",
    "InvocationMetadata",
    "Invoker",
    "IsolatedBy",
    "Isolation",
    "OracleAdapter",
    "OracleInvocationRequest",
    "OracleInvocationResponse",
    "RehearsalAdapter",
    "RetryPolicy",
    "clean_detail",
    "cut_raw",
    "failed_attempt",
    "pinned_version",
    "program_version",
    "read_answer",
    "served_argv",
    "version_source_of",
    "weakest_isolation",
]

# What a construct could reach while it ran, as was found by trying (docs/constructs.md).


IsolatedBy: TypeAlias = Literal["namespaces", "landlock", "other-user", "remote", "none"]

_WEAKEST_FIRST: tuple[IsolatedBy, ...] = ("none", "other-user", "landlock", "namespaces", "remote")


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What is closed to a construct; false also where it cannot be known.

    `files`: the store, the data and the ground truth of this project. `processes`: memory,
    environment and signals of the run. `network`: every way out, to this machine's own services
    too. `by` is what closes it.
    """

    files: bool
    processes: bool
    network: bool
    by: IsolatedBy

    @property
    def holds(self) -> bool:
        """Return whether the answers are out of reach; an open network alone is a finding."""
        return self.files and self.processes

    def as_document(self) -> JsonObject:
        """Return the four members."""
        return {**asdict(self)}

    def covers(self, other: "Isolation") -> bool:
        """Return whether all that `other` closes is closed here too."""
        return (self.files, self.processes, self.network) == (
            self.files or other.files,
            self.processes or other.processes,
            self.network or other.network,
        )


NOT_ISOLATED = Isolation(files=False, processes=False, network=False, by="none")
REMOTE = Isolation(files=True, processes=True, network=False, by="remote")
"""A construct on another machine: what it can reach there is unknown here."""


def weakest_isolation(found: Iterable[Isolation]) -> Isolation:
    """Return what holds for each of several constructs, of which there is at least one."""
    every = tuple(found)
    return Isolation(
        files=all(one.files for one in every),
        processes=all(one.processes for one in every),
        network=all(one.network for one in every),
        by=min((one.by for one in every), key=_WEAKEST_FIRST.index),
    )


@runtime_checkable
class OracleAdapter(Protocol):
    """One transport to one construct. An adapter never raises for what a construct does."""

    @property
    def pin(self) -> str:
        """Return `name@version` of the adapter, as evidence and `adapter_version` spell it."""

    @property
    def computed_version(self) -> str | None:
        """Return the construct's version where the engine can compute it from its files.

        None for a remote construct: its version is what it reports (`claimed`).
        """

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Try what the construct can reach, and return it; nothing is asked of the construct.

        `closed` are places with answers in them, which it must not be able to read.
        """

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try, bounded by `request.metadata.timeout_seconds`."""

    async def aclose(self) -> None:
        """Let go of everything; no process and no connection stays behind."""


class RehearsalAdapter:
    """Marks adapters whose answers are canned. No certificate ever rests on one (by type)."""


class Invoker(Protocol):
    """Makes one call with its committed retries and returns every attempt, in order."""

    async def __call__(
        self, adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        """Return at least one attempt; the last one's response is the answer."""


# What the version of a construct's program is; engine and construct kit compute the same.


def program_version(argv: Sequence[str], files: Mapping[str, str]) -> str:
    """Return SHA-256 over the canonical bytes of argv and files, 64 hex digits.

    `argv` is as written, its placeholders unfilled; `files` is POSIX path → SHA-256.
    """
    return sha256_hex(canonical_bytes({"argv": list(argv), "files": dict(files)}))


RECORDED_ADAPTERS: Final = frozenset({"imported", "harness"})
"""Adapter types whose answers were asked for by another program than the engine."""
DECLARED_ADAPTERS: Final = frozenset(
    {"openai", "anthropic", "mcp", "container", *RECORDED_ADAPTERS}
)
"""What they ask is pinned by the template, and what answers cannot be seen. Of what is recorded
the version is the hash of what another program says that it asked."""

_NOT_IN_VERSION: Final = frozenset({"key_env", "prices"})


def pinned_version(adapter: str, place: str, settings: JsonObject) -> str:
    """Return the version of a construct that is known by what it is asked, 64 hex digits.

    SHA-256 over the canonical bytes of its adapter type, its endpoint as written (for a program
    the version of that), and its settings without the key's variable and the prices, which change
    no answer.
    """
    asked = {name: value for name, value in settings.items() if name not in _NOT_IN_VERSION}
    return sha256_hex(
        canonical_bytes({"adapter_type": adapter, "endpoint": place, "settings": asked})
    )


def version_source_of(adapter: OracleAdapter) -> Literal["computed", "claimed", "declared"]:
    """Return who says which version answers, as evidence and certificate spell it."""
    if adapter.pin.partition("@")[0] in DECLARED_ADAPTERS:
        return "declared"
    return "claimed" if adapter.computed_version is None else "computed"


def served_argv(target: str) -> tuple[str, ...]:
    """Return the argv, as written, that serves the callable `target` (`module:name`) on stdin."""
    # -P: without it the program's working folder would come before the installed packages.
    kit = ("{python}", "-P", "-m", "theatre.construct_kit", "--stdio")
    return (*kit, "--folder", "{folder}", target)


# What a construct said, made fit for a record: cleaned, and cut to a bounded length.


MAX_ANSWER_BYTES = 1024 * 1024
MAX_ERROR_DETAIL = 2000
MAX_STDERR = 4000
_INVISIBLE = re.compile(
    # C0 and C1 but tab and line feed, zero-width, bidi and line separators, tags. A table of our
    # own: `str.isprintable` answers by the Unicode version of the interpreter.
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)


def clean_detail(text: str, *, limit: int = MAX_ERROR_DETAIL) -> str:
    """Return `text` without invisible characters and lone surrogates, cut to `limit` characters."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub("", readable)[:limit]


def cut_raw(raw: bytes) -> str:
    """Return rejected bytes as text, cut so that it takes at most the answer limit as JSON.

    NUL bytes are six characters each in JSON: a cut by bytes would let a construct write
    records that are too large to be read back.
    """
    text = raw[:MAX_ANSWER_BYTES].decode("utf-8", "backslashreplace")
    lengths = accumulate(_escaped_length(character) for character in text)
    kept = sum(1 for length in lengths if length <= MAX_ANSWER_BYTES)
    return text[:kept]


def _escaped_length(character: str) -> int:
    """Return the most characters that JSON may write for this one."""
    if character < " ":
        return len("\\u0000")
    return 2 if character in '"\\' else 1


_STATUSES = {status.value: status for status in InvocationStatus}


def read_answer(
    raw: bytes, request: OracleInvocationRequest, *, latency_ms: int, responded_at: datetime
) -> Attempt:
    """Read what a construct sent back for `request`; never raises.

    Reasons of an answer that is not accepted: `too-large`, the parser's own (`not-json`,
    `too-deep`, `non-finite`, `duplicate-key`, …), `not-envelope`, `wrong-invocation-id`,
    `wrong-construct-id`, `version-mismatch`, `wrong-run-nonce`.
    """
    answer: JsonValue = None
    try:
        answer = parse_json(raw, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_INPUT_DEPTH)
        problem = _problem_of(answer, request)
    except ParseError as error:
        problem = (error.reason, str(error))
    reported = answer if isinstance(answer, dict) else {}
    if problem is not None:
        reason, detail = problem
        response = OracleInvocationResponse(
            invocation_id=request.invocation_id,
            construct_id=_text_or_none(reported.get("construct_id")),
            construct_version=_text_or_none(reported.get("construct_version")),
            latency_ms=latency_ms,
            status=InvocationStatus.ERROR,
            error_detail=clean_detail(detail),
            responded_at=format_rfc3339(responded_at),
        )
        return Attempt(response=response, reason=reason, raw=cut_raw(raw))
    status, output = _status_of(reported), reported.get("output_data")
    given = reported.get("error_detail")
    unexplained = None if status is InvocationStatus.SUCCESS else "no reason given"
    response = OracleInvocationResponse(
        invocation_id=request.invocation_id,
        construct_id=request.construct_id,
        construct_version=request.construct_version,
        output_data=output if isinstance(output, dict) else None,
        latency_ms=latency_ms,
        status=status or InvocationStatus.ERROR,
        error_detail=clean_detail(given) if isinstance(given, str) else unexplained,
        responded_at=format_rfc3339(responded_at),
    )
    return Attempt(response=response)


def _problem_of(answer: JsonValue, request: OracleInvocationRequest) -> tuple[str, str] | None:
    """Return reason and detail of an answer that is no answer to `request`; else None."""
    if not isinstance(answer, dict):
        return "not-envelope", f"expected an envelope object, got {json_type(answer)}"
    nonce = request.metadata.run_nonce
    echoes = [
        ("wrong-invocation-id", "invocation_id", request.invocation_id),
        ("wrong-construct-id", "construct_id", request.construct_id),
        ("version-mismatch", "construct_version", request.construct_version),
    ]
    if nonce is not None and "run_nonce" in answer:
        # It need not be echoed; an answer with another run's was made for that run.
        echoes.append(("wrong-run-nonce", "run_nonce", nonce))
    for reason, member, expected in echoes:
        seen = answer.get(member)
        if not isinstance(seen, str):
            return "not-envelope", f"expected {member} as a string, got {json_type(seen)}"
        if seen != expected:
            return reason, f"expected {member} {expected} (pinned), got {seen[:100]} (reported)"
    status, output = _status_of(answer), answer.get("output_data")
    if status is None:
        return "not-envelope", f"expected status to be one of {', '.join(InvocationStatus)}"
    if status is InvocationStatus.SUCCESS and not isinstance(output, dict):
        return "not-envelope", f"expected output_data as an object, got {json_type(output)}"
    return None


def _status_of(answer: JsonObject) -> InvocationStatus | None:
    """Return the status, which may be in any case; None for another word."""
    value = answer.get("status")
    return _STATUSES.get(value.lower()) if isinstance(value, str) else None


def _text_or_none(value: JsonValue) -> str | None:
    return clean_detail(value)[:200] if isinstance(value, str) else None


def failed_attempt(
    request: OracleInvocationRequest,
    status: InvocationStatus,
    *,
    reason: str,
    detail: str,
    latency_ms: int,
    responded_at: datetime,
    raw: bytes | None = None,
    stderr: str | None = None,
) -> Attempt:
    """Return the attempt for a call that brought no readable answer (timeout, crash, …)."""
    response = OracleInvocationResponse(
        invocation_id=request.invocation_id,
        construct_id=None,
        construct_version=None,
        latency_ms=latency_ms,
        status=status,
        error_detail=clean_detail(detail),
        responded_at=format_rfc3339(responded_at),
    )
    return Attempt(
        response=response,
        reason=reason,
        raw=None if raw is None else cut_raw(raw),
        stderr=None if stderr is None else clean_detail(stderr, limit=MAX_STDERR),
    )
