"""How far a construct is trusted now (docs/contract/service.md §2).

Only runs without objections count (`counted_runs`). The newest of them decides, however it ended:
neither the best run nor the last certified one.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.counted_runs import (
    OWNER_NOT_CONFIRMED,
    TEMPLATE_NOT_ACCEPTED,
    CountedRun,
    OwnRuns,
    find_newest_run,
    find_runs_of_owner,
)
from backend.schemas.certificates import Routing
from backend.services.certificates import effective_tier
from backend.services.newest_used import NewestUsed
from backend.services.resources import TheatreResources
from backend.services.transparency.publication import construct_record
from theatre.engine.constraint_gate import effective_review
from theatre.engine.tier_assigner import EffectiveTier, VerificationTier
from theatre.pages.wording import NOT_SIGNED
from theatre.transparency.record import RunCounts

VALID_FOR = timedelta(seconds=60)
_AT_MOST = 2000


_CLASSES = {
    VerificationTier.UNVERIFIED: "baseline",
    VerificationTier.BACKTESTED: "mid",
    VerificationTier.PROVEN: "premium",
}


async def route(
    connection: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None,
    declared_review: str | None,
    resources: TheatreResources,
    records: "RunRecords",
    now: datetime,
) -> Routing:
    """Return how far a construct is trusted at `now`. Never raises for an unknown one."""
    accepted = resources.accepted_templates.content_hashes
    run = await find_newest_run(
        connection, construct_id, construct_version=construct_version, accepted=accepted
    )
    worth: EffectiveTier | None = None
    findings: tuple[str, ...] = ()
    if run is None:
        own = await find_runs_of_owner(connection, construct_id, accepted=accepted)
        log_end = own.log_end
        reasons: tuple[str, ...] = (_why_no_run(own),)
    else:
        construct_version, log_end = run.construct_version, run.log_end
        if run.stored is not None:
            (signature,) = await resources.signatures.verify(connection, [run.stored])
            worth = effective_tier(run.stored, signature, objections=(), now=now)
            findings = signature.findings
        reasons = _reasons(run, worth)
    record = await records.read(
        connection, RecordKey(construct_id, construct_version, log_end), now=now
    )
    tier = VerificationTier.UNVERIFIED if worth is None else worth.tier
    review = effective_review(tier.value, declared_review)
    lapses = None if run is None or run.stored is None else run.stored.expires_at
    until = now + VALID_FOR
    decides = None if run is None else True
    return Routing.model_validate(
        {
            "construct_id": construct_id,
            "construct_version": construct_version,
            "effective_tier": tier,
            "routing_class": _CLASSES[tier],
            "declared_review": declared_review,
            "effective_review": review,
            "overridden": declared_review is not None and declared_review != review,
            "reasons": [*reasons],
            "certificate_id": None if run is None else run.certificate_id,
            "findings": [*findings],
            "run_by": None if run is None else run.run_by,
            "owner_confirmed": decides,
            "template_accepted": decides,
            "record": record.as_document(),
            "as_of": now,
            "valid_until": min(until, lapses) if lapses and lapses > now else until,
        }
    )


class RecordKey(NamedTuple):
    """What a count of runs is of: a version, None for all, and the place of the last entry."""

    construct_id: str
    construct_version: str | None
    log_end: int | None


class RunRecords:
    """Counts of runs in memory: they are asked for often, and change with the log alone.

    But for what becomes overdue: that is seen within VALID_FOR.
    """

    def __init__(self) -> None:
        self._kept = NewestUsed[RecordKey, tuple[RunCounts, datetime]](_AT_MOST)

    async def read(
        self, connection: AsyncConnection, key: RecordKey, *, now: datetime
    ) -> RunCounts:
        """Return what came of the logged runs of a version, as of an end of the log."""
        kept = self._kept.find(key)
        if kept is not None and kept[1] <= now < kept[1] + VALID_FOR:
            return kept[0]
        record, _ = await construct_record(
            connection, key.construct_id, key.construct_version, now=now
        )
        self._kept[key] = record, now
        return record


def _why_no_run(own: OwnRuns) -> str:
    if not own.has_owner:
        return "construct-not-registered"
    if not own.runs:
        return "no-run"
    if own.counted:
        return "no-run-of-this-version"
    return OWNER_NOT_CONFIRMED if own.on_accepted else TEMPLATE_NOT_ACCEPTED


def _reasons(run: CountedRun, worth: EffectiveTier | None) -> tuple[str, ...]:
    if worth is None:
        ended = f"newest-run-{run.outcome or 'lost'}".replace("_", "-")
        return (ended if run.certificate_id is None else NOT_SIGNED,)
    is_weak = worth.issued_tier is VerificationTier.UNVERIFIED and not worth.reasons
    return ("issued-unverified",) if is_weak else worth.reasons
