"""`mock@1`: canned answers, for tests and rehearsals only (docs/contract/construct.md §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.clock import Clock
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    NOT_ISOLATED,
    Attempt,
    Isolation,
    OracleInvocationRequest,
    RehearsalAdapter,
    failed_attempt,
    read_answer,
)

CannedAnswers: TypeAlias = Mapping[tuple[str | None, str], JsonObject]
"""(Construct id, or None for any; episode id of the dataset) → members of an answer envelope."""


class MockOracleAdapter(RehearsalAdapter):
    """Answers from a table: `answers` by the id that an episode is asked under, else `default`.

    A canned answer holds members of an answer envelope, at least `output_data` for a success;
    the ids and `status` success are filled in where it leaves them out. It goes through the
    same reader as a real one. Without any, the attempt is an error, reason `no-canned-answer`.
    """

    def __init__(
        self,
        answers: Mapping[str, JsonObject],
        *,
        clock: Clock,
        default: JsonObject | None = None,
    ) -> None:
        self._answers = dict(answers)
        self._default = default
        self._clock = clock

    @property
    def pin(self) -> str:
        """Return `mock@1`."""
        return "mock@1"

    @property
    def computed_version(self) -> None:
        """Return None: there is no program whose files could be hashed."""

    async def check_reachable(self) -> None:
        """Answer from memory: there is nothing to be reached."""

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Return that nothing is closed: there is no program that could try."""
        return NOT_ISOLATED

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Return the canned answer, as if it had come at once."""
        canned = self._answers.get(request.episode_id, self._default)
        if canned is None:
            return failed_attempt(
                request,
                InvocationStatus.ERROR,
                reason="no-canned-answer",
                detail="expected a canned answer to this question, got none",
                latency_ms=0,
                responded_at=self._clock(),
            )
        envelope: JsonObject = {
            "invocation_id": request.invocation_id,
            "construct_id": request.construct_id,
            "construct_version": request.construct_version,
            "status": InvocationStatus.SUCCESS.value,
            **canned,
        }
        return read_answer(
            canonical_bytes(envelope), request, latency_ms=0, responded_at=self._clock()
        )

    async def aclose(self) -> None:
        """Hold nothing, so let go of nothing."""
