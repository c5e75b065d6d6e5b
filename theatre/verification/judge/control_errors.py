"""`judge_controls`: how a judge did on the claims of known truth that rode along.

Over `episodes`, from the recorded exchanges. The judge's errors on them are those that its scores
have, as far as it cannot tell controls from other claims: how well words tell them is measured too.
"""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import UnaskedError
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.corrections import FEWEST_ITEMS, SIDES, effective_tally, judge_errors
from theatre.engine.scoring.differences import Tally, share_of_pairs
from theatre.engine.scoring.measure_policy import THRESHOLD
from theatre.engine.scoring.run_controls import RATES, RECOGNISABLE, are_apart
from theatre.judging.panel import NotMeasurableError, SplitError
from theatre.judging.recorded import judged_cases, judging_computation
from theatre.verification.change_facts import WORD
from theatre.verification.judge.controls import LABELLED, AnsweredControl
from theatre.verification.judge.measures import verdicts_with_controls
from theatre.verification.judge.planted import PLANTED
from theatre.verification.judge.scorer import SCORER, repeat_passes, settled_item

_NO_SKILL: Final = 1.0
"""The sum of sensitivity and specificity of a judge that does not look at the claim."""


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return for each criterion how many controls of either sort the judge was right about.

    Several passes and judges count as one, as in a score; of a labelled claim that came twice the
    first time counts, and so it does of one planted among several answers to an episode.
    `sensitivity` and `specificity` have intervals clustered by the change, and `independent` is of
    how many controls would vary as much. `recognised` is the balanced accuracy of a classifier on
    words that tells controls from the construct's claims. `findings` are codes for the certificate.
    """
    found = {name: _Controls() for name in cast("JsonObject", params["criteria_scorers"])}
    for criterion, episode_id, case in judged_cases(lines, params, SCORER):
        found[criterion].add(case, episode_id)
    criteria = {criterion: controls.as_document() for criterion, controls in found.items()}
    return {
        "criteria": cast("JsonObject", criteria),
        "findings": [code for name, one in criteria.items() for code in _findings(name, one)],
    }


class _Controls:
    def __init__(self) -> None:
        self._answered: list[tuple[str, AnsweredControl]] = []
        self._seen: set[str] = set()
        self._planted: defaultdict[str, set[str]] = defaultdict(set)
        """By episode what was planted among its earlier answers."""
        self._requests: dict[str, tuple[list[str], list[str]]] = {}
        self.repeated = 0

    def add(self, case: ScoringCase, episode_id: str) -> None:
        """Take an answer's; what cannot be read has none."""
        try:
            passes = repeat_passes(case, verdicts_with_controls)
            controls = _settled(case, [made for _, made in passes])
        except (NotMeasurableError, UnaskedError):
            return
        claims = case.answer if isinstance(case.answer, list) else []
        if controls:
            # What the answers of an episode have in common is no help to a classifier either.
            own, ours = self._requests.setdefault(episode_id, ([], []))
            own += [text for text in claims if isinstance(text, str)]
            ours += [one.control.text for one in controls]
        planted = [one.control.text for one in controls if not one.control.claim_id]
        for answered in controls:
            control = answered.control
            if control.claim_id in self._seen or (
                not control.claim_id and control.text in self._planted[episode_id]
            ):
                self.repeated += 1
                continue
            if control.claim_id:
                self._seen.add(control.claim_id)
            self._answered.append((control.change_id or episode_id, answered))
        self._planted[episode_id].update(planted)

    def as_document(self) -> JsonObject:
        sources = {
            source: [(unit, one) for unit, one in self._answered if one.control.source == source]
            for source in (PLANTED, LABELLED)
        }
        kinds = sorted({one.control.kind for _, one in self._answered})
        return {
            **_counts(self._answered),
            **_rates(self._answered),
            "independent": {
                side: {"asked": one.pairs, "right": one.hits}
                for side in SIDES
                for one in [_independent(_units(self._answered, side))]
            },
            "repeated": self.repeated,
            "by_source": {source: {**_counts(of), **_rates(of)} for source, of in sources.items()},
            "by_kind": {
                kind: _counts([one for one in self._answered if one[1].control.kind == kind])
                for kind in kinds
            },
            "recognised": recognised([*self._requests.values()]),
        }


_Answers = Sequence[tuple[str, AnsweredControl]]


