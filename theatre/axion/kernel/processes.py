"""The gate and P5-MCI as the kernel of one run asks them, each in a process of its own.

A suite has processes of its own, its gate under a watchdog. Episodes that an engine plays share one
of each: both are functions of what they are sent, so it makes no difference which episode asked
before, and a process for each episode would cost more than the episode (docs/design/families.md, "A
theatre's gate and P5-MCI are shared").
"""

import atexit
import os
import threading
from collections.abc import Callable, Sequence

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import GateBrokenError, GateGoneError
from theatre.axion.common.hashing import Document
from theatre.axion.kernel.child import Child
from theatre.axion.kernel.invariants import Expected
from theatre.axion.kernel.policy_gate import Decision
from theatre.axion.kernel.watchdog import Watchdog
from theatre.engine.canonical_json import parse_object

_GATE, P5_MODULE = "theatre.axion.kernel.policy_gate", "theatre.axion.kernel.probe_engine"


class SharedProcess:
    """One module of the kernel in a process that lives as long as this one; threads take turns."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._turn = threading.Lock()
        self._children: dict[int, Child] = {}
        """By the process that started it: what was forked from that one starts its own."""
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Return the id of the process, started if it is not there."""
        with self._turn:
            return self._child().pid

    def ask(self, *messages: bytes) -> bytes:
        """Return the answer; a process that is gone is started again and asked once more.

        Raises GateBrokenError where none comes within a minute, or the second is gone as well.
        """
        with self._turn:
            try:
                return self._ask_child(messages)
            except GateGoneError:
                return self._ask_child(messages)

    def close(self) -> None:
        """End the process; a later question starts another."""
        with self._turn:
            self._drop()

    def _ask_child(self, messages: tuple[bytes, ...]) -> bytes:
        try:
            return self._child().ask(*messages)
        except BaseException:
            # A pending answer would be read as the answer to the next question.
            self._drop()
            raise

    def _child(self) -> Child:
        child = self._children.get(os.getpid())
        if child is None:
            child = self._children[os.getpid()] = Child(self._module)
        return child

    def _drop(self) -> None:
        child = self._children.pop(os.getpid(), None)
        if child is not None:
            child.close()


GATE, P5 = SharedProcess(_GATE), SharedProcess(P5_MODULE)


class GateClient:
    """The policy gate in its own process. The first question waits until it has started."""

    def __init__(
        self, *, limit_ms: int, append: Callable[[str], None], argv: Sequence[str] | None = None
    ) -> None:
        self._child = Child(_GATE, argv=argv)
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


class SharedGate:
    """The policy gate in the process that all episodes share; none watches the clock for it."""

    def decide(self, proposal: bytes, expected: Expected) -> Decision:
        """Return the gate's decision; raises GateBrokenError."""
        answer = GATE.ask(canonical_bytes(expected.as_document()), proposal)
        return Decision.of(parse_object(answer))

    def close(self) -> None:
        """Leave the process to the others."""


def examine_in(process: Child | SharedProcess, document: Document) -> Document:
    """Return the verdict of P5-MCI, which runs in `process`, on a closed document.

    Raises GateBrokenError where it is refused.
    """
    verdict: Document = parse_object(process.ask(canonical_bytes(document)))
    if "refused" in verdict:
        raise GateBrokenError(f"expected a verdict of P5-MCI, got: {verdict['refused']}")
    return verdict
