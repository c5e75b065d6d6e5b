"""The gate before publishing: no bundle is sealed, or believed, that the own check refuses.

Source: docs/contract/earned.md §1; docs/adr/0171. A refusal is in the audit trail before the draft
is set aside, and that is done before the theatre ends: no crash lets what was refused be certified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.bundle_check import CheckReport, check_bundle
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.evidence_bundle import set_aside
from theatre.engine.replay.context import (
    RunContext,
    RunJournal,
    RunSettings,
    cancellation_check,
    run_in_thread,
)

SELF_CHECK_FAILED = "self-check-failed"


@dataclass(frozen=True, slots=True)
class RefusedDraft:
    """A bundle that the check refused, by the ids of the lines that failed or were unavailable."""

    checks: tuple[str, ...]

    @classmethod
    def of(cls, entry: JsonObject) -> Self:
        """Return the refusal that an audit entry records."""
        return cls(tuple(cast("dict[str, list[str]]", entry["detail"])["checks"]))

    def event(self, at: str) -> AuditEvent:
        """Return the audit event of the refusal."""
        return AuditEvent(event_type=SELF_CHECK_FAILED, at=at, detail={"checks": [*self.checks]})

    def outcome(self) -> JsonObject:
        """Return the detail of the `resolved` event."""
        return {
            "outcome": "failed",
            "outcome_reason": "self-check",
            "error_detail": "expected a draft bundle that the independent check passes, got it "
            f"refused ({', '.join(self.checks)}): nothing is issued, and the draft is kept in "
            "drafts/ for the operator",
        }


async def check_draft(bundle: Path, context: RunContext) -> RefusedDraft | None:
    """Check `bundle` with all that is installed; return None where it passes.

    In a thread that stops within 100 episodes once the caller is cancelled.
    """
    report = await run_in_thread(_run_check, bundle, context, cancellation_check())
    refused = {*report.failed, *report.unavailable}
    checks = tuple(line.id for line in report.checks if line in refused)
    return RefusedDraft(checks) if checks else None


async def refuse(
    refused: RefusedDraft,
    journal: RunJournal,
    theatre_id: str,
    context: RunContext,
    settings: RunSettings,
) -> None:
    """Note a refusal, then set the refused bundle aside."""
    # Noted before the draft is moved: a crash in between cannot lead to a certificate.
    await journal.note(refused.event(format_rfc3339(context.clock())))
    await run_in_thread(set_aside, theatre_id, settings.output_dir, settings.drafts_dir)


def _run_check(
    bundle: Path, context: RunContext, raise_if_cancelled: Callable[[], None]
) -> CheckReport:
    return check_bundle(
        bundle,
        context.scorers,
        registry=context.registry,
        computations=context.computations,
        sanitiser=context.sanitiser,
        runners=context.runners,
        now=context.clock(),
        progress=lambda _: raise_if_cancelled(),
    )
