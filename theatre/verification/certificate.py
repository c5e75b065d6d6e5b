"""The verification certificate: a sealed verification run in the terms of its requirement.

Source: docs/requirements.md R83. A pure function of the evidence bundle, so that every
holder of the bundle makes the same bytes. It adds to the theatre certificate, which it names by
hash, and must never replace it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, canonical_sha256
from theatre.engine.errors import BundleError
from theatre.engine.rlmf_export import SealedBundle, SealedEpisode, measured_calibration
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.arithmetic import NANO, ratio, rounded_number
from theatre.engine.scoring.calibration import BINS, Bin, brier_score, stated_probability
from theatre.engine.scoring.provider import ABSENT, at_path
from theatre.verification.errors import NoVerificationError, TooFewReplaysError
from theatre.verification.lexical import JudgedClaim
from theatre.verification.provenance import require_built_in, require_derived
from theatre.verification.replay_detail import NO_DETAIL, ReplayDetail, detail_reader, scored_output
from theatre.verification.scoring_providers import certified_judge, find_origins
from theatre.verification.template import CRITERIA

# How near the confidence that an oracle states for its claims is to the verdicts on them.


MIN_CLAIMS = 100
"""Below so many claims with a stated confidence there is no Brier score."""

TOO_FEW = "fewer-than-100-stated-claims"
NOT_JUDGED = "claims-not-judged-singly"


@dataclass(slots=True)
class ClaimCalibration:
    """Exact sums over the claims whose confidence is stated, in ten bins of equal width.

    Each claim has a verdict in each of `passes`. The Brier score is the mean of theirs, and a
    claim counts once, however often it was judged.
    """

    passes: int = 1
    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])
    _silent: int = 0

    def add(
        self, judged: Sequence[Sequence[JudgedClaim]], confidences: Sequence[JsonValue]
    ) -> None:
        """Add the claims of one answer, with the values at their places in `confidences`.

        `judged` has them pass by pass. A claim whose confidence is no number in [0, 1] has stated
        none.
        """
        for claim in (claim for verdicts in judged for claim in verdicts):
            stated = stated_probability(
                confidences[claim.place] if claim.place < len(confidences) else None
            )
            if stated is None:
                self._silent += 1
                continue
            place = min(stated.nano * BINS // NANO, BINS - 1)
            self.bins[place].add(stated.nano, right=claim.supported)

    @property
    def stated(self) -> int:
        """Return how many claims came with a confidence."""
        return sum(one.count for one in self.bins) // self.passes

    @property
    def brier(self) -> float | None:
        """Return the Brier score to nine places; None below MIN_CLAIMS."""
        return rounded_number(brier_score(self.bins)) if self.stated >= MIN_CLAIMS else None

    def as_document(self) -> JsonObject:
        """Return the counts and the reliability curve; what held is a mean over passes."""
        return {
            "stated": self.stated,
            "without_confidence": self._silent // self.passes,
            "supported": ratio(sum(one.right for one in self.bins), self.passes),
            "bins": [
                {
                    "low": place / BINS,
                    "high": (place + 1) / BINS,
                    "count": one.count // self.passes,
                    "mean_confidence": ratio(one.total, one.count * NANO),
                    "share_supported": ratio(one.right, one.count),
                }
                for place, one in enumerate(self.bins)
            ],
        }


def read_confidences(output: JsonObject, claims: int) -> Sequence[JsonValue]:
    """Return `metadata.claim_confidence`; none of it where it is not parallel to `key_claims`."""
    metadata = output.get("metadata")
    stated = metadata.get("claim_confidence") if isinstance(metadata, dict) else None
    return stated if isinstance(stated, list) and len(stated) == claims else ()


SCHEMA = "echelon_verification_certificate_schema.json"
SCHEMA_VERSION = "1.0.0"
DOMAIN = "community_oracle"
CERTIFICATE_FILE = "verification_certificate.json"

_COPIED = (
    "theatre_id",
    "construct_id",
    "construct_version",
    "version_source",
    "methodology_version",
    *CRITERIA,
    "score_intervals",
    "verification_tier",
    "caps",
    "findings",
    "expires_at",
    "issuer",
)
_NAMED = ("certificate_id", "commitment_hash", "evidence_bundle_hash", "results_hash")


def verification_certificate(bundle: Path) -> bytes:
    """Return the certificate of a sealed verification run, as canonical JSON and a line feed.

    Raises NotFoundError and BundleError as `SealedBundle`, and as `certificate_document`. Whether
    the bundle itself is honest is the business of `check_bundle`.
    """
    return canonical_line(certificate_document(SealedBundle(bundle)))


def certificate_document(sealed: SealedBundle) -> JsonObject:
    """Return the certificate of a sealed verification run.

    Raises NoVerificationError for a bundle of another template, one that only bears its name, or
    ground truth that does not follow from its changes (`provenance`), and TooFewReplaysError where
    fewer changes were scored than is committed.
    """
    require_built_in(sealed.template)
    minimum = at_path(sealed.template, "oracle_config.minimum_replays")
    if not isinstance(minimum, int):
        raise NoVerificationError("expected a committed oracle_config.minimum_replays, got none")
    scored = cast("int", sealed.certificate["replay_count"])
    if scored < minimum:
        raise TooFewReplaysError(
            f"expected at least {minimum} scored changes, as is committed (--min-replays), got "
            f"{scored}: this is no verification; the scores are kept"
        )
    document = _document(sealed, minimum, _replays(sealed))
    violations = SchemaRegistry().validate(SCHEMA, document)
    if violations:
        listed = "; ".join(f"{v.pointer}: {v.detail}" for v in violations)
        raise BundleError(f"expected a bundle that gives a certificate, got: {listed[:1500]}")
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayScore:
    """The scores of one change, in [0, 1], and the counts behind them; scores may be null."""

    ground_truth_id: str
    outcome: str
    scores: JsonObject
    detail: ReplayDetail | None

    @classmethod
    def of(cls, episode: SealedEpisode, detail: ReplayDetail | None) -> "ReplayScore":
        """Return what the bundle holds of an episode."""
        return cls(
            ground_truth_id=episode.truth.episode_id,
            outcome=cast("str", episode.line["outcome"]),
            scores=cast("JsonObject", episode.line["scores"]),
            detail=detail,
        )

    def as_document(self) -> JsonObject:
        """Return the line of `individual_scores`."""
        return {
            "ground_truth_id": self.ground_truth_id,
            "outcome": self.outcome,
            **{criterion: self.scores[criterion] for criterion in CRITERIA},
            **(NO_DETAIL if self.detail is None else self.detail.as_document()),
        }


@dataclass(slots=True)
class _Replays:
    judged: bool
    calibration: ClaimCalibration
    lines: list[JsonValue] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    judge_origins: Counter[str] = field(default_factory=Counter)


def _replays(sealed: SealedBundle) -> _Replays:
    reader = detail_reader(sealed.template)
    passes = 1 if reader is None else reader.passes
    found = _Replays(judged=reader is not None, calibration=ClaimCalibration(passes=passes))
    for episode in sealed.episodes():
        require_derived(episode.truth)
        output = scored_output(episode)
        detail = None if reader is None or output is None else reader.read(episode, output)
        if detail is not None and output is not None and detail.claims is not None:
            claims = cast("list[JsonValue]", output["key_claims"])
            found.calibration.add(detail.claims, read_confidences(output, len(claims)))
        found.lines.append(ReplayScore.of(episode, detail).as_document())
        # The commit of a change; its id where the commit is not known.
        commit = at_path(episode.truth.input_data, "record.commit")
        known = isinstance(commit, str) and commit
        found.changes.append(str(commit) if known else episode.truth.episode_id)
        found.judge_origins.update(find_origins(episode.record))
    return found


def _document(sealed: SealedBundle, minimum: int, replays: _Replays) -> JsonObject:
    certificate, pins = sealed.certificate, cast("JsonObject", sealed.template["version_pins"])
    theatre_id = cast("str", certificate["theatre_id"])
    # Where a model judges, the lexical criteria have weight 0 and are no part of this.
    weights = cast("JsonObject", at_path(certificate, "criteria.weights"))
    brier = replays.calibration.brier
    source = at_path(sealed.template, "oracle_config.repository")
    no_brier = TOO_FEW if replays.judged else NOT_JUDGED
    return {
        **{name: certificate[name] for name in _COPIED},
        "schema_version": SCHEMA_VERSION,
        "certificate_id": str(
            uuid5(UUID(theatre_id), f"verification:{certificate['commitment_hash']}")
        ),
        "domain": DOMAIN,
        "replay_count": certificate["replay_count"],
        "minimum_replays": minimum,
        "composite_score": certificate["composite_score"],
        "weights": {name: weights[name] for name in CRITERIA},
        "brier": brier,
        "brier_reason": no_brier if brier is None else None,
        "claim_calibration": replays.calibration.as_document() if replays.judged else None,
        "sample_size": certificate["replay_count"],
        "agent_accuracy": certificate["precision"],
        "timestamp": certificate["theatre_resolved_at"],
        "ground_truth_source": None if source is ABSENT else source,
        "ground_truth_hash": certificate["ground_truth_hash"],
        "commit_range": f"{replays.changes[0]}..{replays.changes[-1]}",
        "scoring_model": pins["scorer_version"],
        "judge": certified_judge(sealed, replays.judge_origins),
        "theatre_certificate": {
            **{name: certificate[name] for name in _NAMED},
            "sha256": canonical_sha256(certificate),
        },
        "individual_scores": replays.lines,
    }


# The members of training records that a verification adds to those of the engine.


_LIFTED = ("brier", "sample_size", "agent_accuracy")


def training_calibration(sealed: SealedBundle) -> JsonObject | None:
    """Return `brier`, `sample_size` and `agent_accuracy` as the verification certificate has them.

    So for a run that earned one; for every other what the engine measured, whatever its template
    is named.
    """
    measured = measured_calibration(sealed)
    try:
        certificate = certificate_document(sealed)
    except (NoVerificationError, TooFewReplaysError):
        return measured
    lifted = {name: certificate[name] for name in _LIFTED if certificate[name] is not None}
    return {**(measured or {}), **lifted}
