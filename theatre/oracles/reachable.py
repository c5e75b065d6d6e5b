"""What a composition root asks of an adapter before the first call."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from theatre.engine.oracle_contract import OracleAdapter


@runtime_checkable
class ReachableAdapter(OracleAdapter, Protocol):
    """An adapter that can tell beforehand whether anybody would answer."""

    async def check_reachable(self) -> None:
        """Start or connect the construct, and ask it nothing.

        Raises ConstructUnreachableError where that cannot be done, OutboundRefusedError where
        it may not be done, and ConstructFilesError where a program's files cannot be read.
        """
