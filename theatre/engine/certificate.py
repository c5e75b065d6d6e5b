"""The calibration certificate: what was measured, on what, and how far to trust it.

Source: docs/requirements.md R34, with the additions of
docs/contract/evidence.md §5. Two values here are equal only if their canonical bytes are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import CertificateError
from theatre.engine.models import ExecutionPath, TheatreCriteria
from theatre.engine.oracle_contract import Isolation
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import certified_repeats
from theatre.engine.templates import ProductTheatreTemplate

CERTIFICATE_SCHEMA = "echelon_certificate_schema.json"

VersionSource: TypeAlias = Literal["computed", "claimed", "declared"]
"""Who says what version it was: the engine by its files, a remote construct, the pinned request."""

_FROM_AGGREGATE = (
    "scores",
    "composite_score",
    "score_intervals",
    "score_counts",
    "holdout_scores",
    "episode_counts",
    "coverage",
    "refusal_rate",
    "results_hash",
)
_CRITERIA_METRICS = ("precision", "recall", "reply_accuracy")
"""Metrics that are the score of the criterion of that name, where a template has one."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CriterionAudit(_Part):
    """Of the episodes that count in one criterion's mean: how many questions and answers differ."""

    distinct_inputs: int
    expectations: int
    majority_share: float | None


class CertifiedDataAudit(_Part):
    """How many of the questions differ, and what they give away (docs/contract/earned.md §5.1)."""

    episodes: int
    distinct_inputs: int
    distinct_scored_inputs: int
    near_duplicates: int
    answers_in_inputs: int
    clusters: int
    criteria: dict[str, CriterionAudit]


class BaselineScore(_Part):
    """What one answer without any work scores on one criterion, over n episodes."""

    score: float
    n: int
    interval: dict[str, Any]


class CriterionBaselines(_Part):
    """The four baselines of one criterion, or why it has none."""

    not_applicable: Literal["judged", "human", "unplayable"] | None
    empty: BaselineScore | None
    copied: BaselineScore | None
    most_frequent: BaselineScore | None
    other_episode: BaselineScore | None


class CertifiedBaselines(_Part):
    """What answers without any work score (docs/contract/earned.md §5.2)."""

    episodes: int
    criteria: dict[str, CriterionBaselines]


class TheatreCalibrationCertificate(BaseModel):
    """One certificate of either execution path. Field meanings: docs/certificate.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: Literal["1.2.0"] = "1.2.0"

    certificate_id: str
    theatre_id: str
    template_id: str
    construct_id: str

    criteria: TheatreCriteria
    scores: dict[str, float | None]
    composite_score: float | None
    score_intervals: dict[str, Any]
    score_counts: dict[str, dict[str, int]]
    holdout_scores: dict[str, Any] | None

    precision: float | None = None
    recall: float | None = None
    reply_accuracy: float | None = None
    brier_score: float | None = None
    ece: float | None = None

    replay_count: int
    episode_counts: dict[str, int]
    coverage: float | None
    refusal_rate: float | None
    results_hash: str | None
    evidence_bundle_hash: str
    audit_head: str
    ground_truth_hash: str

    construct_version: str
    version_source: VersionSource
    construct_chain_versions: dict[str, str] | None
    environment: dict[str, Any] | None
    isolation: dict[str, Any] | None
    scorer_version: str
    methodology_version: str
    dataset_hash: str | None

    verification_tier: Literal["UNVERIFIED", "BACKTESTED", "PROVEN"]
    caps: tuple[str, ...]
    findings: tuple[str, ...]
    qualification: dict[str, Any] | None = None
    corrected_scores: dict[str, Any] | None = None
    data_audit: CertifiedDataAudit | None = None
    baselines: CertifiedBaselines | None = None
    repeats: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None

    commitment_hash: str
    coin_sha256: str
    episode_root: str | None = None
    issuer: str
    owner: dict[str, Any] | None = None

    issued_at: str
    expires_at: str | None
    theatre_committed_at: str
    theatre_resolved_at: str

    ground_truth_source: str
    execution_path: ExecutionPath

    def as_document(self) -> JsonObject:
        """Return the JSON document; its canonical bytes are the certificate."""
        return self.model_dump(mode="json")


def certificate_id(theatre_id: str, commitment_hash: str) -> str:
    """Return UUID5(theatre, "certificate:" + commitment): one theatre can have only one."""
    return str(uuid5(UUID(theatre_id), f"certificate:{commitment_hash}"))


ENVIRONMENT_CHANGED = "environment-changed"
"""The finding where the run began in another environment than the receipt, or the certificate of
the same construct and version before it, has."""


NETWORK_OPEN = "network-open"
"""The finding where a construct could reach a network, so that others may have answered."""

WITHIN_ITEM_UNKNOWN = "within-item-variance-unknown"
"""The finding where each question was asked once, and answers to one are not known to be equal:
no interval holds how much they vary."""


def findings_of(
    version_source: VersionSource, isolation: Isolation, others: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the codes of what a reader must know and no tier rule looks at, sorted.

    A version that the engine did not compute is one of them, and so is an open network.
    """
    uncomputed = () if version_source == "computed" else (f"version-{version_source}",)
    opened = () if isolation.network else (NETWORK_OPEN,)
    return tuple(sorted({*uncomputed, *opened, *others}))


