"""The interface `full`: fork snapshots over the normalised state, no factors."""

from collections.abc import Sequence

from theatre.axion.common.hashing import Document, commitment, hash_json
from theatre.axion.env.normalize_state import GridState, normalize_state
from theatre.axion.interfaces.base import SNAPSHOT_CHARACTERS, Interface, Mode

FULL = Interface(Mode.FULL)


def state_digest(state: GridState, focus_vars: Sequence[str]) -> str:
    """Return the hash of what `focus_vars` show of `state`."""
    return hash_json(normalize_state(state, focus_vars))


def fork_snapshot(state: GridState, focus_vars: Sequence[str], nonce: str, ref: str) -> Document:
    """Return the snapshot that commits to `state` as far as `focus_vars` show it."""
    digest, names = state_digest(state, focus_vars), sorted(set(focus_vars))
    return {
        "fork_id": f"fork-{ref}"[:SNAPSHOT_CHARACTERS],
        "state_digest": digest,
        "focus_vars": names,
        "commitment": commitment(nonce, digest, names),
        "nonce_ref": ref,
    }
