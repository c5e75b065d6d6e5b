"""Holds an auditor against planted corruptions and null edits: recall, precision, type, noise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from theatre.debate.audit_loop import AuditFinding
from theatre.debate.evaluators.raudit import estimate
from theatre.debate.trial.corruptions import CORRUPTIONS, Corruption, Draft, Edit, apply, rewrite
from theatre.engine.canonical_json import JsonObject

# Edits that mean nothing: an auditor should have nothing to say about them.


_SYNONYMS = (
    ("leads to", "results in"),
    ("prices", "quotations"),
    ("outweighs it", "weighs more"),
    ("Clip", "Shearing"),
    (" small ", " little "),
    ("income", "earnings"),
)


def _wider_spaces(debate: Draft, place: int) -> bool:
    return rewrite(debate, place, lambda text: text.replace(" ", "  ").replace("\n", "\n\n"))


def _other_order(debate: Draft, place: int) -> bool:
    def turned(text: str) -> str:
        parts = re.split(r"^(?=### )", text, flags=re.MULTILINE)
        return "\n\n".join(part.strip() for part in reversed(parts) if part.strip())

    return rewrite(debate, place, turned)


def _paraphrase(debate: Draft, place: int) -> bool:
    def paraphrase(text: str) -> str:
        for word, other in _SYNONYMS:
            text = text.replace(word, other)
        return text

    return rewrite(debate, place, paraphrase)


def _new_ids(debate: Draft, place: int) -> bool:
    debate["turns"][place]["turn_id"] += "-renamed"
    return True


def _unknown_member(debate: Draft, place: int) -> bool:
    debate["turns"][place]["colour"] = {"mood": "BUY", "outcome": "SELL"}
    debate["ground_truth"] = "SHORT"
    return True


NULL_EDITS: Mapping[str, Edit] = {
    "N1 wider spaces and empty lines": _wider_spaces,
    "N2 sections in another order": _other_order,
    "N3 synonyms": _paraphrase,
    "N4 another turn id": _new_ids,
    "N5 members that nobody knows": _unknown_member,
}


Auditor = Callable[[JsonObject, JsonObject | None], frozenset[AuditFinding]]
"""From an artefact, and perhaps an earlier version of it, to findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledDebate:
    """A debate and the faults that it had before anybody planted one."""

    document: JsonObject
    faults: frozenset[AuditFinding]

    @property
    def turns(self) -> int:
        """Return how many turns there are."""
        return len(cast("list[object]", self.document["turns"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One corrupted copy, by what was done to it and where."""

    corruption: Corruption
    place: int
    document: JsonObject
    earlier: JsonObject | None
    faults: frozenset[AuditFinding]


def plant(debates: Iterable[LabelledDebate]) -> Iterator[Planted]:
    """Yield each corruption at each turn that it applies to and that is not faulty that way."""
    for debate in debates:
        for corruption in CORRUPTIONS:
            for place in range(debate.turns):
                if AuditFinding(place, corruption.expected) in debate.faults:
                    continue
                document = apply(corruption.edit, debate.document, place)
                if document is not None:
                    yield Planted(
                        corruption=corruption,
                        place=place,
                        document=document,
                        earlier=debate.document if corruption.needs_earlier else None,
                        faults=debate.faults,
                    )


def corruption_trial(debates: Iterable[LabelledDebate], auditor: Auditor) -> JsonObject:
    """Return recall by corruption, overall recall, and precision over all findings.

    A finding is right where its code was planted (or follows from what was planted) at its turn,
    or was a labelled fault before. Copies of one debate are not independent of each other:
    intervals over them are narrower than they should be.
    """
    caught: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    right = wrong = 0
    false: Counter[str] = Counter()
    for one in plant(debates):
        name = one.corruption.name
        found = auditor(one.document, one.earlier)
        planted[name] += 1
        caught[name] += AuditFinding(one.place, one.corruption.expected) in found
        for finding in found:
            is_right = _is_planted(finding, one) or finding in one.faults
            right, wrong = right + is_right, wrong + (not is_right)
            false[finding.code] += not is_right
    return {
        "by_corruption": {name: estimate(caught[name], planted[name]) for name in _names()},
        "recall": estimate(caught.total(), planted.total()),
        "precision": estimate(right, right + wrong),
        "false_findings": {code: count for code, count in sorted(false.items()) if count},
    }


def null_trial(debates: Iterable[LabelledDebate], auditor: Auditor) -> JsonObject:
    """Return, by null edit, how often it brought a finding that was not there before it."""
    noisy: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for debate in debates:
        before = auditor(debate.document, None)
        for name, edit in NULL_EDITS.items():
            for place in range(debate.turns):
                document = apply(edit, debate.document, place)
                if document is not None:
                    made[name] += 1
                    noisy[name] += bool(auditor(document, None) - before)
    rates: Mapping[str, JsonObject] = {
        name: estimate(noisy[name], made[name]) for name in NULL_EDITS
    }
    return {"by_edit": dict(rates), "new_findings": estimate(noisy.total(), made.total())}


def clean_trial(debates: Iterable[LabelledDebate], auditor: Auditor) -> JsonObject:
    """Return what the auditor says of debates as they are, against their labelled faults."""
    found: set[tuple[int, AuditFinding]] = set()
    labelled: set[tuple[int, AuditFinding]] = set()
    turns = 0
    for number, debate in enumerate(debates):
        found |= {(number, one) for one in auditor(debate.document, None)}
        labelled |= {(number, one) for one in debate.faults}
        turns += debate.turns
    unlabelled = Counter(one.code for _, one in found - labelled)
    return {
        "turns": turns,
        "labelled_faults_found": estimate(len(found & labelled), len(labelled)),
        "turns_with_unlabelled_findings": estimate(
            len({(number, one.place) for number, one in found - labelled}), turns
        ),
        "unlabelled_findings": dict(sorted(unlabelled.items())),
    }


def _is_planted(finding: AuditFinding, one: Planted) -> bool:
    if finding.code in one.corruption.implied:
        return True
    return finding == (one.place, one.corruption.expected)


def _names() -> list[str]:
    return [corruption.name for corruption in CORRUPTIONS]
