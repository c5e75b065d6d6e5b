"""Sealed verifications, read change by change, and how far two of them stand apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.rlmf_export import SealedBundle, SealedEpisode
from theatre.engine.scoring import COMPOSITE, exact, stated_probability
from theatre.engine.scoring.arithmetic import NANO, normalised_weights, ratio, rounded_number
from theatre.scorers.computations.paired_answers import (
    Tally,
    detectable_difference,
    mcnemar,
    mean_difference,
    share_of_pairs,
)
from theatre.verification.certificate import NOT_JUDGED, certificate_document, read_confidences
from theatre.verification.replay_detail import DetailReader, detail_reader, scored_output


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """A claim and what was said of it: confidence in billionths, None where none is stated."""

    confidence: int | None
    supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """One oracle's sealed run.

    `certificate` is the verification certificate, `scores` are by measure (criterion, and the
    composite) and change: what counts, failures as 0; a change that does not count is not in it.
    `published` is what the theatre certificate says of each measure. `claims` are by change; None
    where single claims are not judged.
    """

    certificate: JsonObject
    template: JsonObject
    changes: int
    scores: Mapping[str, Mapping[str, Fraction]]
    published: Mapping[str, float | None]
    claims: Mapping[str, Sequence[StatedClaim]] | None

    @property
    def commitment_hash(self) -> str:
        """Return what the run was committed to."""
        named = cast("dict[str, str]", self.certificate["theatre_certificate"])
        return named["commitment_hash"]


def read_sealed_run(bundle: Path) -> SealedRun:
    """Read a bundle; errors as `verification_certificate`, which it has to earn."""
    sealed = SealedBundle(bundle)
    certificate = certificate_document(sealed)
    weights = cast("dict[str, float]", certificate["weights"])
    by_criterion: dict[str, dict[str, Fraction]] = {criterion: {} for criterion in weights}
    reader = detail_reader(sealed.template)
    claims: dict[str, Sequence[StatedClaim]] = {}
    for episode in sealed.episodes():
        scores = cast("dict[str, float | None]", episode.line["scores"])
        for criterion, counted in by_criterion.items():
            score = scores[criterion]
            if score is not None:
                counted[episode.truth.episode_id] = exact(score)
        if reader is not None:
            claims[episode.truth.episode_id] = tuple(_claims(episode, reader))
    counts = cast("dict[str, int]", sealed.certificate["episode_counts"])
    published = cast("dict[str, float | None]", sealed.certificate["scores"])
    composite = cast("float | None", sealed.certificate[COMPOSITE])
    return SealedRun(
        certificate=certificate,
        template=sealed.template,
        changes=counts["total"],
        scores={**by_criterion, COMPOSITE: _composite(by_criterion, weights)},
        published={**published, COMPOSITE: composite},
        claims=None if reader is None else claims,
    )


def _composite(
    by_criterion: Mapping[str, Mapping[str, Fraction]], weights: Mapping[str, float]
) -> dict[str, Fraction]:
    """Return the weighted mean of each change that counts on every criterion with a weight."""
    shares = dict(zip(weights, normalised_weights(list(weights.values())), strict=True))
    weighing = [criterion for criterion, share in shares.items() if share]
    complete = [
        change
        for change in by_criterion[weighing[0]]
        if all(change in by_criterion[criterion] for criterion in weighing)
    ]
    return {
        change: sum((shares[c] * by_criterion[c][change] for c in weighing), Fraction(0))
        for change in complete
    }


def _claims(episode: SealedEpisode, reader: DetailReader) -> Iterator[StatedClaim]:
    output = scored_output(episode)
    detail = None if output is None else reader.read(episode, output)
    if detail is None or detail.claims is None or output is None:
        return
    confidences = read_confidences(output, len(cast("list[str]", output["key_claims"])))
    for verdicts in zip(*detail.claims, strict=True):
        place, held = verdicts[0].place, sum(claim.supported for claim in verdicts)
        said = confidences[place] if place < len(confidences) else None
        stated = stated_probability(said)
        # A claim counts once, by the majority of the passes of a judge.
        yield StatedClaim(None if stated is None else stated.nano, 2 * held > len(verdicts))


# How often an oracle is wrong where it is sure, and where it is not.


CONFIDENT_FROM = 0.8
"""A claim with at least this confidence is a confident one; below it is tentative."""

NONE_STATED = "no-confidence-stated"

_THRESHOLD = NANO * 4 // 5


def measure_confidence_discipline(run: SealedRun) -> JsonObject:
    """Return how many claims were wrong, confidently and tentatively; never raises.

    `share_wrong` has an interval in which the claims of one answer count as no independent ones.
    `wrong_with_confidence` is the share of the wrong claims that were confident. A claim without
    a confidence is only counted. `reason` says why there is nothing to count, else null.
    """
    claims = run.claims
    if claims is None:
        return _result({}, {}, without=0, reason=NOT_JUDGED)
    confident = _chosen(claims, confident=True)
    tentative = _chosen(claims, confident=False)
    without = sum(one.confidence is None for said in claims.values() for one in said)
    reason = None if confident or tentative else NONE_STATED
    return _result(confident, tentative, without=without, reason=reason)


def _chosen(
    claims: Mapping[str, Sequence[StatedClaim]], *, confident: bool
) -> dict[str, Sequence[StatedClaim]]:
    """Return the stated claims of one sort, by the changes that have some."""
    chosen = {
        change: [
            one
            for one in said
            if one.confidence is not None and (one.confidence >= _THRESHOLD) is confident
        ]
        for change, said in claims.items()
    }
    return {change: said for change, said in chosen.items() if said}


def _result(
    confident: Mapping[str, Sequence[StatedClaim]],
    tentative: Mapping[str, Sequence[StatedClaim]],
    *,
    without: int,
    reason: str | None,
) -> JsonObject:
    sure, unsure = _wrong(confident), _wrong(tentative)
    return {
        "confident_from": CONFIDENT_FROM,
        "confident": _share(sure),
        "tentative": _share(unsure),
        "wrong_with_confidence": ratio(_hits(sure), _hits(sure) + _hits(unsure)),
        "without_confidence": without,
        "reason": reason,
    }


def _wrong(claims: Mapping[str, Sequence[StatedClaim]]) -> dict[str, Tally]:
    return {
        change: Tally(sum(not one.supported for one in said), len(said))
        for change, said in claims.items()
    }


def _share(units: Mapping[str, Tally]) -> JsonObject:
    return {
        "claims": sum(unit.pairs for unit in units.values()),
        "wrong": _hits(units),
        "share_wrong": share_of_pairs(units),
    }


def _hits(units: Mapping[str, Tally]) -> int:
    return sum(unit.hits for unit in units.values())


# The sign-flip test: whether such differences could come about if neither oracle were better.
#
# Source: Fisher 1935, "The Design of Experiments"; for the p-value of random draws Phipson and
# Smyth 2010. If neither is better, each difference could as well have had the other sign.


MAX_ENUMERATED = 16
"""Up to so many differences that are not 0, all signs are gone through; above, they are drawn."""
DRAWS = 20_000

_ROWS = 1_000
_WORD = 64
_PLACES = 6


def sign_flip_test(differences: Sequence[int], *, seed: str) -> JsonObject:
    """Return the two-sided p-value of the sum of `differences`, in billionths.

    `differing` counts those that are not 0; `draws` is null where all signs were gone through,
    and the p-value exact. Where signs are drawn (from `seed`, hexadecimal digits), the observed
    ones count as a draw, so it is never below 1 / (draws + 1).
    """
    moved = np.array([one for one in differences if one], dtype=np.int64)
    if len(moved) <= MAX_ENUMERATED:
        return _sign_flip_result(len(moved), _enumerated(moved), draws=None)
    return _sign_flip_result(len(moved), _drawn(moved, seed), draws=DRAWS)


def _sign_flip_result(differing: int, p_value: float, *, draws: int | None) -> JsonObject:
    return {
        "test": "sign_flip",
        "differing": differing,
        "draws": draws,
        "p_value": round(p_value, _PLACES),
    }


def _enumerated(moved: npt.NDArray[np.int64]) -> float:
    sums = np.zeros(1, dtype=np.int64)
    for one in moved:
        sums = np.concatenate((sums + one, sums - one))
    return float(np.mean(np.abs(sums) >= abs(int(moved.sum()))))


def _drawn(moved: npt.NDArray[np.int64], seed: str) -> float:
    source = np.random.PCG64(int(seed, 16))
    words = -(-len(moved) // _WORD)
    total, beyond = int(moved.sum()), 0
    for _ in range(DRAWS // _ROWS):
        raw = source.random_raw(_ROWS * words).astype("<u8").reshape(_ROWS, words)
        heads = np.unpackbits(raw.view(np.uint8), axis=1)[:, : len(moved)]
        sums = 2 * (heads.astype(np.int64) @ moved) - total
        beyond += int(np.count_nonzero(np.abs(sums) >= abs(total)))
    return (beyond + 1) / (DRAWS + 1)


_Scores = Mapping[str, Fraction]


def measure_difference(first: SealedRun, second: SealedRun, measure: str) -> JsonObject:
    """Return first minus second on one measure, each from -1 to 1; never raises.

    `changes` count for both runs, `left_out` does not for one of them at least. `first` and
    `second` are the means over these changes, so not the published scores where some are left out.
    `difference` has its interval; `detectable` is the difference that as many changes would show
    four times in five, null where there is none up to 1. `test` is the exact McNemar test where
    all scores are 0 or 1, else the sign-flip test; null without a change.
    """
    ours, theirs = first.scores[measure], second.scores[measure]
    both = [change for change in ours if change in theirs]
    units = {change: [ours[change] - theirs[change]] for change in both}
    seed = sha256_hex(
        ":".join([*sorted((first.commitment_hash, second.commitment_hash)), measure]).encode()
    )
    return {
        "changes": len(both),
        "left_out": first.changes - len(both),
        "first": _mean([ours[change] for change in both]),
        "second": _mean([theirs[change] for change in both]),
        "difference": mean_difference(units),
        "detectable": detectable_difference(units),
        "test": _test(both, ours, theirs, seed) if both else None,
    }


def _test(both: Sequence[str], ours: _Scores, theirs: _Scores, seed: str) -> JsonObject:
    if all(scores[change] in (0, 1) for scores in (ours, theirs) for change in both):
        return {
            "test": "mcnemar",
            **mcnemar([(ours[change] == 1, theirs[change] == 1) for change in both]),
        }
    return sign_flip_test([round((ours[c] - theirs[c]) * NANO) for c in both], seed=seed)


def _mean(scores: Sequence[Fraction]) -> float | None:
    return rounded_number(sum(scores, Fraction(0)) / len(scores)) if scores else None
