"""What stands between the engine and a construct: adapters, and who calls them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from theatre.engine.models import Attempt, OracleInvocationRequest
from theatre.engine.oracle_contract.isolation import Isolation


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
