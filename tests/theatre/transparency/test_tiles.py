"""Tiles have the bytes and the names that other implementations give them, and hold every proof."""

import base64
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.transparency.log_stage import entries
from theatre.engine.merkle import leaf_hash
from theatre.transparency.errors import MalformedError
from theatre.transparency.merkle import (
    consistency_path,
    inclusion_path,
    tree_hash,
    verify_consistency,
    verify_inclusion,
)
from theatre.transparency.notes import SignedCheckpoint, VerifierKey
from theatre.transparency.tiles import (
    Tree,
    decode_bundle,
    decode_tile,
    edge_paths,
    encode_bundle,
    grow,
    range_hash,
    read_tree,
    tile_path,
    tiles_needed,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
TESSERA = json.loads((FIXTURES / "vectors" / "transparency" / "tessera_log.json").read_text())


def test_a_log_of_another_implementation_is_made_again_byte_for_byte() -> None:
    theirs = {name: base64.b64decode(data) for name, data in TESSERA["files"].items()}
    key, tree, ours = VerifierKey.parse(TESSERA["vkey"]), Tree(), dict[str, bytes]()
    for number, one in enumerate(decode_bundle(theirs["tile/entries/000.p/15"]), start=1):
        growth = grow(tree, [one])
        ours |= growth.files
        tree = growth.tree
        signed = SignedCheckpoint.verify(theirs[f"checkpoint.{number}"], [key]).checkpoint
        assert (signed.size, signed.root) == (tree.size, tree.root)
    assert {name: data for name, data in theirs.items() if name.startswith("tile/")} == ours


def test_tiles_are_named_as_the_specification_has_it() -> None:
    assert tile_path(0, 1234067) == "tile/0/x001/x234/067"
    assert tile_path(None, 5, 12) == "tile/entries/005.p/12"
    assert tile_path(3, 1000) == "tile/3/x001/000"


def test_a_tree_of_70000_has_the_tiles_that_the_specification_counts() -> None:
    widths = {path.rpartition("/")[0] + ".p": path for path in edge_paths(70_000)}
    assert sorted(widths.values()) == [
        "tile/0/273.p/112",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
        "tile/entries/273.p/112",
    ]
    assert edge_paths(256) == ["tile/1/000.p/1"]


def test_every_proof_is_found_in_the_tiles_that_are_named_for_it() -> None:
    chance = random.Random(6962)  # noqa: S311 - the same sizes every time
    tree, files, leaves = Tree(), dict[str, bytes](), list[bytes]()
    roots = {0: tree.root}
    while tree.size < 70_000:
        count = chance.choice([1, 2, 3, 255, 256, 257, 1000, 20_000])
        growth = grow(tree, entries(tree.size, tree.size + count))
        files |= growth.files
        leaves += growth.leaves
        tree = growth.tree
        roots[tree.size] = tree.root
        assert read_tree(tree.size, {path: files[path] for path in edge_paths(tree.size)}) == tree
    assert tree_hash(leaves) == tree.root
    for size in chance.sample(sorted(roots)[1:], min(12, len(roots) - 1)):
        for index in chance.sample(range(size), min(20, size)):
            path = inclusion_path(index, size)
            held = {name: files[name] for name in tiles_needed(path, size)}
            proof = [range_hash(place, size, held) for place in path]
            verify_inclusion(leaves[index], index=index, size=size, proof=proof, root=roots[size])
    for old in sorted(roots):
        path = consistency_path(old, tree.size)
        held = {name: files[name] for name in tiles_needed(path, tree.size)}
        proof = [range_hash(place, tree.size, held) for place in path]
        verify_consistency(
            old=old, old_root=roots[old], new=tree.size, new_root=tree.root, proof=proof
        )


@given(st.lists(st.integers(0, 700), max_size=6))
def test_batches_of_any_size_make_the_same_tree(counts: list[int]) -> None:
    tree = Tree()
    for count in counts:
        tree = grow(tree, entries(tree.size, tree.size + count)).tree
    whole = grow(Tree(), entries(0, tree.size))
    assert whole.tree == tree
    assert tree_hash([leaf_hash(one) for one in entries(0, tree.size)]) == tree.root


@given(st.lists(st.binary(max_size=300), max_size=256))
def test_a_bundle_gives_back_its_entries(bundle: list[bytes]) -> None:
    assert decode_bundle(encode_bundle(bundle)) == bundle


@pytest.mark.parametrize(
    "data", [b"\x00", b"\x00\x05abc", encode_bundle([b""] * 257)], ids=["half", "cut", "257"]
)
def test_a_bundle_that_is_cut_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError, match="bundle"):
        decode_bundle(data)


def test_a_tile_of_another_width_is_refused() -> None:
    with pytest.raises(MalformedError, match="expected a tile of 64 bytes, got one of 96"):
        decode_tile(b"\x00" * 96, 2)


def test_an_entry_that_no_bundle_can_hold_is_refused() -> None:
    with pytest.raises(MalformedError, match="65535"):
        grow(Tree(), [b"x" * 65_536])
