"""`debate_quality`: what an evaluator makes of the artefact of an episode, as a number.

It is given the debate and not a figure about it, so no construct can report its own. In a theatre
the form of a turn is asked for: one without the sections counts 0 here, where the evaluators
themselves say nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import cast

from theatre.debate.blind import BlindDebate, blind
from theatre.debate.episodes.artefacts import debate_at
from theatre.debate.errors import InvalidDebateError
from theatre.debate.evaluators import rca, t3
from theatre.debate.evaluators.quality import TurnQuality, quality_of
from theatre.debate.models import Rung
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Scorer, ScoringCase
from theatre.scorers.agreement import params_schema


def score(case: ScoringCase) -> float:
    """Return the `measure` of the artefact in the answer, in [0, 1]; 0 of what is no artefact.

    `conformance`: 1 where every rule holds. `gamma`, `theta`: means over turns of CRIT's.
    `consistency`: the share of turns whose answer follows, by RCA. `rung`: the share of turns
    that argue on the rung `rung` or a higher one, and whose claim does not stand above it.
    """
    measure = cast("str", case.params["measure"])
    if measure == "conformance":
        return float(_conforms(case.answer))
    debate = debate_at(case.answer)
    if debate is None:
        return 0.0
    return _MEASURES[measure](blind(debate), case.params)


def _conforms(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    try:
        read_debate(canonical_bytes(value))
    except (CanonicalisationError, InvalidDebateError):
        return False
    return True


def _gamma(debate: BlindDebate, _params: JsonObject) -> float:
    return _over_turns(debate, lambda quality: quality.gamma_mean)


def _theta(debate: BlindDebate, _params: JsonObject) -> float:
    return _over_turns(debate, lambda quality: quality.theta_mean)


def _over_turns(debate: BlindDebate, figure: Callable[[TurnQuality], float]) -> float:
    qualities = [quality_of(turn) for turn in debate.turns]
    return math.fsum(figure(one) for one in qualities if one is not None) / len(qualities)


def _consistency(debate: BlindDebate, _params: JsonObject) -> float:
    rows = rca.evaluate(debate).turns
    return sum(row["verdict"] == "pass" for row in rows) / len(rows)


def _rung(debate: BlindDebate, params: JsonObject) -> float:
    required = t3.RequiredReasoning(rung=cast("Rung", params.get("rung", "L2")))
    passed = t3.evaluate(debate, required).summary["passed_rate"]
    return cast("float", passed)


_MEASURES: Mapping[str, Callable[[BlindDebate, JsonObject], float]] = {
    "gamma": _gamma,
    "theta": _theta,
    "consistency": _consistency,
    "rung": _rung,
}

SCORER = Scorer(
    name="debate_quality",
    version="1",
    params_schema=params_schema(
        {
            "measure": {"enum": ["conformance", *_MEASURES]},
            "rung": {"enum": ["L1", "L2", "L3"]},
        },
        required=("field", "measure"),
        takes_expected=False,
    ),
    score=score,
    needs_expectation=False,
)
