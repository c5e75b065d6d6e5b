"""`judge_controls`: how a judge did on the claims of known truth that rode along.

Over `episodes`, from the recorded exchanges. The judge's errors on them are those that its scores
have, as far as it cannot tell controls from other claims: how well words tell them is measured too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import UnaskedError
from theatre.engine.models import Computation, ScorerKind, ScoringCase
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.scoring.corrections import FEWEST_ITEMS, judge_errors
from theatre.engine.scoring.differences import Tally, share_of_pairs
from theatre.verification.judge.controls import LABELLED, PLANTED, AnsweredControl
from theatre.verification.judge.measures import NotMeasurableError, verdicts_with_controls
from theatre.verification.judge.recognition import recognised
from theatre.verification.judge.scorer import SCORER, repeat_passes
from theatre.verification.judge.second_opinion import answered_episodes

RECOGNISABLE: Final = 0.6
"""Above this balanced accuracy of a classifier on words, controls can be told from claims."""

_RATES: Final = ("sensitivity", "specificity")
_NO_SKILL: Final = 1.0
"""The sum of sensitivity and specificity of a judge that does not look at the claim."""


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return for each criterion how many controls of either sort the judge was right about.

    Of several passes the first counts, of a labelled claim that came twice the first time.
    `sensitivity` and `specificity` have intervals clustered by the change, `recognised` is the
    balanced accuracy of a classifier on words that tells controls from the construct's claims.
    `findings` are codes for the certificate; one is for rates whose interval and that of the
    `qualification` that the criterion relies on do not meet.
    """
    relied_on = cast("dict[str, JsonObject]", params.get("qualification", {}))
    chosen = cast("dict[str, JsonObject]", params["criteria_scorers"])
    provider = TheatreScoringProvider(
        {
            "criteria": {"criteria_ids": [*chosen]},
            "scoring": {"criteria_scorers": cast("JsonObject", chosen)},
        },
        {SCORER.name: SCORER},
    )
    found = {criterion: _Controls() for criterion in chosen}
    for episode, answer in answered_episodes(lines):
        for criterion, controls in found.items():
            case = provider.case(criterion, episode, answer)
            if isinstance(case, ScoringCase):
                controls.add(case, episode.episode_id)
    criteria = {criterion: controls.as_document() for criterion, controls in found.items()}
    return {
        "criteria": cast("JsonObject", criteria),
        "findings": [
            code
            for name, one in criteria.items()
            for code in _findings(name, one, relied_on.get(name, {}))
        ],
    }


class _Controls:
    """The controls of one criterion, by what came of them."""

    def __init__(self) -> None:
        self._answered: list[tuple[str, AnsweredControl]] = []
        self._seen: set[str] = set()
        self._requests: list[tuple[list[str], list[str]]] = []
        self.repeated = 0

    def add(self, case: ScoringCase, episode_id: str) -> None:
        """Take an answer's; what cannot be read has none."""
        try:
            _, controls = repeat_passes(case, verdicts_with_controls)[0]
        except (NotMeasurableError, UnaskedError):
            return
        claims = case.answer if isinstance(case.answer, list) else []
        if controls:
            own = [text for text in claims if isinstance(text, str)]
            self._requests.append((own, [one.control.text for one in controls]))
        for answered in controls:
            control = answered.control
            if control.claim_id in self._seen:
                self.repeated += 1
                continue
            if control.claim_id:
                self._seen.add(control.claim_id)
            self._answered.append((control.change_id or episode_id, answered))

    def as_document(self) -> JsonObject:
        sources = {
            source: [(unit, one) for unit, one in self._answered if one.control.source == source]
            for source in (PLANTED, LABELLED)
        }
        kinds = sorted({one.control.kind for _, one in self._answered})
        return {
            **_counts(self._answered),
            **_rates(self._answered),
            "repeated": self.repeated,
            "by_source": {source: {**_counts(of), **_rates(of)} for source, of in sources.items()},
            "by_kind": {
                kind: _counts([one for one in self._answered if one[1].control.kind == kind])
                for kind in kinds
            },
            "recognised": recognised(self._requests),
        }


_Answers = Sequence[tuple[str, AnsweredControl]]


def _sides(answered: _Answers) -> Iterator[tuple[str, str, bool]]:
    """Yield the unit of each usable answer, its side, and whether it was right."""
    for unit, one in answered:
        if one.supported is not None:
            side = "true" if one.control.is_true else "false"
            yield unit, side, one.supported is one.control.is_true


def _counts(answered: _Answers) -> JsonObject:
    """Return of either sort how many were asked, and how many of them the judge was right about."""
    sides = [*_sides(answered)]
    counts: JsonObject = {
        side: {
            "asked": sum(of == side for _, of, _ in sides),
            "right": sum(of == side and right for _, of, right in sides),
        }
        for side in ("true", "false")
    }
    return {**counts, "unusable": len(answered) - len(sides)}


def _rates(answered: _Answers) -> JsonObject:
    hits: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for unit, side, right in _sides(answered):
        hits[side][unit].append(right)

    def rate(side: str) -> JsonObject:
        units = hits[side].items()
        return share_of_pairs({unit: Tally(sum(of), len(of)) for unit, of in sorted(units)})

    return {"sensitivity": rate("true"), "specificity": rate("false")}


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two rates of either name have intervals that do not meet."""
    pairs = [(one[rate], other[rate]) for rate in _RATES if rate in one and rate in other]
    known = [pair for pair in pairs if None not in (pair[0]["low"], pair[1]["low"])]
    return any(a["high"] < b["low"] or b["high"] < a["low"] for a, b in known)


def _findings(
    criterion: str, document: Mapping[str, Any], relied_on: Mapping[str, Any]
) -> Iterator[str]:
    """Yield codes of what a reader has to know."""
    told = document["recognised"]
    if told is not None and told > RECOGNISABLE:
        yield f"controls-recognisable:{criterion}"
    errors = judge_errors(cast("JsonObject", document))
    if errors is None or min(errors.supported.pairs, errors.refused.pairs) < FEWEST_ITEMS:
        yield f"controls-below-{FEWEST_ITEMS}:{criterion}"
    lows = [document[rate]["low"] for rate in _RATES]
    if None not in lows and sum(lows) <= _NO_SKILL:
        yield f"controls-show-no-skill:{criterion}"
    if _apart(*document["by_source"].values()):
        # It treats what stands next to the construct's claims otherwise than what does not.
        yield f"controls-differ-by-source:{criterion}"
    if _apart(document, relied_on):
        yield f"controls-contradict-qualification:{criterion}"


_BOUNDS: JsonObject = {
    "type": "object",
    "required": ["low", "high"],
    "properties": {"low": {"type": ["number", "null"]}, "high": {"type": ["number", "null"]}},
}

COMPUTATION = Computation(
    name="judge_controls",
    version="1",
    kind=ScorerKind.JUDGED,
    params_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["criteria_scorers"],
        "properties": {
            "criteria_scorers": {"type": "object", "minProperties": 1},
            "qualification": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": [*_RATES],
                    "properties": dict.fromkeys(_RATES, _BOUNDS),
                },
            },
        },
    },
    compute=compute,
)
