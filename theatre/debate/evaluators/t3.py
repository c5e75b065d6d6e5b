"""t3_struct/1: on which rung of the causal ladder a turn argues, and whether its claim stands."""

from collections import Counter
from dataclasses import dataclass

from theatre.debate.blind import BlindDebate, BlindTurn
from theatre.debate.evaluators.results import Evaluation, TurnFinding, rate
from theatre.debate.models import Rung
from theatre.debate.text import (
    INTERVENTION,
    NAMES,
    NONE,
    StructuredTurn,
    evidence_tags,
    highest,
    one_line,
    rung_of,
    sentences,
    sentences_of,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScorerKind

NAME = "t3_struct/1"
_ENOUGH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredReasoning:
    """What a scenario asks for, from its authors: a rung, and a trap that must be named."""

    rung: Rung | None = None
    trap_terms: tuple[str, ...] = ()
    """Any of these words names the trap; none where the scenario has no trap."""


def evaluate(debate: BlindDebate, required: RequiredReasoning | None = None) -> Evaluation:
    """Return each turn's rung; `pass` only where the scenario says what is required."""
    asked = required or RequiredReasoning()
    rows, findings = [], []
    for turn in debate.turns:
        collapsed = turn.structure is not None and has_collapsed(turn.structure)
        rows.append(_row(turn, asked, collapsed=collapsed))
        if collapsed:
            detail = "the claim stands on a higher rung than anything that is cited for it"
            findings.append(
                TurnFinding(turn_index=turn.turn_index, code="RUNG_COLLAPSE", detail=detail)
            )
    structured = sum(1 for turn in debate.turns if turn.structure is not None)
    passed = [row["pass"] for row in rows if row["pass"] is not None]
    summary: JsonObject = {
        "rung_collapse_rate": rate(len(findings), structured),
        "passed_rate": rate(passed.count(True), len(passed)),
    }
    config: JsonObject = {"required_rung": asked.rung, "trap_terms": list(asked.trap_terms)}
    return Evaluation(
        evaluator=NAME,
        kind=ScorerKind.TEXTUAL,
        summary=summary,
        config=config,
        turns=rows,
        findings=findings,
    )


def detected_rung(turn: BlindTurn) -> int:
    """Return the highest rung with two sentences, or with one in the claim."""
    counts = Counter(rung_of(sentence) for sentence in sentences(turn.content))
    claim = _claim_rung(turn.structure) if turn.structure else NONE
    often = [rung for rung, count in counts.items() if count >= _ENOUGH]
    return max([claim, *often], default=NONE)


def has_collapsed(structure: StructuredTurn) -> bool:
    """Return whether the claim stands higher than every reason that cites evidence."""
    claim = _claim_rung(structure)
    supported = (reason.text for reason in structure.reasons if evidence_tags(reason.text))
    return claim >= INTERVENTION and not any(
        rung_of(sentence) >= claim for text in supported for sentence in sentences_of(text)
    )


def _claim_rung(structure: StructuredTurn) -> int:
    return highest(sentences_of(structure.section("CLAIM")))


def _row(turn: BlindTurn, asked: RequiredReasoning, *, collapsed: bool) -> JsonObject:
    detected = NAMES[detected_rung(turn)]
    spoken = one_line(turn.content).lower()
    named = any(term.lower() in spoken for term in asked.trap_terms) if asked.trap_terms else None
    passed = None
    if asked.rung is not None:
        high_enough = detected is not None and detected >= asked.rung
        passed = high_enough and not collapsed and named is not False
    return {
        "turn_index": turn.turn_index,
        "pearl_rung_detected": detected,
        "rung_collapse": collapsed if turn.structure else None,
        "trap_named": named,
        "pass": passed,
    }
