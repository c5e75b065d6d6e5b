"""The log as static files: tiles of 256 hashes and bundles of 256 entries (C2SP tlog-tiles).

A `Tree` is what a writer has to keep of a log: its size and the right edge of its tiles. `grow`
says which files a batch of entries makes, and what the tree is then. Readers fetch the tiles that
`tiles_needed` names, wherever they lie, and take hashes out with `range_hash`.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from theatre.engine.merkle import leaf_hash
from theatre.transparency.errors import MalformedError
from theatre.transparency.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    LeafRange,
    complete_subtrees,
    join,
    tree_hash,
)

TILE_WIDTH: Final = 256
_TILE_HEIGHT: Final = 8
_GROUP: Final = 1000
MAX_ENTRY_BYTES: Final = 0xFFFF
_LENGTH = struct.Struct(">H")


def tile_path(level: int | None, index: int, width: int = TILE_WIDTH) -> str:
    """Return where a tile of hashes lies below the log's address; `level` None is for entries."""
    groups = [f"{index % _GROUP:03}"]
    while index := index // _GROUP:
        groups.append(f"x{index % _GROUP:03}")
    partial = "" if width == TILE_WIDTH else f".p/{width}"
    return f"tile/{'entries' if level is None else level}/{'/'.join(reversed(groups))}{partial}"


