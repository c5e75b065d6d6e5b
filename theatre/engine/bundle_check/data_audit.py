"""How much evidence the questions of a run are: the check's own count of them.

Written from docs/contract/earned.md §5.1; it imports the standard library and the check's
arithmetic alone, and is part of `verify_bundle.py`.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import UNSEEN, Document, Plan, exact, published, ratio

LEAST_CHARACTERS, MOST_LABELS, MOST_LEAVES, MOST_EPISODES = 8, 20, 1000, 1000
DIGEST: Final = 16
"""Bytes of what stands for a thing that is counted."""
BASELINES: Final = ("empty", "copied", "most_frequent", "other_episode")
PLAYED: Final = ("empty", "copied")
"""The baselines of interactive episodes: what is expected at the end answers no turn."""
MEETS: Final = "baseline-meets-interval"
INTERCHANGEABLE: Final = "interchangeable-answers"
FEWEST_DEALT: Final = 30
"""Of fewer answers than a tier needs, luck alone may do as well for other questions."""
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
    """Keeps which episodes have the smallest digests, by their place in the dataset.

    Of those on which a criterion applies, whatever there are of others.
    """

    def __init__(self, commitment_hash: str) -> None:
        self._commitment_hash = commitment_hash
        self._smallest: dict[str, list[tuple[int, int]]] = {}
        """Criterion → (digest, negated; place in the dataset) of each of its episodes."""
        self._kept: dict[int, tuple[Mapping[str, bytes], tuple[int, int]]] = {}
        self._answers = tempfile.SpooledTemporaryFile(max_size=2**18)  # noqa: SIM115 - see below
        weakref.finalize(self, self._answers.close)

    def add(
        self,
        episode_id: str,
        seq: int,
        applicable: Iterable[str],
        expected: Mapping[str, bytes],
        answer: Callable[[], bytes] = bytes,
    ) -> None:
        """Take an episode that was run: the digests of what is expected, and its answer, if kept.

        `applicable` are the criteria that it counts on. An answer of no bytes is none to deal.
        """
        text = f"{self._commitment_hash}:baseline:{episode_id}"
        number = -int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
        for name in applicable:
            smallest = self._smallest.setdefault(name, [])
            if len(smallest) == MOST_EPISODES:
                if number < smallest[0][0]:
                    continue
                heapq.heappop(smallest)
            heapq.heappush(smallest, (number, seq))
            if seq not in self._kept:
                kept = self._answers.tell(), self._answers.write(answer())
                self._kept[seq] = expected, kept

    def of(self, name: str) -> dict[int, bytes | None]:
        """Return those of a criterion in the order of the dataset, each with its digest, if any."""
        places = sorted(seq for _, seq in self._smallest.get(name, ()))
        return {seq: self._kept[seq][0].get(name) for seq in places}

    @property
    def drawn(self) -> set[int]:
        """Return those of all criteria."""
        return {seq for smallest in self._smallest.values() for _, seq in smallest}

    def dealt(self, name: str, *, nulls: bool) -> dict[int, int]:
        """Return for each episode with an answer and an expectation the next one of these.

        In the order of the digests; behind the last comes the first. `nulls`: null is one.
        """
        ordered = [seq for _, seq in sorted(self._smallest.get(name, ()), reverse=True)]
        kept = [(seq, *self._kept[seq]) for seq in ordered]
        ring = [seq for seq, held, (_, size) in kept if size and (nulls or name in held)]
        return dict(zip(ring, (*ring[1:], *ring[:1]), strict=True))

    def answer(self, seq: int) -> bytes:
        """Return the answer that was kept of an episode."""
        place, size = self._kept[seq][1]
        self._answers.seek(place)
        return self._answers.read(size)


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
    limits = limits_of(aggregate)
    for name, one in baselines["criteria"].items():
        limit = limits[name]
        trivial = [one[baseline]["score"] for baseline in BASELINES if one[baseline] is not None]
        if limit is not None and trivial and exact(max(trivial)) >= limit:
            found.append(f"{MEETS}:{name}")
    for name, score in aggregate["scores"].items():
        low = aggregate["score_intervals"][name]["low"]
        least = score if low is None else low
        worst = aggregate["worst_case_bounds"][name]
        if least is not None and worst and exact(worst["low"]) < exact(least):
            found.append(f"left-out:{name}")
    return found


def limits_of(aggregate: Document) -> dict[str, Fraction | None]:
    """Return from where on something that knows nothing scores as much, by criterion.

    That is the lower end of the interval; where people have a share, as far below the part that
    machines gave as people's marks leave it.
    """
    machine = {
        step["criterion_id"]: (exact(step["machine"]), exact(step["share"]))
        for step in (aggregate["human_scores"] or {}).values()
        if step["machine"] is not None and step["share"] not in {None, 1}
    }
    limits: dict[str, Fraction | None] = {}
    for name, score in aggregate["scores"].items():
        low = aggregate["score_intervals"][name]["low"]
        limits[name] = None
        if score is not None:
            mean, share = machine.get(name, (exact(score), 0))
            allowed = 0 if low is None else (exact(score) - exact(low)) / (1 - share)
            limits[name] = mean - allowed
    return limits


def dealt_findings(
    dealt: Mapping[str, float], found: Collection[str], aggregate: Document
) -> list[str]:
    """Return the criteria on which answers do as well for other questions, and no baseline does."""
    limits = limits_of(aggregate)
    return [
        f"{INTERCHANGEABLE}:{name}"
        for name, mean in dealt.items()
        if (limit := limits[name]) is not None
        and exact(mean) >= limit
        and f"{MEETS}:{name}" not in found
    ]
