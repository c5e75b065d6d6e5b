"""The only door between a plan and the world: every refusal is in the log (I4)."""

from collections.abc import Callable

from theatre.axion.common.errors import ActuationDeniedError
from theatre.axion.common.hashing import NO_HASH, Document, hash_json, trace_hash
from theatre.axion.env.gridworld import GridWorld
from theatre.axion.env.normalize_state import GridState
from theatre.axion.kernel.audit_log import AuditLog
from theatre.axion.kernel.capability import TokenLedger
from theatre.axion.kernel.invariants import Witness


class ActuationPort:
    """Authorises steps of one world, and keeps the log of those it does not."""

    def __init__(self, *, ledger: TokenLedger, log: AuditLog, clock: Callable[[], int]) -> None:
        self._ledger = ledger
        self._log = log
        self._clock = clock

    def open(self, state: GridState) -> GridWorld:
        """Return a world that asks this port before every step."""
        return GridWorld(state, authorise=self._authorise, refuse=self._refuse)

    def _authorise(
        self, token: Document | None, proposal: Document, place: int, step: Document
    ) -> None:
        hashes = {"proposal_hash": hash_json(proposal), "trace_hash": trace_hash(proposal["trace"])}
        try:
            self._ledger.use(
                token, proposal=proposal, hashes=hashes, place=place, step=step, now=self._clock()
            )
        except ActuationDeniedError as error:
            self._deny(error, step, **hashes)
            raise

    def _refuse(self, step: Document) -> None:
        error = ActuationDeniedError(
            "expected a step under a token, got a raw execution", reason="raw"
        )
        self._deny(error, step)
        raise error

    def _deny(
        self,
        error: ActuationDeniedError,
        step: Document,
        *,
        proposal_hash: str = NO_HASH,
        trace_hash: str = NO_HASH,
    ) -> None:
        self._log.append(
            "CAPABILITY_DENIED",
            notes=error.reason,
            witnesses=[Witness(f"I4:{error.reason}", str(error), step).as_document()],
            proposal_hash=proposal_hash,
            trace_hash=trace_hash,
        )
