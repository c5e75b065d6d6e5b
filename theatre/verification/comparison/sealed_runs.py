"""A sealed verification as a comparison reads it: its scores and its claims, change by change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import SealedBundle, SealedEpisode
from theatre.engine.scoring import COMPOSITE, exact, stated_probability
from theatre.engine.scoring.arithmetic import normalised_weights
from theatre.verification.certificate import certificate_document, read_confidences
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
