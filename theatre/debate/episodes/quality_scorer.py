"""`debate_quality`: what an evaluator makes of the artefact of an episode, as a number.

It is given the debate and not a figure about it, so no construct can report its own. Form alone can
be learnt by heart, so only a turn counts that is *grounded*: one of its reasons cites a piece of
the case's evidence, and says its figure. In a theatre the sections are asked for: a turn without
them counts 0 here, where the evaluators themselves say nothing of it.
"""

import math
from collections.abc import Callable, Mapping
from typing import cast

from theatre.debate.blind import BlindDebate, BlindTurn, blind
from theatre.debate.episodes.pairs import debate_at
from theatre.debate.errors import InvalidDebateError
from theatre.debate.evaluators import rca, t3
from theatre.debate.evaluators.crit import TurnQuality, quality_of
from theatre.debate.models import Rung
from theatre.debate.text import citations, numbers
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.scorers.agreement import params_schema


def score(case: ScoringCase) -> float:
    """Return the `measure` of the artefact in the answer, in [0, 1]; 0 of what is no artefact.

    Each is a share, or mean, over all turns, to which a turn adds nothing that is not grounded in
    the list at `evidence`, a path into the episode's input: [{`id`, `change_pct`}].
    `conformance`: every rule holds. `gamma`, `theta`: CRIT's means. `consistency`: the answer
    follows, by RCA. `rung`: it argues on the rung `rung` or a higher one, and does not collapse.
    """
    debate = debate_at(case.answer)
    if debate is None:
        return 0.0
    seen = blind(debate)
    evidence = _evidence(at_path(case.input_data, cast("str", case.params["evidence"])))
    grounded = [_is_grounded(turn, evidence) for turn in seen.turns]
    measure = cast("str", case.params["measure"])
    if measure == CONFORMANCE:
        values = [float(_conforms(case.answer))] * len(grounded)
    else:
        values = _MEASURES[measure](seen, case.params)
    counted = (value for value, counts in zip(values, grounded, strict=True) if counts)
    return math.fsum(counted) / len(grounded)


def _evidence(value: object) -> dict[str, float]:
    """Return the figure of each piece of evidence by its id, without its sign."""
    found: dict[str, float] = {}
    for one in value if isinstance(value, list) else []:
        name, figure = (
            (one.get("id"), one.get("change_pct")) if isinstance(one, dict) else (None, None)
        )
        if isinstance(name, str) and isinstance(figure, int | float):
            found[name] = abs(float(figure))
    return found


def _is_grounded(turn: BlindTurn, evidence: Mapping[str, float]) -> bool:
    reasons = turn.structure.reasons if turn.structure is not None else ()
    return any(
        name in evidence and evidence[name] in map(_number, numbers(reason.text))
        for reason in reasons
        for _, name in citations(reason.text)
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # with a thousands comma, say
        return None


def _conforms(value: JsonValue) -> bool:
    try:
        read_debate(canonical_bytes(value))
    except (CanonicalisationError, InvalidDebateError):
        return False
    return True


def _qualities(debate: BlindDebate) -> list[TurnQuality | None]:
    return [quality_of(turn) for turn in debate.turns]


def _rungs(debate: BlindDebate, params: JsonObject) -> list[float]:
    required = t3.RequiredReasoning(rung=cast("Rung", params.get("rung", "L2")))
    return [float(row["pass"] is True) for row in t3.evaluate(debate, required).turns]


CONFORMANCE = "conformance"
_MEASURES: Mapping[str, Callable[[BlindDebate, JsonObject], list[float]]] = {
    "gamma": lambda debate, _: [one.gamma_mean if one else 0.0 for one in _qualities(debate)],
    "theta": lambda debate, _: [one.theta_mean if one else 0.0 for one in _qualities(debate)],
    "consistency": lambda debate, _: [
        float(row["verdict"] == "pass") for row in rca.evaluate(debate).turns
    ],
    "rung": _rungs,
}

SCORER = Scorer(
    name="debate_quality",
    version="1",
    kind=ScorerKind.TEXTUAL,
    params_schema=params_schema(
        {
            "measure": {"enum": [CONFORMANCE, *_MEASURES]},
            "evidence": {"type": "string", "minLength": 1},
            "rung": {"enum": ["L1", "L2", "L3"]},
        },
        required=("field", "measure", "evidence"),
        takes_expected=False,
    ),
    score=score,
    needs_expectation=False,
)