def ground_truth_hash(dataset_hashes: JsonObject) -> str:
    """Return the SHA-256 over the canonical `dataset_hashes`: all ground truth in one value."""
    return canonical_sha256(dataset_hashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedEvidence:
    """What sealing established, in addition to the commitment: results, tier, anchors, moment.

    `isolation` is the weakest of the constructs'. `findings` are codes beyond those that it and
    `version_source` give. `moment` (RFC 3339) is the
    time of the sealing entry: the theatre is resolved and the certificate issued by that one act.
    """

    aggregate: JsonObject
    tier: str
    caps: tuple[str, ...]
    expires_at: str | None
    bundle_hash: str
    audit_head: str
    version_source: VersionSource
    usage: JsonObject | None
    isolation: Isolation
    data_audit: JsonObject
    baselines: JsonObject
    episode_root: str
    findings: Iterable[str] = ()
    qualification: JsonObject | None = None
    corrected_scores: JsonObject | None = None
    issuer: str
    moment: str


def issue_certificate(
    template: ProductTheatreTemplate, receipt: CommitmentReceipt, evidence: CertifiedEvidence
) -> JsonObject:
    """Return the certificate document of a replay theatre."""
    config, pins = template.product_theatre_config, template.version_pins
    aggregate = evidence.aggregate
    scores = cast("dict[str, float | None]", aggregate["scores"])
    counts = cast("dict[str, int]", aggregate["episode_counts"])
    calibration = cast("dict[str, Any]", aggregate["calibration"] or {})
    hops = template.hops
    is_chain = bool(config.construct_chain) or len(hops) > 1
    chain = {hop.construct_id: hop.construct_version for hop in hops} if is_chain else {}
    certificate = TheatreCalibrationCertificate.model_validate(
        {
            **{name: aggregate[name] for name in _FROM_AGGREGATE},
            "certificate_id": certificate_id(receipt.theatre_id, receipt.commitment_hash),
            "theatre_id": receipt.theatre_id,
            "template_id": template.theatre_id,
            "construct_id": config.construct_under_test,
            "criteria": template.criteria,
            **{metric: scores.get(metric) for metric in _CRITERIA_METRICS},
            # Null where no probability was stated, or too few were: never made up from accuracy.
            "brier_score": calibration.get("brier_score"),
            "ece": (calibration.get("ece") or {}).get("value"),
            "replay_count": counts["scored"],
            "evidence_bundle_hash": evidence.bundle_hash,
            "audit_head": evidence.audit_head,
            "ground_truth_hash": ground_truth_hash(receipt.dataset_hashes),
            "construct_version": pins.constructs[config.construct_under_test],
            "version_source": evidence.version_source,
            "construct_chain_versions": chain or None,
            "environment": receipt.as_document().get("environment"),
            "isolation": evidence.isolation.as_document(),
            "scorer_version": pins.scorer_version,
            "methodology_version": pins.methodology_version,
            "dataset_hash": template.replay_dataset_hash,
            "verification_tier": evidence.tier,
            "caps": evidence.caps,
            "findings": findings_of(evidence.version_source, evidence.isolation, evidence.findings),
            "data_audit": evidence.data_audit,
            "baselines": evidence.baselines,
            "repeats": certified_repeats(aggregate),
            "qualification": evidence.qualification,
            "corrected_scores": evidence.corrected_scores,
            "usage": evidence.usage,
            "commitment_hash": receipt.commitment_hash,
            "coin_sha256": receipt.coin_sha256,
            "episode_root": evidence.episode_root,
            "issuer": evidence.issuer,
            "issued_at": evidence.moment,
            "expires_at": evidence.expires_at,
            "theatre_committed_at": receipt.committed_at,
            "theatre_resolved_at": evidence.moment,
            "ground_truth_source": config.ground_truth_source,
            "execution_path": template.execution_path,
        }
    )
    return certificate.as_document()


def reproduction_document(receipt: CommitmentReceipt, aggregate: JsonObject) -> JsonObject:
    """Return `reproduction.json`: whose run was made again, and its result."""
    environment = cast("JsonObject", receipt.environment or {})
    return {
        "reproduces": receipt.reproduces,
        "coin_sha256": receipt.coin_sha256,
        "results_hash": aggregate["results_hash"],
        "environment_hash": environment.get("environment_hash"),
    }


def validate_certificate(document: JsonObject, registry: SchemaRegistry) -> None:
    """Raise CertificateError, with every violation, unless `document` fits the schema."""
    violations = registry.validate(CERTIFICATE_SCHEMA, document)
    if violations:
        listed = "; ".join(f"{violation.pointer}: {violation.detail}" for violation in violations)
        raise CertificateError(f"expected a certificate that fits its schema, got: {listed[:1500]}")
