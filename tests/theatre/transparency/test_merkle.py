"""Proofs are accepted and refused as the vectors of another implementation have it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.bundle_check.plain_json import DefectError
from theatre.engine.bundle_check.plain_notes import root_above
from theatre.engine.merkle import GrowingTree, leaf_hash, node_hash
from theatre.transparency.errors import ProofError
from theatre.transparency.merkle import (
    EMPTY_ROOT,
    LeafRange,
    complete_subtrees,
    consistency_path,
    inclusion_path,
    split,
    tree_hash,
    verify_consistency,
    verify_inclusion,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
VECTORS = json.loads((FIXTURES / "vectors" / "transparency" / "merkle.json").read_text())
STRICTER = {"additional/sizes-are-equal-one-and-proof-is-empty"}
"""Roots of 12 bytes, which their verifier compares as they are: here a hash has 32."""


def decoded(text: str | None) -> bytes:
    """Return the bytes of a vector's hash."""
    return base64.b64decode(text or "")


def proof_of(vector: dict[str, Any]) -> list[bytes]:
    """Return the hashes of a vector's proof."""
    return [decoded(one) for one in vector["proof"] or []]


def accepts_inclusion(vector: dict[str, Any]) -> bool:
    """Return whether the verifier accepts a vector."""
    try:
        verify_inclusion(
            decoded(vector["leafHash"]),
            index=vector["leafIdx"],
            size=vector["treeSize"],
            proof=proof_of(vector),
            root=decoded(vector["root"]),
        )
    except ProofError:
        return False
    return True


def accepts_inclusion_alone(vector: dict[str, Any]) -> bool:
    """Return whether `verify_bundle.py` accepts a vector, whose parser asks for 32 bytes."""
    leaf, root = decoded(vector["leafHash"]), decoded(vector["root"])
    try:
        found = root_above(leaf, vector["leafIdx"], vector["treeSize"], proof_of(vector))
    except DefectError:
        return False
    return found == root and {len(one) for one in (leaf, root, *proof_of(vector))} == {32}


def accepts_consistency(vector: dict[str, Any]) -> bool:
    """Return whether the verifier accepts a vector."""
    try:
        verify_consistency(
            old=vector["size1"],
            old_root=decoded(vector["root1"]),
            new=vector["size2"],
            new_root=decoded(vector["root2"]),
            proof=proof_of(vector),
        )
    except ProofError:
        return False
    return True


def test_inclusion_vectors_are_accepted_and_refused_as_another_implementation_has_it() -> None:
    other = {
        name: vector
        for name, vector in VECTORS["inclusion"].items()
        if vector["wantErr"] in {accepts_inclusion(vector), accepts_inclusion_alone(vector)}
    }
    assert (len(VECTORS["inclusion"]), other) == (98, {})


def test_consistency_vectors_are_accepted_and_refused_as_another_implementation_has_it() -> None:
    other = {
        name
        for name, vector in VECTORS["consistency"].items()
        if accepts_consistency(vector) is vector["wantErr"]
    }
    assert (len(VECTORS["consistency"]), other) == (98, STRICTER)


def recursive_root(hashes: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it."""
    if len(hashes) < 2:
        return hashes[0] if hashes else EMPTY_ROOT
    middle = split(len(hashes))
    return node_hash(recursive_root(hashes[:middle]), recursive_root(hashes[middle:]))


@given(st.integers(1, 600), st.data())
def test_a_proof_from_the_definition_is_accepted(size: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(b"%d" % number) for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    proof = [
        recursive_root(leaves[place.start : place.end]) for place in inclusion_path(index, size)
    ]
    root = recursive_root(leaves)
    growing = GrowingTree()
    for leaf in leaves:
        growing.add(leaf)
    assert (tree_hash(leaves), growing.root, growing.size) == (root, root, size)
    verify_inclusion(leaves[index], index=index, size=size, proof=proof, root=root)
    old = data.draw(st.integers(0, size))
    path = consistency_path(old, size)
    verify_consistency(
        old=old,
        old_root=recursive_root(leaves[:old]),
        new=size,
        new_root=root,
        proof=[recursive_root(leaves[place.start : place.end]) for place in path],
    )


def test_an_index_beyond_the_tree_is_refused() -> None:
    """Two known libraries forget to look, and verify entry 5 of a tree of 4."""
    leaves = [leaf_hash(b"%d" % number) for number in range(4)]
    with pytest.raises(ProofError, match="expected the index of one of 4 leaves, got 5"):
        verify_inclusion(leaves[1], index=5, size=4, proof=leaves[:2], root=tree_hash(leaves))


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_complete_subtrees_cover_a_range_once(start: int, length: int) -> None:
    aligned = start << 20
    parts = list(complete_subtrees(LeafRange(aligned, aligned + length)))
    assert [part.start for part in parts] == [aligned, *(part.end for part in parts[:-1])]
    assert parts[-1].end == aligned + length
    assert all(part.start % (part.end - part.start) == 0 for part in parts)
