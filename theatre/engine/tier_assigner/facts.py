"""What the assigner knows: of one run, of one issued certificate, of what happened around them.

Source: docs/contract/scoring.md §7: from stored evidence. There is no score here and no
rate that was rounded: only counts, names and yes or no. All are in one module because all are one
form (`Record`), checked alike.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    model_validator,
)

from theatre.engine.canonical_json import (
    MAX_SAFE_INTEGER,
    JsonObject,
    JsonValue,
    canonical_bytes,
    json_type,
)
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ClockError, TierRecordError
from theatre.engine.schema_registry import model_message

# Tier policy v0: the tiers and every number that decides between them.
#
# Source: docs/contract/scoring.md §7. These are policy, versioned in code, not settings:
# two readers of the same evidence must come to the same tier.


MIN_REPLAYS = 50
"""Scored episodes that BACKTESTED needs."""

MAX_FAILURE_RATE = Fraction(1, 5)
"""Share of the episodes run that may fail; exactly this much is allowed."""

# Fifty scored episodes are not enough where a criterion applies to three of them.
MIN_CRITERION_N = 30
"""Counted episodes (scored and missing) that BACKTESTED needs on every criterion."""

MIN_RUNS = 3
"""Runs of one construct version that PROVEN needs, the one being issued included."""

MIN_RUNS_SPAN = timedelta(days=90)
"""Time from the first to the newest of those runs."""

# Two runs on one day and a third after a quarter would span 90 days and show nothing in between.
MAX_RUN_GAP = timedelta(days=45)
"""Time between neighbouring runs; exactly this much is allowed."""

CLOCKS_APART = timedelta(minutes=5)
"""How far the clocks of who issues and who reads may differ; the check allows as much."""
BACKTESTED_LIFETIME = timedelta(days=90)
PROVEN_LIFETIME = timedelta(days=180)
"""Also how long a telemetry window stands for production use, from its end."""


class VerificationTier(StrEnum):
    """How well a claim is evidenced, lowest first. It says nothing about how good it is.

    Compare by identity: as text, BACKTESTED sorts before UNVERIFIED.
    """

    UNVERIFIED = "UNVERIFIED"
    BACKTESTED = "BACKTESTED"
    PROVEN = "PROVEN"


# What all records that the assigner reads have in common: frozen, strict, JSON and back.


_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_MESSAGE = 1500


def utc_moment(moment: datetime) -> datetime:
    """Return `moment` in UTC.

    Raises ClockError for a naive time, and outside 1970 … 9998: beyond, a tier's lifetime
    could not be added.
    """
    if moment.tzinfo is None:
        raise ClockError(f"expected a timezone-aware time, got the naive {moment.isoformat()}")
    if not _EARLIEST <= moment < _LATEST:
        raise ClockError(f"expected a time in 1970 … 9998, got {moment.isoformat()}")
    return moment.astimezone(UTC)


def _read_moment(value: object) -> object:
    """Take a datetime or its RFC 3339 text; other types are left for pydantic to refuse."""
    try:
        moment = parse_rfc3339(value) if isinstance(value, str) else value
        return utc_moment(moment) if isinstance(moment, datetime) else moment
    except ClockError as error:
        # ValueError is what pydantic collects, with the place in the document.
        raise ValueError(str(error)) from error


Moment = Annotated[
    datetime, BeforeValidator(_read_moment), PlainSerializer(format_rfc3339, return_type=str)
]
Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Record(BaseModel):
    """A frozen value without defaults for what is measured; unknown members are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    def as_document(self) -> JsonObject:
        """Return the JSON form; times are RFC 3339 UTC with microseconds."""
        return self.model_dump(mode="json")

    @classmethod
    def from_document(cls, document: JsonValue) -> Self:
        """Read `as_document`'s form back; the result equals the original.

        Raises TierRecordError, naming every place, for unknown or missing members, wrong
        types, and values that contradict each other.
        """
        try:
            return cls.model_validate_json(canonical_bytes(document))
        except ValidationError as error:
            # Place, rule and JSON type of each violation, never the value itself.
            listed = "; ".join(
                f"/{'/'.join(str(part) for part in violation['loc'])}: {model_message(violation)} "
                f"(got {json_type(violation['input'])})"
                for violation in error.errors(include_url=False, include_context=False)
            )
            raise TierRecordError(
                f"expected a {cls.__name__} document, got: {listed[:_MAX_MESSAGE]}"
            ) from error


# No denominator of zeros, and no exponents: "1e999999999" would be computed digit by digit.
_RATE = re.compile(r"\d{1,400}(?:\.\d{1,400}|/(?!0+$)\d{1,400})?", re.ASCII)
_HIGHEST_REFUSAL_RATE = Fraction(1, 2)


