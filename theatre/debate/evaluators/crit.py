"""crit_struct/1: how well a turn's reasons are put, by structure. Formulas: docs/debate.md."""

from __future__ import annotations

from collections.abc import Iterator

from theatre.debate.blind import BlindDebate, BlindTurn
from theatre.debate.evaluators.quality import TurnQuality, quality_of
from theatre.debate.evaluators.results import Evaluation, TurnFinding, mean
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScorerKind

NAME = "crit_struct/1"
_CERTAIN = 0.9


def evaluate(debate: BlindDebate) -> Evaluation:
    """Return the quality of every structured turn; an unstructured one has none, not 0."""
    rows: list[JsonObject] = []
    findings: list[TurnFinding] = []
    qualities = []
    for turn in debate.turns:
        quality = quality_of(turn)
        figures: JsonObject = (
            {"reason": "UNSTRUCTURED"} if quality is None else quality.as_document()
        )
        rows.append({"turn_index": turn.turn_index, **figures})
        qualities += [quality] if quality else []
        findings += findings_of(turn, quality)
    summary: JsonObject = {
        "structured_turns": len(qualities),
        "unstructured_turns": len(rows) - len(qualities),
        "gamma_mean": mean([one.gamma_mean for one in qualities]),
        "theta_mean": mean([one.theta_mean for one in qualities]),
        "gamma_crit": mean([one.gamma_crit for one in qualities]),
        "gamma_net": mean([one.gamma_net for one in qualities if one.gamma_net is not None]),
        "rho": mean([one.rho for one in qualities]),
    }
    return Evaluation(
        evaluator=NAME, kind=ScorerKind.TEXTUAL, summary=summary, turns=rows, findings=findings
    )


def findings_of(turn: BlindTurn, quality: TurnQuality | None) -> Iterator[TurnFinding]:
    """Yield the faults of one structured turn, whose quality is `quality`."""
    structure = turn.structure
    if structure is None or quality is None:
        return
    if not structure.falsifiers:
        yield _finding(turn, "FALSIFIER_MISSING", "nothing is named that would change this mind")
    if not any(one.is_supported for one in quality.reasons):
        advice = turn.recommendation
        if advice is not None and advice.conviction >= _CERTAIN:
            detail = f"conviction {advice.conviction} rests on assumptions alone"
            yield _finding(turn, "PREMATURE_CERTAINTY", detail)
        else:
            yield _finding(turn, "UNSUPPORTED_CLAIMS", "no reason cites anything")
    for place, reason in enumerate(quality.reasons, start=1):
        if not reason.is_consistent:
            detail = f"reason {place} names another action than {turn.action}"
            yield _finding(turn, "CONTRADICTION", detail)
    if structure.section("COUNTERARGUMENT") and not quality.answers_its_rival:
        yield _finding(turn, "IGNORED_CRITIQUE", "no rebuttal takes up the counterargument")


def _finding(turn: BlindTurn, code: str, detail: str) -> TurnFinding:
    return TurnFinding(turn_index=turn.turn_index, code=code, detail=detail)
