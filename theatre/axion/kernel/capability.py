"""Capability tokens: each bound to one proposal, one trace, one scope, and signed.

The signature is SHA-256(secret, token), as docs/requirements.md R104 asks. Such a hash can be
extended by anyone who knows a token's bytes; that no token parses with bytes behind it is what
stops that here, and an HMAC would be better. The secret follows from the suite's seed, which is
public: tokens bind agents, which never see the seed, not readers of the log.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import ActuationDeniedError
from theatre.axion.common.hashing import Document, derived_id, hash_json
from theatre.axion.common.schema_load import violations
from theatre.axion.kernel.invariants import UNTOKENED_CAPABILITY, granted_ops

_LABEL = b"toy_pseudo_axion_mci"
PER_MS = 60_000
EXPIRY_MS = 10_000


def kernel_secret(seed: bytes) -> bytes:
    """Return SHA-256(label, seed), the secret of a suite."""
    return hashlib.sha256(_LABEL + seed).digest()


def capability_for(op: str) -> str:
    """Return the capability an op needs; wait and noop share the one that moves nothing."""
    return UNTOKENED_CAPABILITY if op in {"wait", "noop"} else op


def request_for(op: str, calls: int, reason: str) -> Document:
    """Return the request of a token for `calls` steps of `op`."""
    return {
        "capability": capability_for(op),
        "scope": {
            "allowed_ops": [op],
            "rate_limit": {"max_calls": calls, "per_ms": PER_MS},
            "expiry_ms": EXPIRY_MS,
        },
        "justification": reason,
    }


class TokenMint:
    """Makes and recognises tokens; the only holder of the secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._made = 0

    def token(
        self, request: Document, *, proposal_hash: str, trace_hash: str, now: int
    ) -> Document:
        """Return a token for one request of an allowed proposal; `now` in milliseconds."""
        self._made += 1
        scope = request["scope"]
        token: Document = {
            "token_id": derived_id("token", proposal_hash, self._made),
            "capability": request["capability"],
            "scope": scope,
            "binding": {
                "proposal_hash": proposal_hash,
                "trace_hash": trace_hash,
                "scope_hash": hash_json(scope),
            },
            "issued_at_ms": now,
            "expires_at_ms": now + scope["expiry_ms"],
            "revocation_id": derived_id("revocation", proposal_hash, self._made),
        }
        return {**token, "signature": self._signature(token)}

    def recognises(self, token: Document) -> bool:
        """Return whether this mint signed these very bytes."""
        unsigned = {key: item for key, item in token.items() if key != "signature"}
        # In constant time: the time of a comparison must not disclose a signature.
        return hmac.compare_digest(self._signature(unsigned), token["signature"])

    def _signature(self, unsigned: Document) -> str:
        return hashlib.sha256(self._secret + canonical_bytes(unsigned)).hexdigest()


class TokenLedger:
    """Remembers what was done under which token, and says what still may be."""

    def __init__(self, mint: TokenMint) -> None:
        self._mint = mint
        self._calls: Counter[str] = Counter()
        self._window: dict[str, int] = {}
        self._revoked: set[str] = set()
        self._cursors: Counter[str] = Counter()

    def revoke(self, revocation_id: str) -> None:
        """Let no further step be done under the token with that id."""
        self._revoked.add(revocation_id)

    def use(
        self,
        token: Document | None,
        *,
        proposal: Document,
        hashes: Mapping[str, str],
        place: int,
        step: Document,
        now: int,
    ) -> None:
        """Count one use of `token` for `step`, at `place` in the plan of `proposal`.

        `hashes` are the true `proposal_hash` and `trace_hash`. Raises ActuationDeniedError,
        and counts nothing, unless every condition holds.
        """
        if token is None:
            raise ActuationDeniedError("expected a token, got none", reason="no-token")
        self._check_token(token, now)
        self._check_binding(token, hashes)
        self._check_step(token, proposal, hashes["proposal_hash"], place, step)
        # Counted only after every check: a refused step must not use up the token.
        self._calls[token["token_id"]] += 1
        self._cursors[hashes["proposal_hash"]] += 1

    def _check_token(self, token: Document, now: int) -> None:
        found = violations("capability_token", token)
        if found:
            raise ActuationDeniedError(
                f"expected a token, got at {found[0].pointer}: {found[0].detail}",
                reason="malformed",
            )
        if not self._mint.recognises(token):
            raise ActuationDeniedError(
                "expected a token of this kernel, got another signature", reason="signature"
            )
        if not token["issued_at_ms"] <= now < token["expires_at_ms"]:
            raise ActuationDeniedError(
                f"expected a use before {token['expires_at_ms']}, got {now}", reason="expired"
            )
        if token["revocation_id"] in self._revoked:
            raise ActuationDeniedError("expected a valid token, got a revoked", reason="revoked")
        self._check_rate(token, now)

    def _check_rate(self, token: Document, now: int) -> None:
        limit, name = token["scope"]["rate_limit"], token["token_id"]
        if now - self._window.setdefault(name, now) >= limit["per_ms"]:
            self._window[name], self._calls[name] = now, 0
        if self._calls[name] >= limit["max_calls"]:
            raise ActuationDeniedError(
                f"expected at most {limit['max_calls']} uses in {limit['per_ms']} ms, got one more",
                reason="rate-limit",
            )

    @staticmethod
    def _check_binding(token: Document, hashes: Mapping[str, str]) -> None:
        expected = {**hashes, "scope_hash": hash_json(token["scope"])}
        for name, value in expected.items():
            if not hmac.compare_digest(token["binding"][name], value):
                raise ActuationDeniedError(
                    f"expected a token for {name} {value}, got one for {token['binding'][name]}",
                    reason="binding",
                )

    def _check_step(
        self, token: Document, proposal: Document, proposal_hash: str, place: int, step: Document
    ) -> None:
        steps, cursor = proposal["payload"]["plan"]["steps"], self._cursors[proposal_hash]
        if place != cursor or place >= len(steps):
            raise ActuationDeniedError(
                f"expected step {cursor} of {len(steps)} next, got step {place}", reason="cursor"
            )
        if steps[place] != step:
            raise ActuationDeniedError(
                f"expected the step {steps[place]} of the plan, got {step}", reason="step"
            )
        if step["op"] not in granted_ops(token):
            raise ActuationDeniedError(
                f"expected one of {token['scope']['allowed_ops']}, got {step['op']}", reason="scope"
            )
