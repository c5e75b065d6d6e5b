"""Merkle trees of RFC 6962: hashes, and proofs of inclusion and of consistency.

Leaves are counted from 0. A range [start, end) of leaves stands for the subtree over it; proofs are
planned as ranges first, so that a caller can fetch the tiles that they need in one go.
Source: RFC 6962, 2.1; for the verifiers RFC 9162, 2.1.3.2 and 2.1.4.2.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from theatre.engine.merkle import node_hash
from theatre.transparency.errors import ProofError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""The root of the tree without leaves."""

MAX_TREE_SIZE: Final = 2**63 - 1


class LeafRange(NamedTuple):
    """The leaves from `start` to before `end`."""

    start: int
    end: int


def tree_hash(hashes: Sequence[bytes]) -> bytes:
    """Return the root over `hashes`, which are leaves or complete subtrees of one height.

    The last of them may be a lower subtree: the split is the same.
    """
    if not hashes:
        return EMPTY_ROOT
    row = list(hashes)
    while len(row) > 1:
        odd = [row.pop()] if len(row) % 2 else []
        row = [node_hash(*pair) for pair in zip(row[::2], row[1::2], strict=True)] + odd
    return row[0]


def split(size: int) -> int:
    """Return how many leaves the left subtree of a tree of `size` > 1 has."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_path(index: int, size: int) -> list[LeafRange]:
    """Return the subtrees whose hashes show leaf `index` in a tree of `size`, the leaf's first.

    Raises ProofError where there is no such leaf.
    """
    if not 0 <= index < size:
        raise ProofError(f"expected the index of one of {size} leaves, got {index}")
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + split(end - start)
        if index < middle:
            path.append(LeafRange(middle, end))
            end = middle
        else:
            path.append(LeafRange(start, middle))
            start = middle
    return path[::-1]


def consistency_path(old: int, new: int) -> list[LeafRange]:
    """Return the subtrees whose hashes show that the tree of `new` continues that of `old`.

    Raises ProofError unless 0 <= old <= new.
    """
    if not 0 <= old <= new:
        raise ProofError(f"expected a size of at most {new}, got {old}")
    if old in {0, new}:
        return []
    path, start, end = [], 0, new
    # Down to where the old tree ends; it is named itself unless it is a subtree from 0 on.
    while old != end:
        middle = start + split(end - start)
        if old <= middle:
            path.append(LeafRange(middle, end))
            end = middle
        else:
            path.append(LeafRange(start, middle))
            start = middle
    if start > 0:
        path.append(LeafRange(start, end))
    return path[::-1]


def complete_subtrees(leaves: LeafRange) -> Iterator[LeafRange]:
    """Yield the complete subtrees that a range of a proof consists of, from left to right."""
    start = leaves.start
    while start < leaves.end:
        length = 1 << (leaves.end - start).bit_length() - 1
        yield LeafRange(start, start + length)
        start += length


def join(subtrees: Sequence[bytes]) -> bytes:
    """Return the hash over the subtrees that `complete_subtrees` yields, in that order."""
    joined = subtrees[-1]
    for left in reversed(subtrees[:-1]):
        joined = node_hash(left, joined)
    return joined


def root_from_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Return the root that `proof` leads to from a leaf's hash; ProofError for a wrong length."""
    path = inclusion_path(index, size)
    _check_hashes([leaf, *proof], len(path) + 1)
    root = leaf
    for sibling, place in zip(proof, path, strict=True):
        root = node_hash(sibling, root) if place.end <= index else node_hash(root, sibling)
    return root


def verify_inclusion(
    leaf: bytes, *, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Raise ProofError unless `proof` shows the leaf's hash at `index` of the tree."""
    if root_from_inclusion(leaf, index, size, proof) != root:
        raise ProofError(f"expected a proof of entry {index} in the tree of {size}, got another")


def verify_consistency(
    *, old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Raise ProofError unless the tree of `new` leaves begins with that of `old`."""
    path = consistency_path(old, new)
    _check_hashes([old_root, new_root, *proof], len(path) + 2)
    if old == 0:
        # Every tree continues the empty one.
        _require_root(old_root, EMPTY_ROOT, old)
        if new == 0:
            _require_root(new_root, EMPTY_ROOT, new)
        return
    if old == new:
        _require_root(new_root, old_root, new)
        return
    hashes = iter(zip(proof, path, strict=True))
    # A tree that is a complete subtree of the new one is not part of the proof: its root is known.
    begin = old_root if path[0].start >= old else next(hashes)[0]
    was, now = begin, begin
    for sibling, place in hashes:
        if place.end <= old:
            was, now = node_hash(sibling, was), node_hash(sibling, now)
        else:
            now = node_hash(now, sibling)
    _require_root(was, old_root, old)
    _require_root(now, new_root, new)


def _require_root(root: bytes, wanted: bytes, size: int) -> None:
    if root != wanted:
        raise ProofError(f"expected the root of the tree of {size}, got another: no continuation")


def _check_hashes(hashes: Sequence[bytes], count: int) -> None:
    if len(hashes) != count:
        raise ProofError(f"expected {count} hashes with the proof's, got {len(hashes)}")
    if any(len(one) != HASH_BYTES for one in hashes):
        raise ProofError(f"expected hashes of {HASH_BYTES} bytes, got another length")
