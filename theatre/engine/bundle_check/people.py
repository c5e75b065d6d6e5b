"""The evidence of a run with what people gave: recomputed after the episodes, before the results.

Source: docs/evidence.md, "Human scores".
"""

from __future__ import annotations

from dataclasses import replace

from theatre.engine.bundle_check.audit import AuditTrail
from theatre.engine.bundle_check.episodes import EpisodeEvidence
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.human_scores import RatingSources, check_human_scores
from theatre.engine.bundle_check.mixed_scores import with_human_parts
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import Cause, Ledger


def with_people(
    evidence: EpisodeEvidence,
    plan: CommittedPlan,
    folder: BundleFolder,
    trail: AuditTrail,
    ledger: Ledger,
) -> EpisodeEvidence:
    """Make the check `human-scores`; return `evidence` with its panels and what they score."""
    aggregate, columns = evidence.aggregate, evidence.columns
    sources = RatingSources(
        plan=plan,
        folder=folder,
        trail=trail,
        columns=aggregate if isinstance(aggregate, Cause) else columns,
    )
    panels = check_human_scores(sources, ledger)
    if not isinstance(aggregate, Cause) and columns is not None:
        aggregate = with_human_parts(aggregate, plan.criteria, columns, panels)
    return replace(evidence, panels=panels, aggregate=aggregate)
