"""The figures of one turn: validity and credibility of its reasons, and the four pillars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from theatre.debate.actions import DIRECTION, Action, actions_in
from theatre.debate.blind import BlindTurn
from theatre.debate.evaluators.t3 import has_collapsed
from theatre.debate.text.sections import StructuredTurn
from theatre.debate.text.words import (
    content_words,
    evidence_ids,
    evidence_tags,
    numbers,
    polarity,
    sentences,
    words,
)
from theatre.engine.canonical_json import JsonObject

GAMMA_THRESHOLD, THETA_THRESHOLD = 0.8, 0.5
_LONG_ENOUGH, _DISTINCT_ENOUGH, _CLAUSE_WORDS = 12, 8, 2
_BASE = (("DATA", 0.9), ("NEWS", 0.7), ("MODEL-INTERNAL", 0.5), ("ASSUMPTION", 0.3))
_ASSUMED, _UNTAGGED = 0.3, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One reason's validity and its source's credibility, both 0 … 1."""

    gamma: float
    theta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuality:
    """The figures of one structured turn."""

    reasons: tuple[Rated, ...]
    rivals: tuple[Rated, ...]
    logical_validity: float
    evidential_support: float
    alternative_consideration: float
    causal_alignment: float

    @property
    def rho(self) -> float:
        """Return the mean of the four pillars."""
        pillars = (
            self.logical_validity,
            self.evidential_support,
            self.alternative_consideration,
            self.causal_alignment,
        )
        return math.fsum(pillars) / 4

    @property
    def gamma_mean(self) -> float:
        """Return the mean validity over reasons and rival reasons."""
        return _mean_of([one.gamma for one in self._all])

    @property
    def theta_mean(self) -> float:
        """Return the mean credibility over reasons and rival reasons."""
        return _mean_of([one.theta for one in self._all])

    @property
    def threshold_pass(self) -> bool:
        """Return whether both means reach their thresholds."""
        return self.gamma_mean >= GAMMA_THRESHOLD and self.theta_mean >= THETA_THRESHOLD

    @property
    def gamma_crit(self) -> float:
        """Return the formula as printed: strong rival reasons raise it, too."""
        return math.fsum(one.gamma * one.theta for one in self._all) / len(self._all)

    @property
    def gamma_net(self) -> float | None:
        """Return reasons less rivals over both, -1 … 1; None where all of them weigh nothing."""
        own = math.fsum(one.gamma * one.theta for one in self.reasons)
        rival = math.fsum(one.gamma * one.theta for one in self.rivals)
        return (own - rival) / (own + rival) if own + rival else None

    @property
    def _all(self) -> tuple[Rated, ...]:
        return self.reasons + self.rivals

    def as_document(self) -> JsonObject:
        """Return every figure."""
        return {
            "gamma_mean": self.gamma_mean,
            "theta_mean": self.theta_mean,
            "gamma_crit": self.gamma_crit,
            "gamma_net": self.gamma_net,
            "threshold_pass": self.threshold_pass,
            "rho": self.rho,
            "pillars": {
                "logical_validity": self.logical_validity,
                "evidential_support": self.evidential_support,
                "alternative_consideration": self.alternative_consideration,
                "causal_alignment": self.causal_alignment,
            },
        }


def quality_of(turn: BlindTurn) -> TurnQuality | None:
    """Return the figures of one turn; None where it is unstructured."""
    structure = turn.structure
    if structure is None:
        return None
    reasons = tuple(_rated(one.text, turn.action, agrees=True) for one in structure.reasons)
    rivals = tuple(_rated(one, turn.action, agrees=False) for one in _rival_reasons(structure))
    return TurnQuality(
        reasons=reasons,
        rivals=rivals,
        logical_validity=_mean_of([one.gamma for one in reasons]),
        evidential_support=_mean_of([one.theta for one in reasons]),
        alternative_consideration=_alternatives(structure),
        causal_alignment=0.0 if has_collapsed(structure) else 1.0,
    )


def support(text: str) -> frozenset[str]:
    """Return the kinds of evidence in `text` that count: DATA and NEWS need a source or a number.

    A bare tag is a word that anybody can write; an assumption supports nothing.
    """
    tags = evidence_tags(text) - {"ASSUMPTION"}
    named = bool(evidence_ids(text) or numbers(text))
    return tags if named else tags - {"DATA", "NEWS"}


def _rated(text: str, action: Action | None, *, agrees: bool) -> Rated:
    spoken = words(text)
    mechanism = len(spoken) >= _LONG_ENOUGH and len(set(spoken)) >= _DISTINCT_ENOUGH
    points = (
        0.30 * mechanism
        + 0.25 * _is_conditional(text)
        + 0.25 * _points(text, action, agrees=agrees)
        + 0.20 * is_consistent(text, action)
    )
    return Rated(gamma=round(points, 12), theta=_credibility(text))


def _credibility(text: str) -> float:
    kinds = support(text)
    base = next((value for kind, value in _BASE if kind in kinds), None)
    if base is None:
        base = _ASSUMED if evidence_tags(text) else _UNTAGGED
    return min(round(base + 0.05 * min(len(numbers(text)), 2), 12), 1.0)


def _is_conditional(text: str) -> bool:
    """Tell whether a sentence says if … then … because …, each part with words of its own."""
    for sentence in sentences(text):
        spoken = sentence.lower().split()
        bare = [word.strip(",;:.()") for word in spoken]
        places = [bare.index(word) if word in bare else -1 for word in ("if", "then", "because")]
        if -1 in places or places != sorted(places):
            continue
        bounds = [*places, len(bare)]
        parts = [content_words(" ".join(bare[start + 1 : end])) for start, end in pairwise(bounds)]
        if all(len(part) >= _CLAUSE_WORDS for part in parts) and len(set(parts)) == len(parts):
            return True
    return False


def _points(text: str, action: Action | None, *, agrees: bool) -> bool:
    """Tell whether the words point where the action does, or, of a rival, elsewhere."""
    if action is None:
        return False
    seen = polarity(text)
    direction = DIRECTION[action]
    if direction == 0:
        return (abs(seen) <= 1) == agrees
    return seen * direction > 0 if agrees else seen * direction < 0


def is_consistent(text: str, action: Action | None) -> bool:
    """Tell whether `text` names no action but `action`."""
    return action is None or set(actions_in(text)) <= {action}


def _rival_reasons(structure: StructuredTurn) -> list[str]:
    return [one for one in sentences(structure.section("COUNTERARGUMENT")) if len(words(one)) > 3]  # noqa: PLR2004 - less is no reason


def _alternatives(structure: StructuredTurn) -> float:
    """Half for a counterargument that is answered, half for falsifiers, one a reason."""
    sides = [structure.section("COUNTERARGUMENT"), structure.section("REBUTTAL")]
    contested = 1.0 if answers_its_rival(structure) else 0.5 if any(sides) else 0.0
    falsifiable = min(structure.falsifiers / len(structure.reasons), 1.0)
    return (contested + falsifiable) / 2


def answers_its_rival(structure: StructuredTurn) -> bool:
    """Tell whether the rebuttal takes up a word of the counterargument."""
    rebuttal = content_words(structure.section("REBUTTAL"))
    return bool(rebuttal & content_words(structure.section("COUNTERARGUMENT")))


def _mean_of(values: list[float]) -> float:
    return math.fsum(values) / len(values)
