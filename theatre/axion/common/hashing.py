"""The hashes of the audit, all over `axion8`, and the commitment to a snapshot."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.engine.canonical_json import sha256_hex

# Draws that follow from a seed and nothing else: no global state, the same on every machine.


_Item = TypeVar("_Item")
_BITS = 64


class Draws:
    """A stream of draws from SHA-256(seed, counter)."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound), bound ≥ 1, uniform: what would be biased is redrawn."""
        limit = (1 << _BITS) - (1 << _BITS) % bound
        while True:
            block = hashlib.sha256(self._seed + self._count.to_bytes(8, "big")).digest()
            self._count += 1
            number = int.from_bytes(block[:8], "big")
            if number < limit:
                return number % bound

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items in a drawn order (Fisher and Yates)."""
        order = list(items)
        for place in range(len(order) - 1, 0, -1):
            other = self.below(place + 1)
            order[place], order[other] = order[other], order[place]
        return order

    def sample(self, items: Sequence[_Item], count: int) -> list[_Item]:
        """Return `count` different items, or all of them where there are fewer."""
        return self.shuffled(items)[:count]


Document = dict[str, Any]
"""A JSON object whose shape a schema has confirmed, or is about to."""

NO_HASH = "0" * 64
"""Stands for the hash of something that has none, and for what the first log entry follows."""

_IDS = uuid5(NAMESPACE_URL, "https://axio.local/")


def hash_json(value: object) -> str:
    """Return the SHA-256 of the canonical bytes of `value`."""
    return sha256_hex(canonical_bytes(value))


def trace_hash(trace: Mapping[str, Any]) -> str:
    """Return the hash of `trace` without its `trace_commit`, which holds this very hash."""
    return hash_json({key: item for key, item in trace.items() if key != "trace_commit"})


def precommitment(trace: Mapping[str, Any]) -> str:
    """Return the hash of what an agent may not change any more once a challenge is drawn.

    That is: snapshots, replay model and claims. An agent hands it over before its proposal.
    """
    members = ("fork_snapshots", "factor_snapshot", "replay_model", "causal_claims")
    return hash_json({name: trace.get(name) for name in members})


def factor_digest(factors: object, interface: Mapping[str, Any]) -> str:
    """Return what a factor snapshot commits to: the factors and the interface they belong to."""
    return hash_json({"factors": factors, "interface_spec": dict(interface)})


def commitment(nonce: str, digest: str, context: object) -> str:
    """Return HMAC-SHA256(nonce, digest, 0, SHA-256(context)), 64 hex digits.

    `nonce` and `digest` are hex. `context` is the list of focus variables of a fork snapshot, or
    the interface of a factor snapshot. Without the nonce it cannot be opened or forged.
    """
    message = bytes.fromhex(digest) + b"\0" + bytes.fromhex(hash_json(context))
    return hmac.new(bytes.fromhex(nonce), message, hashlib.sha256).hexdigest()


def derived_secret(label: str, *parts: object, key: bytes = b"") -> bytes:
    """Return 32 bytes that follow from `key`, `label` and `parts` (their texts, in order)."""
    text = "|".join([label, *(str(part) for part in parts)])
    return hmac.new(key, text.encode("utf-8"), hashlib.sha256).digest()


def derived_id(*parts: object) -> str:
    """Return a UUID (version 5) that follows from `parts`."""
    return str(derived_uuid(*parts))


def derived_uuid(*parts: object) -> UUID:
    """Return the same as a UUID."""
    return uuid5(_IDS, "|".join(str(part) for part in parts))
