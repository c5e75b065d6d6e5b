"""How often an oracle is wrong where it is sure, and where it is not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import SealedBundle, SealedEpisode
from theatre.engine.rlmf_export.sealed_bundle import DATASET
from theatre.engine.scoring import stated_probability
from theatre.engine.scoring.arithmetic import NANO, ratio
from theatre.engine.scoring.differences import Tally, share_of_pairs
from theatre.verification.certificate import NOT_JUDGED, certificate_document, read_confidences
from theatre.verification.errors import VerificationError
from theatre.verification.replay_detail import DetailReader, detail_reader, scored_output
from theatre.verification.template import TEMPLATE_ID


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """A claim and what was said of it: confidence in billionths, None where none is stated."""

    confidence: int | None
    supported: bool


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


CONFIDENT_FROM = 0.8
"""A claim with at least this confidence is a confident one; below it is tentative."""

NONE_STATED = "no-confidence-stated"

_THRESHOLD = NANO * 4 // 5


def read_confidence_discipline(bundle: Path) -> JsonObject | None:
    """Return how many claims were wrong, confidently and tentatively; None for no verification.

    `share_wrong` has an interval in which the claims of one answer count as no independent ones.
    `wrong_with_confidence` is the share of the wrong claims that were confident. A claim without
    a confidence is only counted. `reason` says why there is nothing to count, else null.
    """
    # Published in part it has no answers.
    if not (bundle / DATASET).is_file():
        return None
    sealed = SealedBundle(bundle)
    if sealed.template.get("theatre_id") != TEMPLATE_ID:
        return None
    try:
        certificate_document(sealed)
    except VerificationError:
        return None
    reader = detail_reader(sealed.template)
    if reader is None:
        return _result({}, {}, without=0, reason=NOT_JUDGED)
    claims = {one.truth.episode_id: tuple(_claims(one, reader)) for one in sealed.episodes()}
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
