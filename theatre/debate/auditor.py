"""The auditor: everything that this package can find in one artefact, as codes at turns.

Rules first; evaluators only see what keeps them. History needs an earlier version to be seen.
"""

from __future__ import annotations

from typing import NamedTuple

from theatre.debate.blind import blind
from theatre.debate.errors import InvalidDebateError
from theatre.debate.evaluators import crit, rca, t3
from theatre.debate.findings import Finding
from theatre.debate.history import find_rewrites
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.schema_registry import SchemaRegistry


class AuditFinding(NamedTuple):
    """A code at a turn, by its place in the array; None where it is about no turn."""

    place: int | None
    code: str


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
    is_turn = parts[1:2] == ["turns"] and len(parts) > 2  # noqa: PLR2004 - /turns/<place>
    return AuditFinding(int(parts[2]) if is_turn else None, finding.code)
