"""A log over a tile store: its one writer, what readers ask of it, and proofs.

The order of effects: tiles are durable, then a checkpoint is signed, then the signed one is durable
as the log's state, then it is public. A writer that dies anywhere goes on with what was signed and
never signs two trees. Source: docs/contract/trust.md §4.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from theatre.engine.errors import NotFoundError
from theatre.engine.merkle import leaf_hash
from theatre.transparency.errors import LogBehindError, LogForkError, MalformedError, ProofError
from theatre.transparency.merkle import (
    LeafRange,
    consistency_path,
    inclusion_path,
    verify_consistency,
)
from theatre.transparency.notes import (
    Checkpoint,
    Note,
    Sign,
    SignatureLine,
    SignedCheckpoint,
    VerifierKey,
    sign_text,
)
from theatre.transparency.proofs import LogProof, WitnessRequest
from theatre.transparency.tiles import (
    TILE_WIDTH,
    Tree,
    decode_bundle,
    edge_paths,
    grow,
    range_hash,
    read_tree,
    tile_path,
    tiles_needed,
)

CHECKPOINT: Final = "checkpoint"


class TileStore(Protocol):
    """What holds a log's files, for readers."""

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none."""


class LogStore(TileStore, Protocol):
    """What holds a log's files, for its writer, of which there is one at a time."""

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Make files durable; what a name has already is the same, or was never signed."""

    async def signed(self) -> bytes | None:
        """Return the last checkpoint that was signed, public or not yet; None for a new log."""

    async def swap_signed(self, old: bytes | None, new: bytes) -> None:
        """Make a signed checkpoint the log's state, durably.

        Raises LogForkError where the state is not `old`: another writer was at work.
        """

    async def publish(self, checkpoint: bytes) -> None:
        """Make a signed checkpoint public."""

    async def find(self, leaves: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return the indices of those entries that the signed tree holds, by leaf hash."""


class Appended(NamedTuple):
    """Where entries stand, in their order, and the checkpoint that has them all."""

    indices: tuple[int, ...]
    checkpoint: bytes
    size: int


class LogWriter:
    """Appends to a log. `open` first: it goes on with what was signed, or not at all."""

    def __init__(self, store: LogStore, key: VerifierKey, sign: Sign) -> None:
        self._store = store
        self._key = key
        self._sign = sign
        self._tree = Tree()
        self._signed: bytes | None = None

    @property
    def tree(self) -> Tree:
        """Return the tree of the last signed checkpoint."""
        return self._tree

    @property
    def checkpoint(self) -> bytes:
        """Return the last signed checkpoint."""
        if self._signed is None:
            raise LogForkError("expected an opened log, got one that has signed nothing")
        return self._signed

    async def open(self) -> None:
        """Read the tree of what was signed; sign the empty tree of a new log.

        Raises LogForkError where the tiles are not those that were signed: then nothing may be
        signed again by this key until an operator has found out why. LogBehindError where the
        public checkpoint is newer than that.
        """
        self._signed = await self._store.signed()
        if self._signed is None:
            await self._sign_tree(Tree())
            return
        signed = SignedCheckpoint.verify(self._signed, [self._key])
        is_public = await self._require_newest(signed.checkpoint)
        try:
            tree = await read_edge(self._store, signed.checkpoint.size)
        except MalformedError as error:
            raise LogForkError(f"expected the tiles of the signed tree: {error}") from error
        if tree.root != signed.checkpoint.root:
            raise LogForkError(
                f"expected tiles with the signed root of {tree.size} entries, got another root"
            )
        self._tree = tree
        if not is_public:
            # It died between signing and publishing.
            await self._store.publish(self._signed)

    async def _require_newest(self, signed: Checkpoint) -> bool:
        """Return whether what was signed is public.

        Raises LogBehindError where the public one is newer: the state was copied back.
        """
        try:
            data = await self._store.read(CHECKPOINT)
        except NotFoundError:
            return False
        if data == self._signed:
            return True
        public = SignedCheckpoint.verify(data, [self._key]).checkpoint
        if public.size > signed.size:
            raise LogBehindError(
                f"expected what was signed of {signed.origin} to be as new as its checkpoint of "
                f"{public.size} entries, got {signed.size}: it was restored from an older copy"
            )
        return False

    async def append(self, entries: Sequence[bytes]) -> Appended:
        """Log entries; one that the log has keeps its place. Returns once they are public."""
        leaves = [leaf_hash(entry) for entry in entries]
        places = dict(await self._store.find(leaves))
        new: dict[bytes, bytes] = {}
        for leaf, entry in zip(leaves, entries, strict=True):
            if leaf not in places and leaf not in new:
                new[leaf] = entry
        if new:
            growth = grow(self._tree, list(new.values()))
            places |= {leaf: index for index, leaf in enumerate(new, start=self._tree.size)}
            await self._store.write(growth.files)
            await self._sign_tree(growth.tree)
        return Appended(
            indices=tuple(places[leaf] for leaf in leaves),
            checkpoint=self.checkpoint,
            size=self._tree.size,
        )

    async def sign_again(self, size: int) -> bytes:
        """Return the checkpoint that the log had at an earlier `size`: the same text, signed again.

        Raises LogForkError where the tiles of that size are not of the signed tree, and what the
        store raises for missing ones: a tree that was never signed must not be.
        """
        if size == self._tree.size:
            return self.checkpoint
        try:
            tree = await read_edge(self._store, size)
            verify_consistency(
                old=size,
                old_root=tree.root,
                new=self._tree.size,
                new_root=self._tree.root,
                proof=await prove_consistency(self._store, size, self._tree.size),
            )
        except (MalformedError, ProofError) as error:
            raise LogForkError(f"expected the tiles of {size} signed entries: {error}") from error
        return sign_tree(tree, self._key, self._sign)

    async def add_cosignatures(self, lines: Sequence[SignatureLine]) -> bytes:
        """Publish the last checkpoint with the lines of witnesses, and return it."""
        note = Note.parse(self.checkpoint)
        known = {(line.name, line.key_id) for line in lines}
        kept = [line for line in note.signatures if (line.name, line.key_id) not in known]
        await self._replace(bytes(Note(note.text, (*kept, *lines))))
        return self.checkpoint

    async def _sign_tree(self, tree: Tree) -> None:
        await self._replace(sign_tree(tree, self._key, self._sign))
        self._tree = tree

    async def _replace(self, checkpoint: bytes) -> None:
        await self._store.swap_signed(self._signed, checkpoint)
        self._signed = checkpoint
        await self._store.publish(checkpoint)


