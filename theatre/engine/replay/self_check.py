"""The gate before publishing: no bundle is sealed, or believed, that the own check refuses.

Source: docs/contract/earned.md §1; docs/contract/evidence.md §4; docs/adr/0171. A refusal is in the
audit trail before the draft is set aside, and that is done before the theatre ends: no crash lets
what was refused be certified.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import JournalChangedError
from theatre.engine.evidence_bundle import CERTIFICATE, set_aside
from theatre.engine.replay.context import (
    REPRODUCED,
    RunContext,
    RunJournal,
    RunSettings,
    SealedRun,
    cancellation_check,
    run_in_thread,
)

SELF_CHECK_FAILED = "self-check-failed"


class RefusedDraft(NamedTuple):
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
    raise_if_cancelled = cancellation_check()
    report = await run_in_thread(
        check_bundle,
        bundle,
        context.scorers,
        registry=context.registry,
        computations=context.computations,
        sanitiser=context.sanitiser,
        runners=context.runners,
        now=context.clock(),
        progress=lambda _: raise_if_cancelled(),
    )
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


async def recover_sealed_run(bundle: Path, journal: RunJournal) -> SealedRun:
    """Return what an earlier process sealed for this theatre, once it has passed the check.

    Nothing is sealed twice: the certificate in a sealed bundle is the one that counts.
    Raises JournalChangedError where the bundle's chain does not continue the theatre's own.
    """
    entries = (bundle / "audit_trail.jsonl").read_bytes().splitlines()
    sealed = parse_object(entries[-1])
    stored = [entry["entry_hash"] async for entry in journal.trail()]
    already_noted = stored[-1:] == [sealed["entry_hash"]]
    if not already_noted and stored[-1:] != [sealed["prev_entry_hash"]]:
        raise JournalChangedError(
            f"expected the sealed bundle {bundle.name} to continue the theatre's audit chain, "
            "got another chain: one of the two was changed by hand"
        )
    is_certified = (bundle / CERTIFICATE).exists()
    certificate = parse_object((bundle / CERTIFICATE).read_bytes()) if is_certified else None
    return SealedRun(
        aggregate=parse_object((bundle / "scores" / "aggregate.json").read_bytes()),
        certificate=certificate,
        reason=None if is_certified else REPRODUCED,
        sealed_event=AuditEvent(
            event_type=cast("str", sealed["event_type"]),
            at=cast("str", sealed["at"]),
            detail=cast("JsonObject", sealed["detail"]),
        ),
        bundle_path=bundle,
        already_noted=already_noted,
    )
