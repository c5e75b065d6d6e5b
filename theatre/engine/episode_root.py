"""One hash over all episodes of a run, of which each can be shown alone.

An episode's line is all that the bundle holds of it. Its leaf is salted: without the salt nothing
can be tried against it, however few answers there could be.
Source: docs/contract/evidence.md §4.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.coin import Draws
from theatre.engine.merkle import GrowingTree, leaf_hash
from theatre.engine.models import GroundTruthEpisode
from theatre.engine.scoring import exact
from theatre.engine.templates import ProductTheatreConfig, Withheld

# Its parts are canonical already: an object of them is made without reading them again.
_LINE = b'{"dataset_line":%b,"label":%b,"record":%b,"result":%b}'


def episode_line(
    episode: GroundTruthEpisode, label: JsonObject | None, record: bytes | None, result: bytes
) -> bytes:
    """Return the canonical line of an episode, without a line feed.

    `record` is its line of `invocations/`, None where it was not run, `result` that of
    `scores/per_episode.jsonl`; `label` the gold label.
    """
    return _LINE % (
        canonical_bytes(episode.line.decode("utf-8")),
        canonical_bytes(label),
        b"null" if record is None else record.removesuffix(b"\n"),
        result.removesuffix(b"\n"),
    )


def withheld_episodes(
    config: ProductTheatreConfig, commitment_hash: str, episode_ids: Sequence[str]
) -> frozenset[str]:
    """Return which episodes a published bundle keeps private, as committed; empty for none."""
    chosen = config.withheld
    if chosen is None:
        return frozenset()
    if chosen.share is None:
        return frozenset(chosen.episodes)

    def rank(episode_id: str) -> str:
        return sha256_hex(f"{commitment_hash}:withheld:{episode_id}".encode())

    size = count_withheld(chosen, len(episode_ids))
    return frozenset(sorted(episode_ids, key=rank)[:size])


def count_withheld(chosen: Withheld, total: int) -> int:
    """Return how many of `total` episodes are withheld."""
    if chosen.share is None:
        return len(chosen.episodes)
    return ceil(exact(chosen.share) * total)


class EpisodeRoot:
    """Takes the episodes in dataset order and gives `episode_root`; `gold` is label by episode."""

    def __init__(self, draws: Draws, gold: Mapping[str, JsonObject]) -> None:
        self._draws = draws
        self._gold = gold
        self._tree = GrowingTree()

    def add(self, episode: GroundTruthEpisode, record: bytes | None, result: bytes) -> None:
        """Take the next episode, with its lines of `invocations/` and of `scores/`."""
        label, salt = self._gold.get(episode.episode_id), self._draws.salt(episode.episode_id)
        self._tree.add(leaf_hash(salt + episode_line(episode, label, record, result)))

    def hexdigest(self) -> str:
        """Return the root over the episodes so far, as 64 hex digits."""
        return self._tree.root.hex()
