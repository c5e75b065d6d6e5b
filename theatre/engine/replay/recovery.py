"""After a crash: what the audit chain still lacks, and a bundle that was sealed already.

Source: contract/evidence.md §4: recovery never seals twice, the certificate in a sealed bundle
is the one that is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import JournalError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import EpisodeResult, InvocationStatus
from theatre.engine.replay.events import (
    batch_events,
    covered_sequences,
    trouble_events,
    troubled_sequence,
)
from theatre.engine.replay.journal import RunJournal
from theatre.engine.replay.sealed_run import SealedRun


async def sealed_run(
    output_dir: Path, receipt: CommitmentReceipt, journal: RunJournal
) -> SealedRun | None:
    """Return what an earlier process sealed for this theatre, or None.

    Raises JournalError where the bundle's chain does not continue the theatre's own.
    """
    bundle = output_dir / bundle_name(receipt.theatre_id)
    if not bundle.is_dir():
        return None
    entries = (bundle / "audit_trail.jsonl").read_bytes().splitlines()
    sealed = parse_object(entries[-1])
    stored = [entry["entry_hash"] async for entry in journal.trail()]
    already_noted = stored[-1:] == [sealed["entry_hash"]]
    if not already_noted and stored[-1:] != [sealed["prev_entry_hash"]]:
        raise JournalError(
            f"expected the sealed bundle {bundle.name} to continue the theatre's audit chain, "
            "got another chain: one of the two was changed by hand"
        )
    return SealedRun(
        aggregate=parse_object((bundle / "scores" / "aggregate.json").read_bytes()),
        certificate=parse_object((bundle / "certificate.json").read_bytes()),
        sealed_event=_event(sealed),
        bundle_path=bundle,
        already_noted=already_noted,
    )


async def events_kept_back(journal: RunJournal, *, at: str) -> list[AuditEvent]:
    """Return the audit events that a crash kept back: records are durable before events.

    A batch's events are durable up to where the crash came: missing are the last failures and
    refusals of the last batch in the chain, and everything about the episodes behind it.
    """
    covered: set[int] = set()
    troubled: set[int | None] = set()
    async for entry in journal.trail():
        covered.update(covered_sequences(entry))
        troubled.add(troubled_sequence(entry))
    cut_off: list[EpisodeResult] = []
    orphans: list[EpisodeResult] = []
    async for result in journal.results():
        if result.seq not in covered:
            orphans.append(result)
        elif result.status is not InvocationStatus.SUCCESS and result.seq not in troubled:
            cut_off.append(result)
    return [*trouble_events(cut_off, at=at), *(batch_events(orphans, at=at) if orphans else ())]


def _event(entry: JsonObject) -> AuditEvent:
    return AuditEvent(
        event_type=cast("str", entry["event_type"]),
        at=cast("str", entry["at"]),
        detail=cast("JsonObject", entry["detail"]),
    )
