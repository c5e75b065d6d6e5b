"""How much evidence the questions of a run are: the check's own count of them.

Written from docs/contract/earned.md §5.1; it imports the standard library and the check's
arithmetic alone, and is part of `verify_bundle.py`.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import UNSEEN, Document, Plan, exact, published, ratio

LEAST_CHARACTERS, MOST_LABELS, MOST_LEAVES, MOST_EPISODES = 8, 20, 1000, 1000
DIGEST: Final = 16
"""Bytes of what stands for a thing that is counted."""
BASELINES: Final = ("empty", "copied", "most_frequent", "other_episode")
PLAYED: Final = ("empty", "copied")
"""The baselines of interactive episodes: what is expected at the end answers no turn."""
FEWEST_TWICE: Final = 30
"""Below so many episodes that are asked twice, that their answers were alike says little."""
LETTERS: Final = re.compile(r"[^\W\d_]+")


def digest(data: bytes) -> bytes:
    """Return what stands for a thing that is counted."""
    return hashlib.sha256(data).digest()[:DIGEST]


class Question(NamedTuple):
    """What one episode asked and expected, as digests: what is counted of it."""

    asked: bytes
    words: bytes
    expected: Mapping[str, bytes]
    """Criterion → what is expected there, where that is not null."""
    sought: list[bytes]
    """Each text of what is expected that no input should hold; `found` are those that it holds."""
    found: list[bytes]
    cluster_key: str | None


class DataAudit:
    """Counts what was asked, episode by episode; `canonical` gives the bytes of a JSON value.

    Digests lie one behind the other: sixteen bytes each, where a set would take a hundred.
    """

    def __init__(self, criteria: Iterable[str], canonical: Callable[[Any], bytes]) -> None:
        self.canonical = canonical
        self.criteria = list(criteria)
        self.inputs = bytearray()
        self.marks: list[int] = []
        """For each input, bit 0: scored there; bit n + 1: counted on the nth criterion."""
        self.texts = bytearray()
        self.expected = [bytearray() for _ in self.criteria]
        self.leaves = bytearray()
        self.given_away: list[list[bytes]] = []
        self.clusters: set[str] = set()

    def question(
        self,
        *,
        sent: object,
        truths: Iterable[object],
        expectations: Mapping[str, object],
        cluster_key: str | None,
    ) -> Question:
        """Return what is counted of an episode; nothing that is shown to a scorer afterwards.

        `truths` are its expectation and its label, `expectations` has what is not null on each
        criterion.
        """
        asked, texts = digest(self.canonical(sent)), texts_in(sent)
        words = " ".join(LETTERS.findall(UNSEEN.sub("", " ".join(texts)).casefold()))
        leaves = {leaf: digest(leaf.encode()) for leaf in sought(truths)}
        return Question(
            asked=asked,
            words=digest(words.encode()) if words else asked,
            expected={
                name: digest(self.canonical(value))
                for name, value in expectations.items()
                if value is not None
            },
            sought=list(leaves.values()),
            found=[one for leaf, one in leaves.items() if any(leaf in text for text in texts)],
            cluster_key=cluster_key,
        )

    def add(self, question: Question, line: Document) -> None:
        """Take an episode with its line of `per_episode.jsonl`; one that was not run counts not."""
        if line["outcome"] == "not_run":
            return
        marks = int(line["outcome"] == "scored")
        for place, name in enumerate(self.criteria):
            if line["scores"][name] is not None:
                marks |= 2 << place
                self.expected[place] += question.expected.get(name, b"")
        self.inputs += question.asked
        self.marks.append(marks)
        self.texts += question.words
        self.leaves += b"".join(question.sought)
        if question.found:
            self.given_away.append(question.found)
        if question.cluster_key is not None:
            self.clusters.add(question.cluster_key)

    def document(self) -> Document:
        """Return `scores/data_audit.json`."""
        ranked = sorted(Counter(each(self.leaves)).items(), key=lambda item: (-item[1], item[0]))
        labels = {leaf for leaf, times in ranked[:MOST_LABELS] if times > 1}
        distinct = len({*each(self.inputs)})
        return {
            "episodes": len(self.marks),
            "distinct_inputs": distinct,
            "distinct_scored_inputs": self.marked(1),
            "near_duplicates": distinct - len({*each(self.texts)}),
            "answers_in_inputs": sum(not labels.issuperset(one) for one in self.given_away),
            "clusters": len(self.clusters),
            "criteria": {name: self.criterion(place) for place, name in enumerate(self.criteria)},
        }

    def criterion(self, place: int) -> Document:
        """Return what is there about one criterion."""
        expected = Counter(each(self.expected[place]))
        most = max(expected.values(), default=0)
        return {
            "distinct_inputs": self.marked(2 << place),
            "expectations": len(expected),
            "majority_share": published(ratio(most, expected.total())),
        }

    def marked(self, bit: int) -> int:
        """Return how many different inputs have a mark."""
        marked = zip(each(self.inputs), self.marks, strict=True)
        return len({asked for asked, marks in marked if marks & bit})


def each(digests: bytearray) -> Iterator[bytes]:
    """Yield digests that lie one behind the other."""
    kept = bytes(digests)
    return (kept[at : at + DIGEST] for at in range(0, len(kept), DIGEST))


class BaselineDraw:
    """Keeps which episodes have the smallest digests, by their place in the dataset."""

    def __init__(self, commitment_hash: str) -> None:
        self._commitment_hash = commitment_hash
        self._kept: list[tuple[int, int, Mapping[str, bytes]]] = []

    def add(self, episode_id: str, seq: int, expected: Mapping[str, bytes]) -> None:
        """Take an episode that was run, with the digests of what is expected in it."""
        text = f"{self._commitment_hash}:baseline:{episode_id}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
        if len(self._kept) < MOST_EPISODES:
            heapq.heappush(self._kept, (-number, seq, expected))
        else:
            heapq.heappushpop(self._kept, (-number, seq, expected))

    @property
    def drawn(self) -> dict[int, Mapping[str, bytes]]:
        """Return them in the order of the dataset, each with its digests."""
        kept = sorted(self._kept, key=lambda one: one[1])
        return {seq: expected for _, seq, expected in kept}


def texts_in(value: object) -> list[str]:
    """Return the strings in a JSON value, members in the order of their names."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    return [text for one in value for text in texts_in(one)] if isinstance(value, list) else []