def _settled(
    case: ScoringCase, passes: Sequence[Sequence[AnsweredControl]]
) -> list[AnsweredControl]:
    """Return each control with what all passes and judges together say of it."""
    settled = []
    for given in zip(*passes, strict=True):
        said = [one.supported for one in given if one.supported is not None]
        supported = None
        with contextlib.suppress(SplitError):
            supported = settled_item(case, said) >= THRESHOLD if len(said) == len(given) else None
        settled.append(replace(given[0], supported=supported))
    return settled


def _sides(answered: _Answers) -> Iterator[tuple[str, str, bool]]:
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
        for side in SIDES
    }
    return {**counts, "unusable": len(answered) - len(sides)}


def _rates(answered: _Answers) -> JsonObject:
    return {
        rate: share_of_pairs(_units(answered, side))
        for rate, side in zip(RATES, SIDES, strict=True)
    }


def _units(answered: _Answers, wanted: str) -> dict[str, Tally]:
    """Return of each change how many controls of a sort there are, and how many right verdicts."""
    hits: defaultdict[str, list[bool]] = defaultdict(list)
    for unit, side, right in _sides(answered):
        if side == wanted:
            hits[unit].append(right)
    return {unit: Tally(sum(of), len(of)) for unit, of in sorted(hits.items())}


def _independent(units: Mapping[str, Tally]) -> Tally:
    """Return as many independent controls as vary as much: all where nothing varies."""
    total = Tally(sum(one.hits for one in units.values()), sum(one.pairs for one in units.values()))
    return total if total.hits in (0, total.pairs) else effective_tally(units)


def _findings(criterion: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield codes of what a reader has to know."""
    told = document["recognised"]
    if told is not None and told > RECOGNISABLE:
        yield f"controls-recognisable:{criterion}"
    errors = judge_errors(cast("JsonObject", document))
    if errors is None or min(errors.supported.pairs, errors.refused.pairs) < FEWEST_ITEMS:
        yield f"controls-below-{FEWEST_ITEMS}:{criterion}"
    lows = [document[rate]["low"] for rate in RATES]
    if None not in lows and sum(lows) <= _NO_SKILL:
        yield f"controls-show-no-skill:{criterion}"
    if are_apart(*document["by_source"].values()):
        # It treats what stands next to the construct's claims otherwise than what does not.
        yield f"controls-differ-by-source:{criterion}"


COMPUTATION = judging_computation("judge_controls", compute)


# Whether words tell control items from the claims of a construct: a classifier tries.
#
# A judge that could tell them would be right on them alone, and all figures about it worth nothing.


FOLDS: Final = 10
MOST_REQUESTS: Final = 500
"""So many answers are looked at, the first ones that have controls."""

_CHARACTERS = 20
"""Lengths are told apart in steps of so many."""


def recognised(requests: Sequence[tuple[Sequence[str], Sequence[str]]]) -> float | None:
    """Return the balanced accuracy of naive Bayes on words, first word and length; 0.5 is chance.

    Of each request it gets the construct's claims and the controls. Every tenth request is left out
    at a time: what the texts of one have in common is no help. Null with fewer controls, or claims,
    than folds. Likelihoods are compared as whole numbers, so no platform rounds them otherwise.
    """
    known = [
        tuple([_features(text) for text in texts] for texts in request)
        for request in requests[:MOST_REQUESTS]
    ]
    totals = [sum(len(request[sort]) for request in known) for sort in (0, 1)]
    if min(totals) < FOLDS:
        return None
    right = [0, 0]
    for fold in range(FOLDS):
        others = [request for place, request in enumerate(known) if place % FOLDS != fold]
        texts = [[text for request in others for text in request[sort]] for sort in (0, 1)]
        seen = [Counter(feature for text in sort for feature in text) for sort in texts]
        for request in known[fold::FOLDS]:
            for sort in (0, 1):
                for text in request[sort]:
                    # Both multiplied by the denominators of both. Of the same odds it says claim.
                    odds = [
                        math.prod(seen[n][one] + 1 for one in text)
                        * (len(texts[1 - n]) + 2) ** len(text)
                        for n in (0, 1)
                    ]
                    right[sort] += (odds[1] > odds[0]) is (sort == 1)
    shares = (Fraction(hits, total) for hits, total in zip(right, totals, strict=True))
    return rounded_number(sum(shares, Fraction(0)) / 2)


def _features(text: str) -> frozenset[str]:
    words = [word.casefold() for word in WORD.findall(text)]
    return frozenset([*words, f"1 {words[0] if words else ''}", f"# {len(text) // _CHARACTERS}"])
