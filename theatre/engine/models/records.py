"""The forms of what the evidence keeps of calls: the writer fills them, the check reads into them.

Source: docs/contract/evidence.md §7 and §3; docs/constructs.md. A form
says which members a document has, and of which type. Which values may stand there, and whether
they are right, writer and check decide each by itself (docs/adr/0018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models.episodes import InvocationStatus

FIRST, SECOND = 0, 1
"""The values of `repeat`: the calls of a first round, and of a second one."""

EPISODE_RESULT = "episode_result"
"""What the runner of an interactive episode made of it; null where a call did not succeed."""

JUDGEMENTS = "judgements"
"""Criterion → exchanges with a judge; there where the template has judged criteria."""


@lru_cache
def members_of(form: type) -> frozenset[str]:
    """Return the members that a document of `form`, one of the classes below, must have."""
    return frozenset(one.name for one in fields(form))


@dataclass(frozen=True, slots=True)
class _Form:
    """A form whose fields hold JSON values already."""

    def as_document(self) -> JsonObject:
        """Return what the evidence keeps."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


class RetryPolicy(BaseModel):
    """How often a failed call is tried again, and the first wait in seconds (then doubling)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(default=2, ge=0, le=10)
    backoff_seconds: float = Field(default=5, ge=0, le=3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationMetadata:
    """The engine's side of a call. `sanitised` is true only if the sanitiser really ran."""

    timeout_seconds: float = 30
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    deterministic: bool = False
    sanitised: bool = False
    invoked_at: str

    def as_document(self) -> JsonObject:
        """Return the engine's side as it is sent and stored."""
        return {
            "timeout_seconds": self.timeout_seconds,
            "retry_policy": {
                "max_retries": self.retry_policy.max_retries,
                "backoff_seconds": self.retry_policy.backoff_seconds,
            },
            "deterministic": self.deterministic,
            "sanitised": self.sanitised,
            "invoked_at": self.invoked_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleInvocationRequest:
    """What a construct receives. It never holds an expectation, a label or a path."""

    invocation_id: str
    theatre_id: str
    episode_id: str
    construct_id: str
    construct_version: str
    input_data: dict[str, Any]
    metadata: InvocationMetadata

    def as_document(self) -> JsonObject:
        """Return the envelope as it is sent and stored, sharing nothing with the request."""
        return {
            "invocation_id": self.invocation_id,
            "theatre_id": self.theatre_id,
            "episode_id": self.episode_id,
            "construct_id": self.construct_id,
            "construct_version": self.construct_version,
            "input_data": _copied(self.input_data),
            "metadata": self.metadata.as_document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleInvocationResponse:
    """An answer as the engine recorded it; `latency_ms` and `responded_at` are measured here.

    `construct_id` and `construct_version` are what the construct reported, or null where it
    reported nothing readable.
    """

    invocation_id: str
    construct_id: str | None
    construct_version: str | None
    output_data: dict[str, Any] | None = None
    latency_ms: int
    status: InvocationStatus
    error_detail: str | None = None
    responded_at: str

    def as_document(self) -> JsonObject:
        """Return the envelope as the evidence keeps it, sharing nothing with the response."""
        return {
            "invocation_id": self.invocation_id,
            "construct_id": self.construct_id,
            "construct_version": self.construct_version,
            "output_data": _copied(self.output_data),
            "latency_ms": self.latency_ms,
            "status": self.status.value,
            "error_detail": self.error_detail,
            "responded_at": self.responded_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one call.

    `reason` is a stable code where the engine, not the construct, decided the status (see
    `read_answer`; adapters add `timeout`, `crashed`, `unreachable`). `raw` holds the bytes of
    an answer that was not accepted, cut at the limit; `stderr` what the construct complained.
    """

    response: OracleInvocationResponse
    reason: str | None = None
    raw: str | None = None
    stderr: str | None = None

    def as_document(self) -> JsonObject:
        """Return the form that the evidence keeps."""
        return {
            "response": self.response.as_document(),
            "reason": self.reason,
            "raw": self.raw,
            "stderr": self.stderr,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call of a construct, with every attempt at it; `adapter` is the adapter's pin."""

    hop: int
    repeat: int
    construct_id: str
    adapter: str
    version_source: str
    request: OracleInvocationRequest
    attempts: Sequence[Attempt]

    def as_document(self) -> JsonObject:
        """Return the form that the evidence keeps."""
        return {
            "hop": self.hop,
            "repeat": self.repeat,
            "construct_id": self.construct_id,
            "adapter": self.adapter,
            "version_source": self.version_source,
            "request": self.request.as_document(),
            "attempts": [attempt.as_document() for attempt in self.attempts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord(_Form):
    """The record of one episode: `calls` are documents of `RecordedCall`, made as each ended."""

    seq: int
    episode_id: str
    sanitised: JsonObject | None
    calls: list[JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRecord(EpisodeRecord):
    """The record of an interactive episode: `runner` is the runner's pin."""

    runner: str
    episode_result: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """What the trail says of a batch: its episodes as inclusive ranges, and two digests of them.

    `records_sha256` is over the lines of the invocation records, which are in the bundle;
    `journal_sha256` over those of the journal, which the run verifies when it reads them back.
    """

    seqs: Sequence[tuple[int, int]]
    records_sha256: str
    journal_sha256: str
    statuses: Mapping[str, int]

    def as_document(self) -> JsonObject:
        """Return the detail of the audit event."""
        return {
            "seqs": [[first, last] for first, last in self.seqs],
            "records_sha256": self.records_sha256,
            "journal_sha256": self.journal_sha256,
            "statuses": {**self.statuses},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTrouble(_Form):
    """What the trail says of an episode that ended in a failure or a refusal."""

    seq: int
    episode_id: str
    construct_id: str
    hop: int
    status: str
    reason: str | None
    error_detail: str | None


def _copied(value: JsonValue) -> JsonValue:
    # A scorer that changes what it is shown must not reach the record.
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
