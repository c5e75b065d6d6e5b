"""`second_opinion`: a cross-check of a judge's scores by a scorer that text cannot persuade.

Over `episodes`. Where the two differ beyond a committed bound, a person should read the answers:
the judge was persuaded, or the words of the diff do not say what the change does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Computation, Scored, ScorerKind, ScoringCase
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.scoring.arithmetic import NANO, rounded_number
from theatre.engine.scoring.differences import mean_difference
from theatre.judging.messages import answered_by
from theatre.judging.recorded import answered_episodes
from theatre.verification.judge.scorer import SCORER, pass_scores
from theatre.verification.lexical import PRECISION, RECALL, REPLY_ACCURACY

BEYOND = 0.25
"""The bound that a verification commits to."""

_SCORERS = {scorer.name: scorer for scorer in (SCORER, PRECISION, RECALL, REPLY_ACCURACY)}


@dataclass(slots=True)
class _Pair:
    """What the episodes come to that both have scored, and how far passes lie apart."""

    scores: dict[str, list[tuple[Fraction, Fraction]]] = field(default_factory=dict)
    """By episode what both give each answer."""
    spreads: list[Fraction] = field(default_factory=list)

    def add(self, episode_id: str, judge: Scored, second: Scored) -> None:
        """Take an answer that both have scored; an episode counts once, with its mean."""
        both = Fraction(judge.nano, NANO), Fraction(second.nano, NANO)
        self.scores.setdefault(episode_id, []).append(both)

    def add_passes(self, scores: Sequence[Fraction]) -> None:
        """Take the passes over an answer, if there was more than one."""
        if len(scores) > 1:
            self.spreads.append(max(scores) - min(scores))

    def as_document(self, beyond: Fraction) -> JsonObject:
        answers = self.scores.items()
        difference = mean_difference({name: [a - b for a, b in both] for name, both in answers})
        low, high = difference["low"], difference["high"]
        known = isinstance(low, float) and isinstance(high, float)
        return {
            "episodes": len(self.scores),
            "judge": _mean_of_means([[a for a, _ in both] for _, both in answers]),
            "second": _mean_of_means([[b for _, b in both] for _, both in answers]),
            "difference": difference,
            "flagged": known
            and (Fraction(cast("float", low)) > beyond or Fraction(cast("float", high)) < -beyond),
            "spread": {
                "episodes": len(self.spreads),
                "mean": _mean(self.spreads),
                "largest": rounded_number(max(self.spreads)) if self.spreads else None,
            },
        }


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return, for each pair of criteria, both means over the episodes that both have scored.

    `pairs` maps criteria of a judge to their cross-checks, `criteria_scorers` is how each is
    scored. `difference` is judge minus second; a pair is `flagged` where its whole interval lies
    beyond ± `beyond`. `spread` is over the episodes that were judged in several passes: highest
    minus lowest score of an episode's passes. `models` counts answers by the model they name.
    """
    pairs = cast("dict[str, str]", params["pairs"])
    chosen = cast("dict[str, JsonObject]", params["criteria_scorers"])
    provider = TheatreScoringProvider(
        {
            "criteria": {"criteria_ids": list(chosen)},
            "scoring": {"criteria_scorers": cast("JsonObject", chosen)},
        },
        _SCORERS,
    )
    found = {criterion: _Pair() for criterion in pairs}
    models: dict[str, int] = {}
    for episode, answer in answered_episodes(lines):
        scores = provider.score_episode(episode, answer).by_criterion
        for criterion, second in pairs.items():
            ours, theirs = scores[criterion], scores[second]
            if isinstance(ours, Scored) and isinstance(theirs, Scored):
                found[criterion].add(episode.episode_id, ours, theirs)
            case = provider.case(criterion, episode, answer)
            if isinstance(case, ScoringCase) and isinstance(ours, Scored):
                found[criterion].add_passes(pass_scores(case))
        for exchange in (one for entry in answer.judgements.values() for one in entry):
            model = answered_by(cast("JsonObject", exchange.get("answer", {})))
            if model is not None:
                models[model] = models.get(model, 0) + 1
    entry = {
        name: pair.as_document(Fraction(str(params["beyond"]))) for name, pair in found.items()
    }
    return {
        "criteria": cast("JsonObject", entry),
        "flagged": [name for name, one in entry.items() if one["flagged"]],
        "models": dict(sorted(models.items())),
    }


def _mean(scores: Sequence[Fraction]) -> float | None:
    return rounded_number(sum(scores, Fraction(0)) / len(scores)) if scores else None


def _mean_of_means(by_episode: Sequence[Sequence[Fraction]]) -> float | None:
    return _mean([sum(scores, Fraction(0)) / len(scores) for scores in by_episode])


_TEXT: JsonObject = {"type": "string", "minLength": 1}

COMPUTATION = Computation(
    name="second_opinion",
    version="1",
    kind=ScorerKind.TEXTUAL,
    params_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["pairs", "criteria_scorers", "beyond"],
        "properties": {
            "pairs": {"type": "object", "minProperties": 1, "additionalProperties": _TEXT},
            "criteria_scorers": {"type": "object", "minProperties": 1},
            "beyond": {"type": "number", "minimum": 0, "maximum": 1},
        },
    },
    compute=compute,
)
