"""The kernel of one run, put together: secret, log, gate, P5, mint, door to the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import GateBrokenError
from theatre.axion.common.hashing import Document, hash_json, trace_hash
from theatre.axion.kernel.actuation import ActuationPort
from theatre.axion.kernel.audit_log import AuditLog, LogicalClock
from theatre.axion.kernel.capability import TokenLedger, TokenMint, kernel_secret
from theatre.axion.kernel.child import Child
from theatre.axion.kernel.invariants import Expected, Witness, granted_ops
from theatre.axion.kernel.policy_gate import Decision
from theatre.axion.kernel.probe_engine import FAIL
from theatre.axion.kernel.processes import P5, P5_MODULE, GateClient, SharedGate, examine_in
from theatre.engine.canonical_json import sha256_hex

DEFAULT_WATCHDOG_MS = 200


class KernelSession:
    """Everything of the kernel that one run of one agent needs; `close` ends its processes.

    The log is written to `stream` and to nothing else. `gate_argv` replaces the gate's process.
    With a `watchdog_ms` of None it has no processes of its own: gate and P5 are those that all
    episodes of this process share, and no watchdog's clock decides what becomes of one.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        seed: bytes,
        watchdog_ms: int | None = DEFAULT_WATCHDOG_MS,
        gate_argv: Sequence[str] | None = None,
    ) -> None:
        self.secret = kernel_secret(seed)
        self.clock = LogicalClock()
        self.log = AuditLog(stream, seed=seed.hex(), clock=self.clock)
        self.ledger = TokenLedger(TokenMint(self.secret))
        self.port = ActuationPort(ledger=self.ledger, log=self.log, clock=self.clock)
        self._mint = TokenMint(self.secret)

        def note_hang(notes: str) -> None:
            self.log.append("FATAL_HANG", notes=notes)

        self._shares = watchdog_ms is None
        self._own_p5: Child | None = None
        self._gate = (
            SharedGate()
            if watchdog_ms is None
            else GateClient(limit_ms=watchdog_ms, append=note_hang, argv=gate_argv)
        )
        self.log.append(
            "POLICY_DECISION",
            verdict="allow_with_constraints",
            notes=f"begin: profile axion8, kernel secret {sha256_hex(self.secret)}",
        )

    def close(self) -> None:
        """End the processes."""
        self._gate.close()
        if self._own_p5 is not None:
            self._own_p5.close()

    def examine(self, document: Document) -> Document:
        """Return the verdict of P5-MCI on a closed document; errors as `examine_in`."""
        if self._shares:
            return examine_in(P5, document)
        self._own_p5 = self._own_p5 or Child(P5_MODULE)
        return examine_in(self._own_p5, document)

    def decide(self, proposal: Document, expected: Expected) -> Decision:
        """Return the gate's decision, which is in the log; errors as `GateClient.decide`."""
        try:
            decision = self._gate.decide(canonical_bytes(proposal), expected)
        except GateBrokenError as error:
            self.log.append("INTERNAL_ERROR", notes=str(error))
            raise
        self.log.append(
            "POLICY_DECISION",
            verdict="allow" if decision.allowed else "deny",
            notes=decision.notes,
            witnesses=decision.witnesses,
            proposal_hash=decision.proposal_hash,
            trace_hash=decision.trace_hash,
        )
        return decision

    def issue(self, proposal: Document, decision: Decision) -> Document:
        """Return the token for the first step of an allowed proposal; the log has it."""
        op = proposal["payload"]["plan"]["steps"][0]["op"]
        requests = proposal["requested_capabilities"]
        token = self._mint.token(
            next(request for request in requests if op in granted_ops(request)),
            proposal_hash=decision.proposal_hash,
            trace_hash=decision.trace_hash,
            now=self.clock(),
        )
        self.log.append(
            "CAPABILITY_ISSUED",
            verdict="allow",
            tokens=[token],
            proposal_hash=decision.proposal_hash,
            trace_hash=decision.trace_hash,
        )
        return token

    def note_precommitment(self, digest: str) -> None:
        """Log what an agent commits to, before its challenge is drawn."""
        witness = Witness("COMMIT", f"committed to {digest}", digest, severity="warn")
        self.log.append(
            "POLICY_DECISION",
            verdict="allow_with_constraints",
            notes="committed before the challenge",
            witnesses=[witness.as_document()],
        )

    def note_verdict(self, verdict: Document, proposal: Document) -> None:
        """Log what P5 found."""
        severity = "fatal" if verdict["verdict"] == FAIL else "warn"
        message = (
            f"{verdict['protocol']} {verdict['verdict']}: {verdict['attempted']} attempted, "
            f"{verdict['passed']} passed, {verdict['failed']} failed, "
            f"{verdict['inconclusive']} inconclusive"
        )
        self.log.append(
            "POLICY_DECISION",
            verdict="allow_with_constraints",
            notes="P5",
            witnesses=[Witness("P5-MCI", message, verdict, severity).as_document()],
            proposal_hash=hash_json(proposal),
            trace_hash=trace_hash(proposal["trace"]),
        )
