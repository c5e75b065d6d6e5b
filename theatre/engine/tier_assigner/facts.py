"""What the assigner knows of one run, and of one issued certificate.

Source: docs/contract/scoring.md §7: from stored evidence. There is no score here and no
rate that was rounded: only counts, names and yes or no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, model_validator

from theatre.engine.tier_assigner.policy import VerificationTier
from theatre.engine.tier_assigner.records import Count, Moment, Name, Record

_RATE = re.compile(r"\d{1,400}(?:[./]\d{1,400})?", re.ASCII)
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
    # The pattern keeps exponents out: "1e999999999" would be computed digit by digit.
    rate = Fraction(value) if isinstance(value, str) and _is_rate(value) else value
    if not isinstance(rate, Fraction) or not 0 <= rate <= _HIGHEST_REFUSAL_RATE:
        raise ValueError('expected a rate from 0 to 1/2, as a Fraction or a text such as "0.5"')
    return rate


def _is_rate(text: str) -> bool:
    return bool(_RATE.fullmatch(text)) and not re.search(r"/0+$", text)


Rate = Annotated[Fraction, PlainValidator(_read_rate), PlainSerializer(str, return_type=str)]


def _frozen_by_id(counts: Mapping[str, CriterionCounts]) -> Mapping[str, CriterionCounts]:
    """Return a read-only copy in the order of ids: documents do not keep another order."""
    return MappingProxyType(dict(sorted(counts.items())))


def _plain(counts: Mapping[str, CriterionCounts]) -> dict[str, CriterionCounts]:
    return dict(counts)


CountsByCriterion = Annotated[
    Mapping[Name, CriterionCounts],
    Field(min_length=1),
    AfterValidator(_frozen_by_id),
    PlainSerializer(_plain, return_type=dict[str, CriterionCounts]),
]


def _sorted_by_id(counts: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(sorted(counts.items())))


DistinctByCriterion = Annotated[
    Mapping[Name, Count],
    AfterValidator(_sorted_by_id),
    PlainSerializer(dict, return_type=dict[str, int]),
]


def _frozen_names(names: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(sorted(names.items())))


def _plain_names(names: Mapping[str, str]) -> dict[str, str]:
    return dict(names)


ScorersByCriterion = Annotated[
    Mapping[Name, Name],
    AfterValidator(_frozen_names),
    PlainSerializer(_plain_names, return_type=dict[str, str]),
]


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
    - `unqualified_measures`: criterion → scorer, of each criterion with a weight that words alone
      decide.
    - `missing_pins`: names of absent pins (construct_version, dataset_hash, scorer_version).
    - `version_mismatches`: answers that reported another version than the pin.
    - `determinism_differences`: repeated episodes that were answered differently.
    - `scorers_committed`: the template itself names the scorers.
    - `extra_caps`: codes found elsewhere (`version-unreported`, `gold-unpinned`, …).

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
    unqualified_measures: ScorersByCriterion
    missing_pins: tuple[Name, ...]
    version_mismatches: Count
    determinism_differences: Count
    scorers_committed: bool
    bundle_complete: bool
    commitment_verifiable: bool
    extra_caps: tuple[Name, ...] = ()

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
