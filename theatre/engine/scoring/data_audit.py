"""How much evidence a dataset is: what is asked twice, what gives its answer away.

Source: docs/contract/earned.md §5.1. Takes each episode once, with
what was sent; memory grows by some thirty bytes an episode and sixteen a criterion.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.scoring.arithmetic import ratio

MIN_LEAF_CHARACTERS = 8
"""Shorter answers are in many texts by chance."""

MAX_LABELS = 20
"""So many answers that come again and again may be the choices that a question offers."""

MAX_LEAVES = 1000
"""So many texts of one expectation are looked for: each costs a search of the whole input."""

ANSWERS_IN_INPUTS = "answers-in-inputs"
NEAR_DUPLICATES = "near-duplicates"
ONE_EXPECTATION = "one-expectation"

_DIGEST_BYTES = 16
_AS_DIGEST = np.dtype([("high", "<u8"), ("low", "<u8")])
_LETTERS = re.compile(r"[^\W\d_]+")
UNSEEN = re.compile(
    # What shows nothing: controls, the code points that Unicode lets a reader ignore (soft hyphens,
    # joiners, fillers, marks of direction, selectors, tags), the empty pattern of Braille.
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class AuditedEpisode(NamedTuple):
    """One episode that was run: what was sent, what was expected, and where it counts.

    `truths` are its expectation and its gold label; `expectations` what the answer is checked
    against on each criterion that has such a value; `counted` the criteria whose mean it is in.
    """

    sent: JsonObject
    truths: Sequence[JsonObject]
    expectations: Mapping[str, JsonValue]
    scored: bool
    counted: Collection[str]
    cluster_key: str | None


class DataAudit:
    """Counts distinct inputs, inputs that are nearly alike, and answers that inputs give away."""

    def __init__(self, criteria: Iterable[str]) -> None:
        self._inputs = _Digests()
        self._texts = _Digests()
        self._scored = bytearray()
        self._counted = {criterion: bytearray() for criterion in criteria}
        self._expected = {criterion: _Digests() for criterion in self._counted}
        self._leaves = _Digests()
        self._leaked = _Digests()
        self._leaked_by = array("I")
        self._clusters: set[str] = set()

    def add(self, episode: AuditedEpisode) -> None:
        """Take the next episode."""
        line, leaves = canonical_bytes(episode.sent), string_leaves(episode.sent)
        self._inputs.add(line)
        # Where there are no letters, the numbers tell inputs apart.
        self._texts.add(_letters(leaves) or line)
        self._scored.append(episode.scored)
        for criterion, counted in self._counted.items():
            counted.append(criterion in episode.counted)
            expected = episode.expectations.get(criterion)
            if expected is not None and criterion in episode.counted:
                self._expected[criterion].add(canonical_bytes(expected))
        if episode.cluster_key is not None:
            self._clusters.add(episode.cluster_key)
        self._look_for_answers(episode.truths, leaves)

    def _look_for_answers(self, truths: Sequence[JsonObject], texts: Sequence[str]) -> None:
        """Note the answers of the episode, and those that stand in its question."""
        found = (leaf for truth in truths for leaf in string_leaves(truth))
        long = dict.fromkeys(leaf for leaf in found if len(leaf) >= MIN_LEAF_CHARACTERS)
        for leaf in islice(long, MAX_LEAVES):
            self._leaves.add(leaf.encode())
            if any(leaf in text for text in texts):
                self._leaked.add(leaf.encode())
                self._leaked_by.append(len(self._scored))

    def as_document(self) -> JsonObject:
        """Return `scores/data_audit.json`."""
        distinct = self._inputs.distinct()
        return {
            "episodes": len(self._scored),
            "distinct_inputs": distinct,
            "distinct_scored_inputs": self._inputs.distinct(self._scored),
            "near_duplicates": distinct - self._texts.distinct(),
            "answers_in_inputs": self._given_away(),
            "clusters": len(self._clusters),
            "criteria": {criterion: self._criterion(criterion) for criterion in self._counted},
        }

    def _criterion(self, criterion: str) -> JsonObject:
        _, counts = self._expected[criterion].counts()
        return {
            "distinct_inputs": self._inputs.distinct(self._counted[criterion]),
            "expectations": len(counts),
            "majority_share": ratio(int(counts.max(initial=0)), int(counts.sum())),
        }

    def _given_away(self) -> int:
        """Return how many inputs hold an answer that is none of the most repeated labels.

        A question that offers its choices gives nothing away by naming them.
        """
        leaves, counts = self._leaves.counts()
        # By count, then by digest, so that the same twenty are left out everywhere.
        order = sorted(zip((-counts).tolist(), leaves, strict=True))
        labels = {leaf for count, leaf in order[:MAX_LABELS] if count < -1}
        leaked = zip(self._leaked_by, self._leaked.each(), strict=True)
        return len({episode for episode, leaf in leaked if leaf not in labels})


def data_findings(audit: JsonObject) -> list[str]:
    """Return the codes of what a data audit must say to a reader."""
    codes = {ANSWERS_IN_INPUTS: "answers_in_inputs", NEAR_DUPLICATES: "near_duplicates"}
    found = [code for code, member in codes.items() if audit[member]]
    criteria: Mapping[str, JsonObject] = audit["criteria"]  # type: ignore[assignment]
    return found + [
        f"{ONE_EXPECTATION}:{criterion}"
        for criterion, one in criteria.items()
        if one["expectations"] == 1
    ]


def string_leaves(value: JsonValue) -> list[str]:
    """Return the strings in a JSON value that are no names, members in the order of their names."""
    leaves, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            leaves.append(one)
        elif isinstance(one, dict):
            left.extend(one[name] for name in sorted(one, reverse=True))
        elif isinstance(one, list):
            left.extend(reversed(one))
    return leaves


def _letters(leaves: Sequence[str]) -> bytes:
    """Return the words of a text as they are seen, in lower case; nothing else tells it apart."""
    seen = UNSEEN.sub("", " ".join(leaves))
    return " ".join(_LETTERS.findall(seen.casefold())).encode()


class _Digests:
    """The first half of the SHA-256 of each thing added, in order."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        self._bytes += hashlib.sha256(data).digest()[:_DIGEST_BYTES]

    def each(self) -> list[bytes]:
        """Return every digest, in the order in which they came."""
        return [digest.tobytes() for digest in self._array()]

    def distinct(self, where: bytearray | None = None) -> int:
        """Return how many differ, of those that are marked `where`."""
        digests = self._array()
        if where is not None:
            digests = digests[np.frombuffer(where, dtype=np.bool_)]
        return len(_firsts(np.sort(digests)))

    def counts(self) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        """Return each digest once, and how often it came."""
        digests = np.sort(self._array())
        firsts = _firsts(digests)
        counts = np.diff(firsts, append=len(digests))
        return [digest.tobytes() for digest in digests[firsts]], counts

    def _array(self) -> npt.NDArray[np.void]:
        return np.frombuffer(self._bytes, dtype=_AS_DIGEST)


def _firsts(ascending: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return where each digest stands for the first time.

    Not `np.unique`: that loads masked arrays, two megabytes of them.
    """
    starts = np.ones(len(ascending), dtype=np.bool_)
    starts[1:] = ascending[1:] != ascending[:-1]
    return np.flatnonzero(starts)
