"""Everything that the package can find in one artefact, held against planted faults and null edits.

Rules first; evaluators only see what keeps them. History needs an earlier version to be seen.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from theatre.debate.blind import blind
from theatre.debate.errors import InvalidDebateError
from theatre.debate.evaluators import crit, rca, t3
from theatre.debate.evaluators.raudit import estimate
from theatre.debate.history import find_rewrites
from theatre.debate.models import Finding
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.schema_registry import SchemaRegistry

GENERATOR = Path(__file__).parents[3] / "fixtures" / "ground_truth" / "debate"
sys.path.append(str(GENERATOR))

from planted import (  # noqa: E402 - it stands next to the generator of the data
    CORRUPTIONS,
    NULL_EDITS,
    AuditFinding,
    LabelledDebate,
    Planted,
    apply,
    plant,
)

__all__ = [
    "CORRUPTIONS",
    "AuditFinding",
    "LabelledDebate",
    "audit",
    "clean_trial",
    "corruption_trial",
    "null_trial",
]

Auditor = Callable[[JsonObject, JsonObject | None], frozenset[AuditFinding]]
"""From an artefact, and perhaps an earlier version of it, to findings."""


def audit(
    document: JsonObject,
    *,
    earlier: JsonObject | None = None,
    registry: SchemaRegistry | None = None,
) -> frozenset[AuditFinding]:
    """Return what is wrong with `document`, which may be no valid artefact at all."""
    try:
        artefact = read_debate(canonical_bytes(document), registry=registry)
    except InvalidDebateError as error:
        return frozenset(_at(one) for one in error.findings)
    seen = blind(artefact.debate)
    found = [one for evaluator in (crit, rca, t3) for one in evaluator.evaluate(seen).findings]
    places = {turn.turn_index: place for place, turn in enumerate(artefact.debate.turns)}
    history = find_rewrites(earlier, document) if earlier is not None else ()
    return frozenset(
        [AuditFinding(places[one.turn_index], one.code) for one in found]
        + [_at(one) for one in history]
    )


def _at(finding: Finding) -> AuditFinding:
    parts = finding.pointer.split("/")
    is_turn = parts[1:2] == ["turns"] and len(parts) > 2
    return AuditFinding(int(parts[2]) if is_turn else None, finding.code)


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
