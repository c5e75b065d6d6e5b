"""crit_struct/1: how well a turn's reasons are put, by structure. Formulas: docs/debate.md.

A reason has a validity and its source a credibility; a turn has four pillars.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from theatre.debate.blind import BlindDebate, BlindTurn
from theatre.debate.evaluators.results import Evaluation, TurnFinding, mean
from theatre.debate.evaluators.t3 import has_collapsed
from theatre.debate.models import DIRECTION, Action, actions_in
from theatre.debate.text import (
    StructuredTurn,
    citations,
    content_words,
    numbers,
    polarity,
    sentences_of,
    words,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScorerKind

NAME = "crit_struct/1"
_CERTAIN = 0.9
GAMMA_THRESHOLD, THETA_THRESHOLD = 0.8, 0.5
_LONG_ENOUGH, _DISTINCT_ENOUGH, _CLAUSE_WORDS = 12, 8, 2
_NO_REASON = 3
_BASE = (("DATA", 0.9), ("NEWS", 0.7), ("MODEL-INTERNAL", 0.5), ("ASSUMPTION", 0.3))
_ASSUMED, _UNTAGGED = 0.3, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One reason's validity and its source's credibility, both 0 … 1."""

    gamma: float
    theta: float
    is_supported: bool
    """Whether it cites anything that counts."""
    is_consistent: bool
    """Whether it names no other action than the turn's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuality:
    """The figures of one structured turn."""

    reasons: tuple[Rated, ...]
    rivals: tuple[Rated, ...]
    logical_validity: float
    evidential_support: float
    alternative_consideration: float
    causal_alignment: float
    answers_its_rival: bool

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


def quality_of(turn: BlindTurn) -> TurnQuality | None:
    """Return the figures of one turn; None where it is unstructured."""
    structure = turn.structure
    if structure is None:
        return None
    reasons = tuple(
        _rate(one.text, one.words, turn.action, agrees=True) for one in structure.reasons
    )
    answers = _answers_its_rival(structure)
    rivals = tuple(
        _rate(one, said, turn.action, agrees=False)
        for one in sentences_of(structure.section("COUNTERARGUMENT"))
        if len(said := words(one)) > _NO_REASON  # long enough to be a reason
    )
    return TurnQuality(
        reasons=reasons,
        rivals=rivals,
        logical_validity=_mean_of([one.gamma for one in reasons]),
        evidential_support=_mean_of([one.theta for one in reasons]),
        alternative_consideration=_alternatives(structure, answers=answers),
        causal_alignment=0.0 if has_collapsed(structure) else 1.0,
        answers_its_rival=answers,
    )


def _rate(text: str, spoken: Sequence[str], action: Action | None, *, agrees: bool) -> Rated:
    mechanism = len(spoken) >= _LONG_ENOUGH and len(set(spoken)) >= _DISTINCT_ENOUGH
    consistent = action is None or set(actions_in(text)) <= {action}
    points = (
        0.30 * mechanism
        + 0.25 * _is_conditional(text)
        + 0.25 * _points(spoken, action, agrees=agrees)
        + 0.20 * consistent
    )
    cited, figures = citations(text), numbers(text)
    support = _support(cited, figures)
    unsupported = _ASSUMED if cited else _UNTAGGED
    base = next((value for kind, value in _BASE if kind in support), unsupported)
    return Rated(
        gamma=round(points, 12),
        theta=min(round(base + 0.05 * min(len(figures), 2), 12), 1.0),
        is_supported=bool(support),
        is_consistent=consistent,
    )


def _support(cited: list[tuple[str, str]], figures: frozenset[str]) -> frozenset[str]:
    """Return the kinds of evidence that count: DATA and NEWS need a source or a number.

    A bare tag is a word that anybody can write; an assumption supports nothing.
    """
    kinds = frozenset(kind for kind, _ in cited) - {"ASSUMPTION"}
    named = bool(figures) or any(name for _, name in cited)
    return kinds if named else kinds - {"DATA", "NEWS"}


def _is_conditional(text: str) -> bool:
    """Return whether a sentence says if … then … because …, each part with words of its own."""
    for sentence in sentences_of(text):
        bare = [word.strip(",;:.()") for word in sentence.lower().split()]
        places = [bare.index(word) if word in bare else -1 for word in ("if", "then", "because")]
        if -1 in places or places != sorted(places):
            continue
        bounds = [*places, len(bare)]
        parts = [content_words(" ".join(bare[start + 1 : end])) for start, end in pairwise(bounds)]
        if all(len(part) >= _CLAUSE_WORDS for part in parts) and len(set(parts)) == len(parts):
            return True
    return False


def _points(spoken: Sequence[str], action: Action | None, *, agrees: bool) -> bool:
    """Return whether the words point where the action does, or, of a rival, elsewhere."""
    if action is None:
        return False
    seen = polarity(spoken)
    direction = DIRECTION[action]
    if direction == 0:
        return (abs(seen) <= 1) == agrees
    return seen * direction > 0 if agrees else seen * direction < 0


def _alternatives(structure: StructuredTurn, *, answers: bool) -> float:
    """Half for a counterargument that is answered, half for falsifiers, one a reason."""
    sides = [structure.section("COUNTERARGUMENT"), structure.section("REBUTTAL")]
    contested = 1.0 if answers else 0.5 if any(sides) else 0.0
    falsifiable = min(structure.falsifiers / len(structure.reasons), 1.0)
    return (contested + falsifiable) / 2


def _answers_its_rival(structure: StructuredTurn) -> bool:
    """Return whether the rebuttal takes up a word of the counterargument."""
    rebuttal, rival = structure.section("REBUTTAL"), structure.section("COUNTERARGUMENT")
    if not rebuttal or not rival:
        return False
    return bool(content_words(rebuttal) & content_words(rival))


def _mean_of(values: list[float]) -> float:
    return math.fsum(values) / len(values)
