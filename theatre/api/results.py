"""What a run comes to, as values: scores with their intervals, episodes, the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from theatre.api.errors import UsageError
from theatre.api.named_files import read_file
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.schema_registry.violations import SchemaViolation

_COMPOSITE = "composite_score"
"""The member of a certificate; here the name is `composite`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a criterion, 0 to 1, or of the composite, with its 95 % interval.

    `value` is None where nothing was scored, `low` and `high` where the interval is undefined: no
    bound is then reached. `n` are the episodes behind it, `missing` those of them without an
    answer, which count 0; of the composite, those of the run.
    """

    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    missing: int

    def __str__(self) -> str:
        """Return it for a person: ``0.860 [0.731, 0.934], n 50``."""
        shown = "-" if self.value is None else f"{self.value:.3f}"
        if self.low is None or self.high is None:
            return f"{shown} [no interval], n {self.n}"
        return f"{shown} [{self.low:.3f}, {self.high:.3f}], n {self.n}"


def read_scores(document: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores of a certificate, or of the aggregate of a rehearsal.

    The composite goes by the name `composite`.
    """
    counts = {**document["score_counts"]}
    of_run = document["episode_counts"]
    counts[_COMPOSITE] = {
        "scored": of_run["scored"],
        "missing": of_run["timeout"] + of_run["error"],
    }
    # A rehearsal's report has the composite among the scores.
    values = {**document["scores"]}
    values.setdefault(_COMPOSITE, document.get(_COMPOSITE))
    scores = {}
    for name, value in values.items():
        interval, count = document["score_intervals"][name], counts[name]
        scores["composite" if name == _COMPOSITE else name] = Score(
            value=value,
            low=interval["low"],
            high=interval["high"],
            method=interval["method"],
            n=count["scored"] + count["missing"],
            missing=count["missing"],
        )
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A calibration certificate as it was issued; `document` has every member of it.

    That it was earned is not checked here: `check` does, on its bundle.
    """

    document: JsonObject = field(repr=False)
    certificate_id: str
    construct_id: str
    construct_version: str
    commitment_hash: str
    results_hash: str
    tier: str
    caps: tuple[str, ...]
    findings: tuple[str, ...]
    issued_at: str
    expires_at: str | None
    scores: Mapping[str, Score]

    @classmethod
    def read(cls, path: str | Path) -> Certificate:
        """Read a bundle's folder, or a certificate's file.

        Raises NotFoundError where there is none, ParseError and UsageError for another document.
        """
        place = Path(path)
        file = place / "certificate.json" if place.is_dir() else place
        return cls.from_document(parse_object(read_file(file, what="a certificate")))

    @classmethod
    def from_document(cls, document: JsonObject) -> Certificate:
        """Take a certificate as parsed JSON; UsageError for another document."""
        members: dict[str, Any] = document
        try:
            return cls(
                document=document,
                certificate_id=members["certificate_id"],
                construct_id=members["construct_id"],
                construct_version=members["construct_version"],
                commitment_hash=members["commitment_hash"],
                results_hash=members["results_hash"],
                tier=members["verification_tier"],
                caps=tuple(members["caps"]),
                findings=tuple(members["findings"]),
                issued_at=members["issued_at"],
                expires_at=members["expires_at"],
                scores=read_scores(members),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"expected a calibration certificate, got a document without {error}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One recorded episode: what was asked, answered and expected, and what it scored.

    `outcome` is `scored`, `missing` (no answer: counts 0), `excluded` (declined), `unscored` or
    `not_run`. `answers` are those of each construct that succeeded, `scores` by criterion, None
    where a criterion does not apply; while people are still to score, `scores` is empty and
    `expected` None. `error` says why there is no score: a code and, behind a colon, its detail.
    """

    seq: int
    episode_id: str
    outcome: str
    input_data: JsonObject | None
    answers: Mapping[str, JsonObject]
    expected: JsonObject | None
    scores: Mapping[str, float | None]
    composite: float | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """All findings on a template, each with `pointer` (of JSON), `rule` and `detail`.

    `evidence` is null where its data are not at hand. It counts how many questions differ and give
    an answer away, what answers without any work would score, and the codes that would cap the
    tier.
    """

    errors: tuple[SchemaViolation, ...]
    warnings: tuple[SchemaViolation, ...]
    evidence: JsonObject | None

    @property
    def valid(self) -> bool:
        """Return whether the template breaks no rule."""
        return not self.errors

    def as_document(self) -> JsonObject:
        """Return what `echelon theatre validate --json` prints."""
        return {
            "valid": self.valid,
            "errors": [one.as_document() for one in self.errors],
            "warnings": [one.as_document() for one in self.warnings],
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run, or a rehearsal, came to.

    `report` is what `echelon theatre run --json` prints of it. `outcome` is `certified`,
    `no_certificate`, `failed`, `void`, `pending` (people are to score), `rehearsed`, or None for
    one that is not at its end; `reason` is its stable code, if there is one. `tier`, `caps` and
    `findings` of a rehearsal are those that a run would get, without those of steps and ratings.
    `scores` are empty where nothing was settled.
    """

    report: JsonObject = field(repr=False)
    theatre_id: str | None
    outcome: str | None
    reason: str | None
    tier: str | None
    caps: tuple[str, ...]
    findings: tuple[str, ...]
    scores: Mapping[str, Score]
    certificate: Certificate | None
    bundle: Path | None
    _read: Callable[[], Iterator[Episode]] = field(repr=False)

    def episodes(self) -> Iterator[Episode]:
        """Yield the recorded episodes, in dataset order; each call reads them again."""
        return self._read()

    @classmethod
    def rehearsed(cls, report: JsonObject, episodes: Sequence[Episode]) -> Run:
        """Return a rehearsal by its report, as `rehearse_document`, and what was recorded."""
        return cls(
            report=report,
            theatre_id=None,
            outcome="rehearsed",
            reason=None,
            tier=cast("str", report["would_be_tier"]),
            caps=tuple(cast("list[str]", report["caps"])),
            findings=tuple(cast("list[str]", report["findings"])),
            scores=read_scores(report),
            certificate=None,
            bundle=None,
            _read=partial(iter, episodes),
        )

    @classmethod
    def settled(cls, report: JsonObject, read: Callable[[], Iterator[Episode]]) -> Run:
        """Return the run of a theatre by its report, as `run_report`."""
        place = cast("str | None", report["bundle_path"])
        certificate = None if place is None else Certificate.read(place)
        return cls(
            report=report,
            theatre_id=cast("str", report["theatre_id"]),
            outcome=cast("str | None", report["outcome"]),
            reason=cast("str | None", report["outcome_reason"]),
            tier=None if certificate is None else certificate.tier,
            caps=() if certificate is None else certificate.caps,
            findings=() if certificate is None else certificate.findings,
            scores={} if certificate is None else certificate.scores,
            certificate=certificate,
            bundle=None if place is None else Path(place),
            _read=read,
        )
