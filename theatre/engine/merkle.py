"""Merkle trees of RFC 6962, as far as a writer needs them: hashes, and a root that grows.

Proofs and their verifiers: `theatre.transparency.merkle`. Source: RFC 6962, 2.1.
"""

import hashlib


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry; the prefix keeps a node from passing as an entry."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class GrowingTree:
    """The root over leaves that come one by one; memory grows with the height of the tree."""

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []
        """Complete subtrees, the largest first: one for each bit of the size."""

    def add(self, leaf: bytes) -> None:
        """Take the next leaf's hash."""
        hashed, rest = leaf, self.size
        while rest % 2:
            hashed = node_hash(self._subtrees.pop(), hashed)
            rest //= 2
        self._subtrees.append(hashed)
        self.size += 1

    @property
    def root(self) -> bytes:
        """Return the root over the leaves so far."""
        if not self._subtrees:
            return hashlib.sha256(b"").digest()
        *left, root = self._subtrees
        for subtree in reversed(left):
            root = node_hash(subtree, root)
        return root