def tile_widths(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield level, index and width of the last tile of each level of a tree of `size`.

    Where that tile is full, or there is none behind the full ones, the width is 0.
    """
    level = 0
    while size:
        yield level, size // TILE_WIDTH, size % TILE_WIDTH
        size //= TILE_WIDTH
        level += 1


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """Return a bundle of entries, each behind its length."""
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def decode_bundle(data: bytes) -> list[bytes]:
    """Return the entries of a bundle; MalformedError where it is cut or longer than a tile."""
    entries, offset = list[bytes](), 0
    while offset < len(data):
        begin = offset + _LENGTH.size
        if begin > len(data):
            raise MalformedError("expected a length before each entry, got a cut bundle")
        offset = begin + _LENGTH.unpack_from(data, begin - _LENGTH.size)[0]
        if offset > len(data) or len(entries) == TILE_WIDTH:
            raise MalformedError("expected at most 256 whole entries, got a cut or longer bundle")
        entries.append(data[begin:offset])
    return entries


def decode_tile(data: bytes, width: int) -> list[bytes]:
    """Return the hashes of a tile; MalformedError unless there are `width`."""
    if len(data) != width * HASH_BYTES:
        raise MalformedError(
            f"expected a tile of {width * HASH_BYTES} bytes, got one of {len(data)}"
        )
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


class Tree(NamedTuple):
    """A log's tree as its writer keeps it.

    `edge` has, for each level, the hashes behind its last full tile: never as many as a tile has.
    `entries` are those of the last bundle, while it is not full.
    """

    size: int = 0
    edge: tuple[tuple[bytes, ...], ...] = ()
    entries: tuple[bytes, ...] = ()

    @property
    def root(self) -> bytes:
        """Return the root hash."""
        root = None
        for hashes in self.edge:
            row = hashes if root is None else (*hashes, root)
            if row:
                root = tree_hash(row)
        return EMPTY_ROOT if root is None else root


@dataclass(frozen=True, slots=True)
class Growth:
    """What becomes of a tree: the files to be written before it is signed, by path, and the tree.

    `leaves` are the hashes of the new entries, in order.
    """

    tree: Tree
    files: Mapping[str, bytes] = field(repr=False)
    leaves: tuple[bytes, ...] = field(repr=False)


def grow(tree: Tree, entries: Sequence[bytes]) -> Growth:
    """Return the tree with `entries` behind what it has.

    Raises MalformedError for an entry that is longer than a bundle can say.
    """
    if any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
        raise MalformedError(f"expected entries of at most {MAX_ENTRY_BYTES} bytes, got a longer")
    files: dict[str, bytes] = {}
    first = tree.size // TILE_WIDTH
    kept: list[bytes] = []
    for index, bundle in enumerate(_in_tiles([*tree.entries, *entries]), start=first):
        files[tile_path(None, index, len(bundle))] = encode_bundle(bundle)
        kept = bundle if len(bundle) < TILE_WIDTH else []
    leaves = tuple(map(leaf_hash, entries))
    size, added, edge = tree.size, list(leaves), list[tuple[bytes, ...]]()
    for level in itertools.count():
        before = tree.edge[level] if level < len(tree.edge) else ()
        if not added and not before and level >= len(tree.edge):
            break
        full: list[bytes] = []
        rest: tuple[bytes, ...] = before
        if added:
            rest = ()
            for index, tile in enumerate(_in_tiles([*before, *added]), start=size // TILE_WIDTH):
                files[tile_path(level, index, len(tile))] = b"".join(tile)
                if len(tile) == TILE_WIDTH:
                    full.append(tree_hash(tile))
                else:
                    rest = tuple(tile)
        edge.append(rest)
        size, added = size // TILE_WIDTH, full
    grown = Tree(size=tree.size + len(entries), edge=tuple(edge), entries=tuple(kept))
    return Growth(tree=grown, files=files, leaves=leaves)


def _in_tiles(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(values), TILE_WIDTH):
        yield list(values[start : start + TILE_WIDTH])


def edge_paths(size: int) -> list[str]:
    """Return the files from which the `Tree` of a log of `size` is read again."""
    paths = [tile_path(level, index, width) for level, index, width in tile_widths(size) if width]
    width = size % TILE_WIDTH
    return [*paths, tile_path(None, size // TILE_WIDTH, width)] if width else paths


def read_tree(size: int, files: Mapping[str, bytes]) -> Tree:
    """Return the tree of `size` from the files that `edge_paths` names.

    Raises MalformedError where one of them is not what its name says.
    """
    edge = tuple(
        tuple(decode_tile(files[tile_path(level, index, width)], width)) if width else ()
        for level, index, width in tile_widths(size)
    )
    entries: tuple[bytes, ...] = ()
    if width := size % TILE_WIDTH:
        entries = tuple(decode_bundle(files[tile_path(None, size // TILE_WIDTH, width)]))
        if len(entries) != width:
            raise MalformedError(f"expected {width} entries in the last bundle, got {len(entries)}")
    return Tree(size=size, edge=edge, entries=entries)


def tiles_needed(ranges: Iterable[LeafRange], size: int) -> dict[str, None]:
    """Return the paths of the tiles that hold the hashes of `ranges` in a tree of `size`."""
    needed: dict[str, None] = {}
    for subtree in itertools.chain.from_iterable(map(complete_subtrees, ranges)):
        level, first, _ = _place(subtree)
        needed[_path_at(level, first // TILE_WIDTH, size)] = None
    return needed


def range_hash(leaves: LeafRange, size: int, files: Mapping[str, bytes]) -> bytes:
    """Return the hash over a range of a tree of `size`, from the tiles that it needs."""
    return join([_subtree_hash(subtree, size, files) for subtree in complete_subtrees(leaves)])


def _subtree_hash(subtree: LeafRange, size: int, files: Mapping[str, bytes]) -> bytes:
    level, first, count = _place(subtree)
    index, at = divmod(first, TILE_WIDTH)
    width = _width_at(level, index, size)
    hashes = decode_tile(files[_path_at(level, index, size)], width)
    return tree_hash(hashes[at : at + count])


def _place(subtree: LeafRange) -> tuple[int, int, int]:
    """Return the level of a complete subtree's tile, its first hash there, and how many it spans.

    What is as wide as a tile is one hash of the level above.
    """
    height = (subtree.end - subtree.start).bit_length() - 1
    level = height // _TILE_HEIGHT
    return level, subtree.start >> level * _TILE_HEIGHT, 1 << height % _TILE_HEIGHT


def _width_at(level: int, index: int, size: int) -> int:
    return min(TILE_WIDTH, (size >> level * _TILE_HEIGHT) - index * TILE_WIDTH)


def _path_at(level: int, index: int, size: int) -> str:
    return tile_path(level, index, _width_at(level, index, size))
