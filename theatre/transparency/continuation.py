"""A log that was restored: whether it has all that it ever signed, and how it gets that back.

A backup of a log is older than the log. Who signs an entry behind it makes a second tree of a size
that was signed before: a fork, whether he meant it or not. So a log is held to what others have
seen of it before it is written to, and takes over what a newer copy of it has.
Source: docs/contract/trust.md §4, docs/adr/0185.
"""

from theatre.engine.errors import NotFoundError
from theatre.transparency.errors import LogBehindError, LogForkError, MalformedError, ProofError
from theatre.transparency.log import (
    CHECKPOINT,
    Follower,
    LogStore,
    TileStore,
    prove_consistency,
    read_edge,
)
from theatre.transparency.merkle import verify_consistency
from theatre.transparency.notes import Checkpoint, SignedCheckpoint, VerifierKey
from theatre.transparency.tiles import Tree, grow


async def hold_to_copy(
    store: TileStore, ours: Checkpoint, copy: TileStore, key: VerifierKey, *, seen_by: str
) -> None:
    """Compare with the checkpoint of a copy of the log; errors as `require_continuation`.

    Also raises what the copy raises where it has no checkpoint, and SignatureError for another
    log's.
    """
    seen = SignedCheckpoint.verify(await copy.read(CHECKPOINT), [key]).checkpoint
    await require_continuation(store, ours, seen, seen_by=seen_by)


async def require_continuation(
    store: TileStore, ours: Checkpoint, seen: Checkpoint, *, seen_by: str
) -> None:
    """Raise unless the tree of `ours`, whose files are in `store`, goes on from `seen`.

    `seen` must have been verified: it is what the log's key signed, as `seen_by` knows it. Raises
    LogBehindError where it is larger, LogForkError where it is of another tree.
    """
    require_size(ours, seen.size, seen_by=seen_by)
    try:
        verify_consistency(
            old=seen.size,
            old_root=seen.root,
            new=ours.size,
            new_root=ours.root,
            proof=await prove_consistency(store, seen.size, ours.size),
        )
    except (ProofError, MalformedError, NotFoundError) as error:
        raise fork(ours, seen_by=seen_by) from error


def require_size(ours: Checkpoint, seen: int, *, seen_by: str) -> None:
    """Raise LogBehindError where `seen_by` knows a tree of `seen` entries, more than `ours` has."""
    if seen > ours.size:
        raise LogBehindError(
            f"expected the newest state of the log {ours.origin}, got {ours.size} entries where "
            f"{seen_by} has seen {seen}: it was restored from an older copy, and nothing may be "
            "signed behind that. Bring the newer state back: `echelon log recover PLACE` takes it "
            "from a public copy, `echelon admin recover PLACE` that of a service. Where no copy is "
            "left, begin a log with a new key"
        )


def fork(ours: Checkpoint, *, seen_by: str) -> LogForkError:
    """Return the error for a log of which `seen_by` has seen another tree."""
    return LogForkError(
        f"expected the log {ours.origin} to go on from what {seen_by} has seen, got another tree "
        f"of {ours.size} entries: two copies of this log were written to. Nothing may be signed "
        "here again. Keep both trees, restore the one that others have seen, and begin a log with "
        "a new key where neither is whole"
    )


async def recover(store: LogStore, source: TileStore, key: VerifierKey) -> Checkpoint:
    """Take over what a newer copy has; nothing is signed. The caller holds the log.

    Each entry is held to the root that the log's key signed. Raises LogForkError where the copy
    does not go on from what is here, or is older, and SignatureError for another log's.
    """
    data = await source.read(CHECKPOINT)
    newer = SignedCheckpoint.verify(data, [key]).checkpoint
    signed, tree = await store.signed(), Tree()
    if signed is not None:
        here = SignedCheckpoint.verify(signed, [key]).checkpoint
        tree = await read_edge(store, here.size)
    follower = Follower(tree)
    entries = [entry async for _, entry in follower.entries(source, newer)]
    await store.write(grow(tree, entries).files)
    await store.swap_signed(signed, data)
    await store.publish(data)
    return newer
