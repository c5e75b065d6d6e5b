"""The evidence of a run with what people gave: recomputed after the episodes, before the results.

Source: docs/evidence.md, "Human scores".
"""

from __future__ import annotations

from dataclasses import replace

from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.people.human_scores import RatingSources, check_human_scores
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.report import Cause, Ledger
from theatre.engine.bundle_check.scores.episodes import EpisodeEvidence
from theatre.engine.bundle_check.scores.mixed_scores import with_human_parts
from theatre.engine.bundle_check.trail.audit import AuditTrail


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
        aggregate = with_human_parts(aggregate, plan.criteria, columns, panels, evidence.lines)
    return replace(evidence, panels=panels, aggregate=aggregate)
