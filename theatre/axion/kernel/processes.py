"""The gate and the P5 probe as the kernel of one run asks them: the gate under a watchdog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import GateBrokenError
from theatre.axion.common.hashing import Document
from theatre.axion.kernel.child import Child
from theatre.axion.kernel.invariants import Expected
from theatre.axion.kernel.policy_gate import Decision
from theatre.axion.kernel.watchdog import Watchdog
from theatre.engine.canonical_json import parse_object


class Gate(Protocol):
    """Decides on the bytes of a proposal."""

    def decide(self, proposal: bytes, expected: Expected) -> Decision:
        """Return the decision."""

    def close(self) -> None:
        """Let go of everything."""


class P5Probe(Protocol):
    """Examines closed documents."""

    def examine(self, document: Document) -> Document:
        """Return the verdict."""

    def close(self) -> None:
        """Let go of everything."""


class GateClient:
    """The policy gate in its own process. The first question waits until it has started."""

    def __init__(
        self, *, limit_ms: int, append: Callable[[str], None], argv: Sequence[str] | None = None
    ) -> None:
        self._child = Child("theatre.axion.kernel.gate_process", argv=argv)
        self._watchdog = Watchdog(limit_ms=limit_ms, append=append, terminate=self._child.kill)
        self._started = argv is not None

    def decide(self, proposal: bytes, expected: Expected) -> Decision:
        """Return the gate's decision; raises FatalHangError and GateBrokenError."""
        question = canonical_bytes(expected.as_document())
        if not self._started:
            # Starting an interpreter is no hang; an unreadable proposal costs next to nothing.
            self._child.ask(question, b"")
            self._started = True
        self._child.send(question, proposal)
        self._watchdog.wait(self._child.answered)
        return Decision.of(parse_object(self._child.take()))

    def close(self) -> None:
        """End the process."""
        self._child.close()


class P5Client:
    """P5-MCI in its own process, which receives closed documents and nothing else."""

    def __init__(self) -> None:
        self._child = Child("theatre.axion.kernel.p5_process")

    def examine(self, document: Document) -> Document:
        """Return the verdict on a closed document; raises GateBrokenError where it is refused."""
        return verdict_of(self._child.ask(canonical_bytes(document)))

    def close(self) -> None:
        """End the process."""
        self._child.close()


def verdict_of(data: bytes) -> Document:
    """Return the verdict in an answer of P5-MCI; raises GateBrokenError for a refusal."""
    verdict: Document = parse_object(data)
    if "refused" in verdict:
        raise GateBrokenError(f"expected a verdict of P5-MCI, got: {verdict['refused']}")
    return verdict
