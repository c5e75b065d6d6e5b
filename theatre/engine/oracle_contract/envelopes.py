"""The envelope of a call: what is sent, what came back, and one try of it as it is recorded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import InvocationStatus


class RetryPolicy(BaseModel):
    """How often a failed call is tried again, and the first wait in seconds (then doubling)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_retries: int = Field(default=2, ge=0, le=10)
    backoff_seconds: float = Field(default=5, ge=0, le=3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleInvocationMetadata:
    """The engine's side of a call. `sanitised` is true only if the sanitiser really ran."""

    timeout_seconds: float = 30
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    deterministic: bool = False
    sanitised: bool = False
    invoked_at: str

    def as_document(self) -> JsonObject:
        """Return the engine's side as it is sent and kept."""
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
    metadata: OracleInvocationMetadata

    def as_document(self) -> JsonObject:
        """Return the envelope as it is sent and kept, sharing nothing with the request."""
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


def invocation_id(
    theatre_id: str, *, seq: int, hop: int = 0, repeat: int = 0, turn: int = 0
) -> str:
    """Return UUID5(theatre, "sequence:hop:repeat"): the same for every attempt of a call.

    The turns of an interactive episode, from the second on, have ":turn" behind that.
    """
    # As `uuid.uuid5` does it, which takes four times as long: RFC 9562, 5.5.
    hasher = _begun(theatre_id).copy()
    name = f"{seq}:{hop}:{repeat}:{turn}" if turn else f"{seq}:{hop}:{repeat}"
    hasher.update(name.encode("ascii"))
    digits = hasher.hexdigest()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


@lru_cache(maxsize=8)
def _begun(theatre_id: str) -> hashlib._Hash:
    return hashlib.sha1(UUID(theatre_id).bytes, usedforsecurity=False)


def _copied(value: JsonValue) -> JsonValue:
    # A scorer that changes what it is shown must not reach the record.
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
