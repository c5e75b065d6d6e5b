"""Gate and P5-MCI for episodes that an engine plays: a process of each, which they share.

Both are functions of what they are sent, so it makes no difference which episode asked before. A
process of its own for each episode would cost more than the episode (docs/design/families.md, "A
theatre's gate and P5-MCI are shared").
"""

from __future__ import annotations

import atexit
import os
import threading

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import GateGoneError
from theatre.axion.common.hashing import Document
from theatre.axion.kernel.child import Child
from theatre.axion.kernel.gate_client import verdict_of
from theatre.axion.kernel.invariants import Expected
from theatre.axion.kernel.policy_gate import Decision
from theatre.engine.canonical_json import parse_object


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

    def start(self) -> None:
        """Start the process if it is not there; the first question waits until it is."""
        with self._turn:
            self._child()

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


GATE = SharedProcess("theatre.axion.kernel.gate_process")
P5 = SharedProcess("theatre.axion.kernel.p5_process")


class SharedGate:
    """The policy gate in the process that all episodes share; none watches the clock for it."""

    def __init__(self) -> None:
        GATE.start()

    def decide(self, proposal: bytes, expected: Expected) -> Decision:
        """Return the gate's decision; raises GateBrokenError."""
        answer = GATE.ask(canonical_bytes(expected.as_document()), proposal)
        return Decision.of(parse_object(answer))

    def close(self) -> None:
        """Leave the process to the others."""


class SharedP5:
    """P5-MCI in the process that all episodes share; it receives only closed documents."""

    def __init__(self) -> None:
        P5.start()

    def examine(self, document: Document) -> Document:
        """Return the verdict on a closed document; raises GateBrokenError where it is refused."""
        return verdict_of(P5.ask(canonical_bytes(document)))

    def close(self) -> None:
        """Leave the process to the others."""
