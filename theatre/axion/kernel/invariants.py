"""The invariants: what a schema-valid proposal must keep to be allowed.

I0 trace commitment, I1 counterfactuals, I2 the true state, I3 snapshots, I6 completeness of the
interface, I6L the true projection; and COMMIT, MODE, TYPE and SCOPE. I4 (token binding) is
kept by `capability` and `actuation`, I5 (a watchdog that cannot allow anything) by `watchdog`.
"""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from theatre.axion.common.errors import ReplayModelError
from theatre.axion.common.hashing import (
    Document,
    commitment,
    factor_digest,
    hash_json,
    precommitment,
    trace_hash,
)
from theatre.axion.kernel.replay import model_of

MIN_COUNTERFACTUALS = 3
MIN_PROB_MASS = 0.9
_ROUNDING = 1e-9
FULL, LATENT = "full", "mci_latent"
UNTOKENED_CAPABILITY = "actuate_physical_stub"
"""The capability of ops that have none of their own: wait and noop."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What broke which invariant; `data` is what was looked at, and only its hash is stored."""

    invariant: str
    message: str
    data: object = None
    severity: str = "fatal"

    def as_document(self) -> Document:
        """Return the witness of an audit entry."""
        return {
            "invariant": self.invariant,
            "severity": self.severity,
            "message": self.message[:2000],
            "data_hash": hash_json(self.data),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the kernel knows by itself of the step that a proposal is for.

    `factors` is the true projection, in mci_latent only. `precommitted` and `nonces` (by
    reference) are there where the step is challenged.
    """

    interface: Document
    env_hash: str
    factors: list[float] | None = None
    precommitted: str | None = None
    nonces: Mapping[str, str] = field(default_factory=dict)

    def as_document(self) -> Document:
        """Return the form that travels to the gate's process."""
        return {
            "interface": self.interface,
            "env_hash": self.env_hash,
            "factors": self.factors,
            "precommitted": self.precommitted,
            "nonces": dict(self.nonces),
        }

    @classmethod
    def of(cls, document: Document) -> "Expected":
        """Return what `as_document` wrote."""
        return cls(**document)


def broken_invariants(proposal: Document, expected: Expected) -> list[Witness]:
    """Return a witness for everything that a schema-valid `proposal` breaks, in fixed order."""
    return [
        *_trace_commit(proposal),
        *_counterfactuals(proposal),
        *_snapshots(proposal, expected),
        *_interface(proposal, expected),
        *_true_state(proposal, expected),
        *_scopes(proposal),
    ]


def _trace_commit(proposal: Document) -> Iterator[Witness]:
    stated, actual = proposal["trace"]["trace_commit"], trace_hash(proposal["trace"])
    if not hmac.compare_digest(stated, actual):
        yield Witness("I0", f"expected trace_commit {actual}, got {stated}", stated)


def _counterfactuals(proposal: Document) -> Iterator[Witness]:
    given = proposal["trace"]["counterfactuals"]
    mass = sum(one["prob_mass"] for one in given)
    if len(given) < MIN_COUNTERFACTUALS or mass < MIN_PROB_MASS - _ROUNDING:
        yield Witness(
            "I1",
            f"expected at least {MIN_COUNTERFACTUALS} counterfactuals with a mass of at least "
            f"{MIN_PROB_MASS}, got {len(given)} with {mass:.8f}",
            given,
        )


def _snapshots(proposal: Document, expected: Expected) -> Iterator[Witness]:
    trace = proposal["trace"]
    if expected.precommitted is not None and precommitment(trace) != expected.precommitted:
        yield Witness("COMMIT", "expected what was committed before the challenge, got another")
    if expected.interface["mode"] == FULL:
        if not trace["fork_snapshots"]:
            yield Witness("I3", "expected a fork_snapshot, got none")
        return
    snapshot = trace.get("factor_snapshot")
    if snapshot is None:
        yield Witness("I3", "expected a factor_snapshot, got none")
        return
    digest = factor_digest(trace.get("factors"), proposal["interface"])
    if snapshot["factor_digest"] != digest:
        yield Witness("I3", f"expected factor_digest {digest}, got another", snapshot)
        return
    nonce = expected.nonces.get(snapshot["nonce_ref"])
    if expected.precommitted is not None and (
        nonce is None or commitment(nonce, digest, proposal["interface"]) != snapshot["commitment"]
    ):
        yield Witness("I3", "expected a nonce that opens the commitment, got none", snapshot)


def _interface(proposal: Document, expected: Expected) -> Iterator[Witness]:
    trace, mode = proposal["trace"], expected.interface["mode"]
    if proposal["interface"] != expected.interface:
        yield Witness(
            "MODE", f"expected the interface {expected.interface}, got {proposal['interface']}"
        )
    if trace.get("interface_mode", mode if mode == FULL else None) != mode:
        yield Witness("MODE", f"expected interface_mode {mode}, got {trace.get('interface_mode')}")
    if mode == FULL:
        carried = {"factors", "factor_snapshot", "replay_model"} & trace.keys()
        if carried:
            yield Witness("I6", f"expected no factors in full, got {sorted(carried)}")
        return
    yield from _factors(trace, expected.interface["factor_dim"])


def _factors(trace: Document, dim: int) -> Iterator[Witness]:
    factors, snapshot = trace.get("factors", []), trace.get("factor_snapshot")
    if len(factors) != dim or (snapshot is not None and snapshot["dim"] != dim):
        yield Witness("I6", f"expected {dim} factors, got {len(factors)}", factors)
    outside = [factor for factor in factors if not 0 <= factor <= 1]
    if outside:
        yield Witness("I6", f"expected factors within [0, 1], got {outside[0]}", factors)
    if "replay_model" not in trace:
        yield Witness("I6", "expected a replay_model, got none")
        return
    try:
        model_of(trace["replay_model"], dim)
    except ReplayModelError as error:
        yield Witness("I6", str(error), trace["replay_model"])


def _true_state(proposal: Document, expected: Expected) -> Iterator[Witness]:
    seen = hash_json(proposal["env"])
    if seen != expected.env_hash:
        yield Witness("I2", f"expected the env {expected.env_hash}, got {seen}", proposal["env"])
    if expected.interface["mode"] != LATENT:
        return
    factors = proposal["trace"].get("factors")
    if hash_json(factors) != hash_json(expected.factors):
        yield Witness("I6L", f"expected the projection {expected.factors}, got {factors}", factors)


def _scopes(proposal: Document) -> Iterator[Witness]:
    if proposal["proposal_type"] != "action":
        kind = proposal["proposal_type"]
        yield Witness("TYPE", f"expected an action, got {kind}: no capability is given for it")
    allowed = {op for request in proposal["requested_capabilities"] for op in granted_ops(request)}
    missing = {step["op"] for step in proposal["payload"]["plan"]["steps"]} - allowed
    if missing:
        yield Witness("SCOPE", f"expected a requested capability for {sorted(missing)}, got none")


def granted_ops(request: Mapping[str, Any]) -> set[str]:
    """Return the ops that a request may reach: those of its scope that its capability covers."""
    capability = request["capability"]
    covered = {"wait", "noop"} if capability == UNTOKENED_CAPABILITY else {capability}
    return covered & set(request["scope"]["allowed_ops"])
