"""After a crash: what the audit chain still lacks, and a bundle that was sealed already.

Source: docs/contract/evidence.md §4: recovery never seals twice, the certificate in a sealed bundle
is the one that is stored. docs/contract/earned.md §1: what is read back is verified.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import JournalChangedError
from theatre.engine.evidence_bundle import CERTIFICATE
from theatre.engine.models import InvocationStatus
from theatre.engine.replay.events import trouble_events
from theatre.engine.replay.journal import RunJournal
from theatre.engine.replay.sealed_run import REPRODUCED, SealedRun
from theatre.engine.replay.trail_batches import TrailBatches


async def recover_sealed_run(bundle: Path, journal: RunJournal) -> SealedRun:
    """Return what an earlier process sealed for this theatre, once it has passed the check.

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
        sealed_event=_event(sealed),
        bundle_path=bundle,
        already_noted=already_noted,
    )


async def find_unrecorded_events(
    journal: RunJournal, theatre_id: str, *, at: str
) -> list[AuditEvent]:
    """Verify what is recorded; return the failures and refusals that a crash kept from the trail.

    Those are the last ones of the last batch: its entries are written one after another. Raises
    JournalChangedError, naming the first batch that is not as it was recorded.
    """
    batches = await TrailBatches.read(journal, theatre_id)
    return [
        event
        async for result in batches.results(journal)
        if result.status is not InvocationStatus.SUCCESS and result.seq not in batches.troubled
        for event in trouble_events([result], at=at)
    ]


def _event(entry: JsonObject) -> AuditEvent:
    return AuditEvent(
        event_type=cast("str", entry["event_type"]),
        at=cast("str", entry["at"]),
        detail=cast("JsonObject", entry["detail"]),
    )