def sought(truths: Iterable[object]) -> list[str]:
    """Return the texts of what is expected that no input should hold."""
    texts = texts_in([*truths])
    return list(dict.fromkeys(one for one in texts if len(one) >= LEAST_CHARACTERS))[:MOST_LEAVES]


def evidence_findings(
    template: Document,
    audit: Document,
    baselines: Document,
    aggregate: Document,
    differences: object,
) -> list[str]:
    """Return the findings about scorers, questions and trivial answers (docs/certificate.md).

    `differences` is how many episodes were asked a second time and answered otherwise.
    """
    found = Plan(template).scorer_findings()
    policy = template.get("execution_policy") or {}
    is_unknown = policy.get("deterministic_sample", 0) < FEWEST_TWICE or differences
    if policy.get("repeats", 1) == 1 and is_unknown:
        found.append("within-item-variance-unknown")
    if audit["answers_in_inputs"]:
        found.append("answers-in-inputs")
    if audit["near_duplicates"]:
        found.append("near-duplicates")
    for name, one in audit["criteria"].items():
        if one["expectations"] == 1:
            found.append(f"one-expectation:{name}")
    machine = {
        step["criterion_id"]: (exact(step["machine"]), exact(step["share"]))
        for step in (aggregate["human_scores"] or {}).values()
        if step["machine"] is not None and step["share"] not in {None, 1}
    }
    for name, one in baselines["criteria"].items():
        low, score = aggregate["score_intervals"][name]["low"], aggregate["scores"][name]
        trivial = [one[baseline]["score"] for baseline in BASELINES if one[baseline] is not None]
        if score is None or not trivial:
            continue
        # How far below the part that machines gave, where people's marks are what they are.
        mean, share = machine.get(name, (exact(score), 0))
        allowed = 0 if low is None else (exact(score) - exact(low)) / (1 - share)
        if exact(max(trivial)) >= mean - allowed:
            found.append(f"baseline-meets-interval:{name}")
    return found