class CriterionCounts(Record):
    """One criterion's `score_counts`: how many episodes ended how."""

    scored: Count
    missing: Count
    not_applicable: Count
    declined: Count
    unscored: Count

    @property
    def counted(self) -> int:
        """Return n: the episodes in the criterion's mean."""
        return self.scored + self.missing

    @property
    def applicable(self) -> int:
        """Return the episodes that asked for the criterion, answered or not."""
        return self.counted + self.declined + self.unscored


def _read_rate(value: object) -> Fraction:
    """Take a Fraction, a decimal or a ratio: "1/2" and "0.5" are the same rate."""
    rate = Fraction(value) if isinstance(value, str) and _RATE.fullmatch(value) else value
    if not isinstance(rate, Fraction) or not 0 <= rate <= _HIGHEST_REFUSAL_RATE:
        raise ValueError('expected a rate from 0 to 1/2, as a Fraction or a text such as "0.5"')
    return rate


Rate = Annotated[Fraction, PlainValidator(_read_rate), PlainSerializer(str, return_type=str)]


_Value = TypeVar("_Value")


def _frozen_by_id(values: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """Return a read-only copy in the order of ids: documents do not keep another order."""
    return MappingProxyType(dict(sorted(values.items())))


CountsByCriterion = Annotated[
    Mapping[Name, CriterionCounts],
    Field(min_length=1),
    AfterValidator(_frozen_by_id),
    PlainSerializer(dict, return_type=dict[str, CriterionCounts]),
]
DistinctByCriterion = Annotated[
    Mapping[Name, Count],
    AfterValidator(_frozen_by_id),
    PlainSerializer(dict, return_type=dict[str, int]),
]


ReasonsByCriterion = Annotated[
    Mapping[Name, Name],
    AfterValidator(_frozen_by_id),
    PlainSerializer(dict, return_type=dict[str, str]),
]


class AnswerCounts(Record):
    """Where episodes are asked more than once: answers asked for, failed and refused."""

    asked: Count
    failed: Count
    refused: Count


class TierFacts(Record):
    """Everything about a run that its tier depends on; `tier.json` holds all of it.

    - `construct_version`: the committed pin, None where there is none.
    - `rehearsal`: canned answers took part. `adapter_pin`: `name@version`.
    - `replay_count`: episodes with at least one score; `failures`: outcome missing;
      `refusals`: outcome excluded; `run`: `total` without the episodes that were not run.
    - `max_refusal_rate`: as committed, exactly; 0 to 1/2.
    - `criterion_counts`: one entry for every committed criterion, by id.
    - `distinct_inputs`: different inputs among the scored episodes; `criterion_distinct_inputs`:
      among those that count in each criterion's mean, by id.
    - `unqualified_measures`: criterion → why, of each criterion with a weight that a measure
      decides whose worth nothing shows.
    - `missing_pins`: names of absent pins (construct_version, dataset_hash, scorer_version).
    - `version_mismatches`: answers that reported another version than the pin.
    - `determinism_differences`: repeated episodes that were answered differently.
    - `scorers_committed`: the template itself names the scorers.
    - `extra_caps`: codes found elsewhere (`version-unreported`, `gold-unpinned`, …).
    - `answers`: counts of answers, None where each episode was asked once. The rates are theirs
      then: an episode with one success among many failures would hide them.

    Wrong values are a ValidationError here and a TierRecordError in `from_document`.
    """

    construct_id: Name
    construct_version: Name | None
    adapter_pin: Name
    rehearsal: bool
    replay_count: Count
    failures: Count
    refusals: Count
    run: Count
    total: Count
    max_refusal_rate: Rate
    criterion_counts: CountsByCriterion
    distinct_inputs: Count
    criterion_distinct_inputs: DistinctByCriterion
    unqualified_measures: ReasonsByCriterion
    missing_pins: tuple[Name, ...]
    version_mismatches: Count
    determinism_differences: Count
    scorers_committed: bool
    bundle_complete: bool
    commitment_verifiable: bool
    extra_caps: tuple[Name, ...] = ()
    answers: AnswerCounts | None = None

    def as_document(self) -> JsonObject:
        """Return the JSON form; `answers` is left out where there are none."""
        return self.model_dump(mode="json", exclude={"answers"} if self.answers is None else None)

    @property
    def rated(self) -> AnswerCounts:
        """Return what failures and refusals are shares of: episodes that were run, or answers."""
        by_episode = AnswerCounts(asked=self.run, failed=self.failures, refused=self.refusals)
        return self.answers or by_episode

    @model_validator(mode="after")
    def _episodes_add_up(self) -> Self:
        if self.criterion_distinct_inputs.keys() != self.criterion_counts.keys():
            raise ValueError("expected criterion_distinct_inputs of the same criteria")
        ended = self.replay_count + self.failures + self.refusals
        if not ended <= self.run <= self.total:
            raise ValueError(
                "expected replay_count + failures + refusals ≤ run ≤ total, "
                f"got {ended}, {self.run}, {self.total}"
            )
        return self


class IssuedCertificateFacts(Record):
    """What reading an issued certificate's tier needs of it; the certificate never changes."""

    construct_id: Name
    construct_version: Name
    tier: VerificationTier
    issued_at: Moment
    resolved_at: Moment


# What happened around a construct outside the run at hand.
#
# Runs, telemetry and signals name the construct version they are about, attestations the results
# they reproduced, so the assigner itself picks what counts. Disputes do not: the caller that
# collects the history includes those that concern the certificate at hand (when issuing: the
# construct), and every one of them counts.


class RunRecord(Record):
    """A theatre that resolved with a certificate; `tier` is the issued one."""

    theatre_id: Uuid
    construct_id: Name
    construct_version: Name
    tier: VerificationTier
    resolved_at: Moment
    results_hash: Sha256


class TelemetryWindow(Record):
    """Production use of one construct version from `start` to `end`, confirmed afterwards."""

    construct_id: Name
    construct_version: Name
    start: Moment
    end: Moment
    confirmed_at: Moment

    @model_validator(mode="after")
    def _is_a_window_of_the_past(self) -> Self:
        # A window that ends after its confirmation would prolong a tier ahead of the evidence.
        if not self.start < self.end <= self.confirmed_at:
            raise ValueError("expected start < end ≤ confirmed_at")
        return self


class Attestation(Record):
    """A second party ran it again; `results_hash` is what **their** run came to."""

    attester: Name
    independent: bool
    results_hash: Sha256
    at: Moment


class DisputeStatus(StrEnum):
    """Where a dispute stands. Only an admitted one lowers a tier; a filed one is shown."""

    FILED = "filed"
    ADMITTED = "admitted"
    RESOLVED = "resolved"


class Dispute(Record):
    """An objection; `at` is when it came to its present status."""

    dispute_id: Name
    status: DisputeStatus
    at: Moment


class BehaviouralSignal(Record):
    """Does the construct perform in production as it was verified? One source's word."""

    source: Name
    construct_id: Name
    construct_version: Name
    consistent: bool
    at: Moment


class TierHistory(Record):
    """All of it, in any order; empty where nothing is known. No fact is in it twice."""

    runs: tuple[RunRecord, ...] = ()
    telemetry: tuple[TelemetryWindow, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    disputes: tuple[Dispute, ...] = ()
    signals: tuple[BehaviouralSignal, ...] = ()

    @model_validator(mode="after")
    def _require_unique(self) -> Self:
        # One run that is listed three times would count as three runs to PROVEN.
        listed: dict[str, Sequence[Hashable]] = {
            "runs with a theatre_id each": [run.theatre_id for run in self.runs],
            "disputes with a dispute_id each": [item.dispute_id for item in self.disputes],
            "telemetry without copies": self.telemetry,
            "attestations without copies": self.attestations,
            "signals without copies": self.signals,
        }
        for expected, items in listed.items():
            if len(set(items)) < len(items):
                raise ValueError(f"expected {expected}")
        return self

    def excluding(self, theatre_id: str) -> "TierHistory":
        """Return the history without the run of that theatre: it is not its own past."""
        return self.model_copy(
            update={"runs": tuple(run for run in self.runs if run.theatre_id != theatre_id)}
        )

    def as_of(self, moment: datetime) -> "TierHistory":
        """Return what was known at `moment`, inclusive.

        A dispute that comes later counts when the certificate is read.
        """
        return TierHistory(
            runs=tuple(run for run in self.runs if run.resolved_at <= moment),
            telemetry=tuple(item for item in self.telemetry if item.confirmed_at <= moment),
            attestations=tuple(item for item in self.attestations if item.at <= moment),
            disputes=tuple(item for item in self.disputes if item.at <= moment),
            signals=tuple(item for item in self.signals if item.at <= moment),
        )

    def about(self, construct_id: str, construct_version: str | None) -> "TierHistory":
        """Return what is about one construct version; disputes and attestations stay, all."""
        subject = (construct_id, construct_version)

        def is_about(record: RunRecord | TelemetryWindow | BehaviouralSignal) -> bool:
            return (record.construct_id, record.construct_version) == subject

        return self.model_copy(
            update={
                "runs": tuple(filter(is_about, self.runs)),
                "telemetry": tuple(filter(is_about, self.telemetry)),
                "signals": tuple(filter(is_about, self.signals)),
            }
        )

    def disputes_with_status(self, status: DisputeStatus) -> tuple[str, ...]:
        """Return the ids of the disputes in `status`, sorted."""
        return tuple(sorted(item.dispute_id for item in self.disputes if item.status is status))
