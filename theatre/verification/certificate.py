"""The verification certificate: a sealed verification run in the terms of its requirement.

Source: docs/requirements.md R83. A pure function of the evidence bundle, so that every
holder of the bundle makes the same bytes. It adds to the theatre certificate, which it names by
hash, and must never replace it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, canonical_sha256
from theatre.engine.errors import BundleError
from theatre.engine.models import EpisodeOutcome
from theatre.engine.rlmf_export import SealedBundle, SealedEpisode, outputs_of
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.paths import ABSENT, at_path
from theatre.verification.certified_judge import certified_judge, find_origins
from theatre.verification.claim_calibration import (
    NOT_JUDGED,
    TOO_FEW,
    ClaimCalibration,
    read_confidences,
)
from theatre.verification.errors import NoVerificationError, TooFewReplaysError
from theatre.verification.provenance import require_built_in, require_derived
from theatre.verification.replay_detail import NO_DETAIL, ReplayDetail, detail_reader
from theatre.verification.template import CRITERIA

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
    "expires_at",
    "issuer",
)
_NAMED = (
    "certificate_id",
    "commitment_hash",
    "evidence_bundle_hash",
    "results_hash",
)


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
    def of(cls, episode: SealedEpisode, detail: ReplayDetail | None) -> ReplayScore:
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
    """What one pass over the episodes gathers."""

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
        output = _output(episode)
        detail = None if reader is None or output is None else reader.read(episode, output)
        if detail is not None and output is not None and detail.claims is not None:
            claims = cast("list[JsonValue]", output["key_claims"])
            found.calibration.add(detail.claims, read_confidences(output, len(claims)))
        found.lines.append(ReplayScore.of(episode, detail).as_document())
        found.changes.append(_change(episode))
        found.judge_origins.update(find_origins(episode.record))
    return found


def _output(episode: SealedEpisode) -> JsonObject | None:
    """Return the answer that was scored; None where there was none."""
    if episode.line["outcome"] != EpisodeOutcome.SCORED.value:
        return None
    return next(reversed(outputs_of(episode.record).values()), None)


def _change(episode: SealedEpisode) -> str:
    """Return the commit of a change; its id where the commit is not known."""
    commit = at_path(episode.truth.input_data, "record.commit")
    return commit if isinstance(commit, str) and commit else episode.truth.episode_id


def _document(sealed: SealedBundle, minimum: int, replays: _Replays) -> JsonObject:
    certificate, pins = sealed.certificate, cast("JsonObject", sealed.template["version_pins"])
    theatre_id = cast("str", certificate["theatre_id"])
    # Where a model judges, the lexical criteria have weight 0 and are no part of this.
    weights = cast("JsonObject", at_path(certificate, "criteria.weights"))
    brier = replays.calibration.brier
    source = at_path(sealed.template, "oracle_config.repository")
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
        "brier_reason": _brier_reason(brier, judged=replays.judged),
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


def _brier_reason(brier: float | None, *, judged: bool) -> str | None:
    if brier is not None:
        return None
    return TOO_FEW if judged else NOT_JUDGED
