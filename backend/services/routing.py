"""How far a construct is trusted now (docs/contract/service.md §2).

Only runs without objections count (`counted_runs`). The newest of them decides, however it ended:
neither the best run nor the last certified one.
"""

from dataclasses import dataclass
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
from backend.services.certificates import effective_tier
from backend.services.newest_used import NewestUsed
from backend.services.resources import TheatreResources
from backend.services.transparency.publication import construct_record
from theatre.engine.constraint_gate import Review, effective_review
from theatre.engine.tier_assigner import EffectiveTier, VerificationTier
from theatre.pages.wording import NOT_SIGNED
from theatre.transparency.record import RunCounts

VALID_FOR = timedelta(seconds=60)
_AT_MOST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingAnswer:
    """A tier, why it is that one, and until when the answer may be used."""

    tier: VerificationTier
    reasons: tuple[str, ...]
    construct_version: str | None
    certificate_id: str | None
    findings: tuple[str, ...]
    """Of that certificate, as it was signed."""
    run_by: str | None
    review: Review
    valid_until: datetime
    record: RunCounts
    """What came of the logged runs of that version, or of all, by any user."""


async def route(
    connection: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None,
    declared_review: str | None,
    resources: TheatreResources,
    records: "RunRecords",
    now: datetime,
) -> RoutingAnswer:
    """Return how far a construct is trusted at `now`. Never raises for an unknown one."""
    accepted = resources.accepted_templates.content_hashes
    run = await find_newest_run(
        connection, construct_id, construct_version=construct_version, accepted=accepted
    )
    if run is None:
        own = await find_runs_of_owner(connection, construct_id, accepted=accepted)
        named = RecordKey(construct_id, construct_version, own.log_end)
        record = await records.read(connection, named, now=now)
        why = (_why_no_run(own),)
        return _answer(construct_version, None, _NOTHING, why, declared_review, record, now)
    named = RecordKey(construct_id, run.construct_version, run.log_end)
    record = await records.read(connection, named, now=now)
    worth = await _evaluate_run(connection, run, resources, now)
    return _answer(run.construct_version, run, worth, (), declared_review, record, now)


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


_Worth = tuple[EffectiveTier | None, tuple[str, ...]]
"""What a certificate is worth, None without one, and its findings."""
_NOTHING: _Worth = None, ()


async def _evaluate_run(
    connection: AsyncConnection, run: CountedRun, resources: TheatreResources, now: datetime
) -> _Worth:
    if run.stored is None:
        return _NOTHING
    (signature,) = await resources.signatures.verify(connection, [run.stored])
    return effective_tier(run.stored, signature, objections=(), now=now), signature.findings


def _answer(
    construct_version: str | None,
    run: CountedRun | None,
    worth_and_findings: _Worth,
    reasons: tuple[str, ...],
    declared_review: str | None,
    record: RunCounts,
    now: datetime,
) -> RoutingAnswer:
    worth, findings = worth_and_findings
    tier = VerificationTier.UNVERIFIED if worth is None else worth.tier
    if run is not None and worth is None:
        ended = f"newest-run-{run.outcome or 'lost'}".replace("_", "-")
        reasons = (ended if run.certificate_id is None else NOT_SIGNED,)
    elif worth is not None:
        is_weak = worth.issued_tier is VerificationTier.UNVERIFIED and not worth.reasons
        reasons = ("issued-unverified",) if is_weak else worth.reasons
    expires_at = run.stored.expires_at if run is not None and run.stored is not None else None
    until = now + VALID_FOR
    return RoutingAnswer(
        tier=tier,
        reasons=reasons,
        construct_version=construct_version,
        certificate_id=None if run is None else run.certificate_id,
        findings=findings,
        run_by=None if run is None else run.run_by,
        review=effective_review(tier.value, declared_review),
        record=record,
        valid_until=min(until, expires_at) if expires_at and expires_at > now else until,
    )
