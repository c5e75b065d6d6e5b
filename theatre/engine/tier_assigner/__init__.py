"""Verification tiers (policy v0): how well a construct's claim is evidenced.

`TierAssigner.assign` judges a run when it is issued, `TierAssigner.effective` its certificate
when it is read. Source: docs/contract/scoring.md §7.
"""

from theatre.engine.tier_assigner.assigner import (
    CertificateStatus,
    EffectiveTier,
    TierAssessment,
    TierAssigner,
    Unmet,
)
from theatre.engine.tier_assigner.facts import (
    CLOCKS_APART,
    MIN_CRITERION_N,
    MIN_REPLAYS,
    AnswerCounts,
    Attestation,
    BehaviouralSignal,
    CriterionCounts,
    Dispute,
    DisputeStatus,
    IssuedCertificateFacts,
    RunRecord,
    TelemetryWindow,
    TierFacts,
    TierHistory,
    VerificationTier,
)

__all__ = [
    "CLOCKS_APART",
    "MIN_CRITERION_N",
    "MIN_REPLAYS",
    "AnswerCounts",
    "Attestation",
    "BehaviouralSignal",
    "CertificateStatus",
    "CriterionCounts",
    "Dispute",
    "DisputeStatus",
    "EffectiveTier",
    "IssuedCertificateFacts",
    "RunRecord",
    "TelemetryWindow",
    "TierAssessment",
    "TierAssigner",
    "TierFacts",
    "TierHistory",
    "Unmet",
    "VerificationTier",
]