def sign_tree(tree: Tree, key: VerifierKey, sign: Sign) -> bytes:
    """Return the checkpoint of a tree. Two trees of one size must never be signed."""
    text = str(Checkpoint(key.name, tree.size, tree.root))
    return bytes(Note(text, (sign_text(text, key, sign),)))


async def read_files(store: TileStore, paths: Sequence[str]) -> dict[str, bytes]:
    """Return files by path."""
    return {path: await store.read(path) for path in paths}


async def read_edge(store: TileStore, size: int) -> Tree:
    """Return the tree of `size` from its last tiles; its root is the reader's to compare.

    Raises MalformedError for tiles of another width, and what the store raises for missing ones.
    """
    return read_tree(size, await read_files(store, edge_paths(size)))


async def prove_inclusion(store: TileStore, index: int, checkpoint: bytes) -> LogProof:
    """Return the proof that entry `index` is in the tree of a checkpoint of this log."""
    size = Checkpoint.parse(Note.parse(checkpoint).text).size
    hashes = await _hashes(store, inclusion_path(index, size), size)
    return LogProof(index, hashes, checkpoint)


async def prove_consistency(store: TileStore, old: int, new: int) -> tuple[bytes, ...]:
    """Return the hashes that show that the tree of `new` entries continues that of `old`."""
    return await _hashes(store, consistency_path(old, new), new)


async def _hashes(store: TileStore, path: Sequence[LeafRange], size: int) -> tuple[bytes, ...]:
    files = await read_files(store, list(tiles_needed(path, size)))
    return tuple(range_hash(leaves, size, files) for leaves in path)


async def ask_witness(store: TileStore, old: int, checkpoint: bytes) -> WitnessRequest:
    """Return what a witness that knows the tree of `old` entries has to be sent."""
    size = Checkpoint.parse(Note.parse(checkpoint).text).size
    return WitnessRequest(old, await prove_consistency(store, old, size), checkpoint)


class Follower:
    """Reads a log from where it stopped, and holds every entry to the signed root.

    It keeps the tree and not the tiles: whatever the log serves, the entries that it was shown
    before are in the root that it compares.
    """

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree = tree or Tree()

    async def entries(self, store: TileStore, new: Checkpoint) -> AsyncIterator[tuple[int, bytes]]:
        """Yield index and bytes of the entries that `new` has behind what was followed.

        Nothing is verified before it has come to its end: it raises LogForkError there, where the
        entries do not lead from the tree that was followed to the signed root, and at once where
        the log has become shorter.
        """
        if new.size < self.tree.size:
            raise LogForkError(f"expected {self.tree.size} entries at least, got {new.size}")
        tree = self.tree
        for index in range(tree.size // TILE_WIDTH, -(-new.size // TILE_WIDTH)):
            width = min(TILE_WIDTH, new.size - index * TILE_WIDTH)
            try:
                bundle = decode_bundle(await store.read(tile_path(None, index, width)))
            except MalformedError as error:
                raise LogForkError(f"expected the entries of bundle {index}: {error}") from error
            start = tree.size
            tree = grow(tree, bundle[start - index * TILE_WIDTH :]).tree
            for at in range(start, tree.size):
                yield at, bundle[at - index * TILE_WIDTH]
        if tree.size != new.size or tree.root != new.root:
            raise LogForkError(
                f"expected entries that lead from {self.tree.size} to the signed root of "
                f"{new.size}, got others: the log was rewritten"
            )
        self.tree = tree
