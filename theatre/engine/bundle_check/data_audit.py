"""How much evidence the questions of a run are: the check's own count of them.

Written from docs/evidence.md, "The data audit"; it imports the standard library and the check's
arithmetic alone, and is part of `verify_bundle.py`.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from theatre.engine.bundle_check.arithmetic import Document, published, ratio

LEAST_CHARACTERS, MOST_LABELS, MOST_LEAVES, MOST_EPISODES = 8, 20, 1000, 1000
BASELINES: Final = ("empty", "copied", "most_frequent", "other_episode")
PLAYED: Final = ("empty", "copied")
"""The baselines of interactive episodes: what is expected at the end answers no turn."""
LETTERS: Final = re.compile(r"[^\W\d_]+")


def digest(data: bytes) -> bytes:
    """Return what stands for a thing that is counted."""
    return hashlib.sha256(data).digest()[:16]


class DataAudit:
    """Counts what was asked, episode by episode; `canonical` gives the bytes of a JSON value."""

    def __init__(self, criteria: Iterable[str], canonical: Callable[[Any], bytes]) -> None:
        self.canonical = canonical
        self.criteria = list(criteria)
        self.episodes = 0
        self.inputs: dict[bytes, int] = {}
        """Digest of an input → bit 0: scored there; bit n + 1: counted on the nth criterion."""
        self.texts: set[bytes] = set()
        self.expected: list[Counter[bytes]] = [Counter() for _ in self.criteria]
        self.leaves: Counter[bytes] = Counter()
        self.given_away: list[list[bytes]] = []
        self.clusters: set[str] = set()

    def add(
        self,
        *,
        sent: object,
        truths: Iterable[object],
        expectations: Mapping[str, object],
        line: Document,
        cluster_key: str | None,
    ) -> None:
        """Take an episode with its line of `per_episode.jsonl`; one that was not run counts not.

        `truths` are its expectation and its label, `expectations` has what is not null on each
        criterion.
        """
        if line["outcome"] == "not_run":
            return
        self.episodes += 1
        raw = self.canonical(sent)
        leaves = list(texts_in(sent))
        marks = int(line["outcome"] == "scored")
        for place, name in enumerate(self.criteria):
            if line["scores"][name] is None:
                continue
            marks |= 2 << place
            if expectations.get(name) is not None:
                self.expected[place][digest(self.canonical(expectations[name]))] += 1
        asked = digest(raw)
        self.inputs[asked] = self.inputs.get(asked, 0) | marks
        words = " ".join(LETTERS.findall(" ".join(leaves).casefold()))
        self.texts.add(digest(words.encode()) if words else asked)
        if cluster_key is not None:
            self.clusters.add(cluster_key)
        found = []
        for leaf in sought(truths):
            name_of_leaf = digest(leaf.encode())
            self.leaves[name_of_leaf] += 1
            if any(leaf in text for text in leaves):
                found.append(name_of_leaf)
        if found:
            self.given_away.append(found)

    def document(self) -> Document:
        """Return `scores/data_audit.json`."""
        ranked = sorted(self.leaves.items(), key=lambda item: (-item[1], item[0]))
        labels = {leaf for leaf, times in ranked[:MOST_LABELS] if times > 1}
        return {
            "episodes": self.episodes,
            "distinct_inputs": len(self.inputs),
            "distinct_scored_inputs": self.marked(1),
            "near_duplicates": len(self.inputs) - len(self.texts),
            "answers_in_inputs": sum(not labels.issuperset(one) for one in self.given_away),
            "clusters": len(self.clusters),
            "criteria": {
                name: {
                    "distinct_inputs": self.marked(2 << place),
                    "expectations": len(self.expected[place]),
                    "majority_share": published(
                        ratio(
                            max(self.expected[place].values(), default=0),
                            self.expected[place].total(),
                        )
                    ),
                }
                for place, name in enumerate(self.criteria)
            },
        }

    def marked(self, bit: int) -> int:
        """Return how many inputs have a mark."""
        return sum(marks & bit > 0 for marks in self.inputs.values())


class BaselineDraw:
    """Keeps which episodes have the smallest digests, by their place in the dataset."""

    def __init__(self, commitment_hash: str) -> None:
        self._commitment_hash = commitment_hash
        self._kept: list[tuple[int, int]] = []

    def add(self, episode_id: str, seq: int) -> None:
        """Take an episode that was run."""
        text = f"{self._commitment_hash}:baseline:{episode_id}"
        number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        heapq.heappush(self._kept, (-number, seq))
        if len(self._kept) > MOST_EPISODES:
            heapq.heappop(self._kept)

    @property
    def drawn(self) -> list[int]:
        """Return them in the order of the dataset."""
        return sorted(seq for _, seq in self._kept)


def texts_in(value: object) -> Iterator[str]:
    """Yield the strings in a JSON value, members in the order of their names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in sorted(value):
            yield from texts_in(value[name])
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def sought(truths: Iterable[object]) -> list[str]:
    """Return the texts of what is expected that no input should hold."""
    leaves: dict[str, None] = {}
    for truth in truths:
        for text in texts_in(truth):
            if len(text) >= LEAST_CHARACTERS:
                leaves[text] = None
    return list(leaves)[:MOST_LEAVES]


def evidence_findings(
    template: Document, audit: Document, baselines: Document, aggregate: Document
) -> list[str]:
    """Return the findings about questions and trivial answers (docs/certificate.md)."""
    found = []
    policy = template.get("execution_policy") or {}
    if not policy.get("deterministic_sample", 0):
        found.append("within-item-variance-unknown")
    if audit["answers_in_inputs"]:
        found.append("answers-in-inputs")
    if audit["near_duplicates"]:
        found.append("near-duplicates")
    for name, one in audit["criteria"].items():
        if one["expectations"] == 1:
            found.append(f"one-expectation:{name}")
    for name, one in baselines["criteria"].items():
        low, score = aggregate["score_intervals"][name]["low"], aggregate["scores"][name]
        limit = score if low is None else low
        trivial = [one[baseline]["score"] for baseline in BASELINES if one[baseline] is not None]
        if limit is not None and any(reached >= limit for reached in trivial):
            found.append(f"baseline-meets-interval:{name}")
    return found
