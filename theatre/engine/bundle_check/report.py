"""What a check of a bundle says: one line for each id, always the same ids, in a fixed order.

Source: docs/contract/evidence.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from theatre.engine.bundle_check.json_values import (
    Nothing,
    first_difference,
    printable,
    render,
)
from theatre.engine.canonical_json import JsonObject, JsonValue


class CheckStatus(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105  # the word for success, not a secret
    FAIL = "fail"
    UNANCHORED = "unanchored"
    """Nothing inside a bundle could settle it."""
    UNAVAILABLE = "unavailable"
    """A scorer, computation or sanitiser of the recorded version is not installed."""


class Verdict(StrEnum):
    """The result of a whole report; from the least to the most."""

    NOT_VALID = "not valid"
    """A check failed, or could not be made."""
    CONSISTENT = "consistent"
    """Everything inside the bundle follows from the rest of it; no one vouches for it."""
    VALID = "valid"
    """Consistent, and equal to a certificate that the reader kept."""


class CheckId(StrEnum):
    """The checks, in the order of a report; the values are stable."""

    INVENTORY = "inventory"
    SUMS = "sums"
    CANONICAL_FORM = "canonical-form"
    BUNDLE_HASH = "bundle-hash"
    MANIFEST = "manifest"
    CERTIFICATE_SCHEMA = "certificate-schema"
    CERTIFICATE_COPY = "certificate-copy"
    TEMPLATE = "template"
    COMMITMENT = "commitment"
    COIN = "coin"
    DATASETS = "datasets"
    AUDIT_CHAIN = "audit-chain"
    AUDIT_EPISODES = "audit-episodes"
    TIMES = "times"
    INVOCATIONS = "invocations"
    SANITISED_INPUT = "sanitised-input"
    VERSION_PINS = "version-pins"
    SCORERS = "scorers"
    OUTCOMES = "outcomes"
    SCORES = "scores"
    HUMAN_SCORES = "human-scores"
    AGGREGATE = "aggregate"
    RESULTS_HASH = "results-hash"
    DATA_AUDIT = "data-audit"
    BASELINES = "baselines"
    RESOLUTION = "resolution"
    TIER = "tier"
    CERTIFICATE_FIELDS = "certificate-fields"
    ISSUER_IDENTITY = "issuer-identity"
    TIMES_AND_LATENCIES = "times-and-latencies"
    HISTORY = "history"


_REQUIREMENTS = {
    CheckId.INVENTORY: "exactly the files that the evidence calls for, as the manifest lists them",
    CheckId.SUMS: "SHA256SUMS with the right digest for every file it has to list, sorted",
    CheckId.CANONICAL_FORM: "RFC 8785 bytes and a line feed in every JSON document and line",
    CheckId.BUNDLE_HASH: "the SHA-256 of SHA256SUMS in manifest and certificate",
    CheckId.MANIFEST: "manifest fields that follow from the bundle",
    CheckId.CERTIFICATE_SCHEMA: "a certificate that fits its schema",
    CheckId.CERTIFICATE_COPY: "the certificate that was issued",
    CheckId.TEMPLATE: "a valid template that equals the receipt's snapshot",
    CheckId.COMMITMENT: "one commitment hash, recomputed, wherever it is named",
    CheckId.COIN: "32 bytes in coin.txt whose SHA-256 receipt and certificate name",
    CheckId.DATASETS: "the committed ground truth, readable",
    CheckId.AUDIT_CHAIN: "an unbroken chain along the lifecycle up to the sealing",
    CheckId.AUDIT_EPISODES: "each invocation record in one audited batch with its digest",
    CheckId.TIMES: "commitment, calls, answers and sealing in that order, none of them to come",
    CheckId.INVOCATIONS: "the committed calls, one record for each episode that was run",
    CheckId.SANITISED_INPUT: "each input as the recorded sanitiser makes it of the dataset's",
    CheckId.VERSION_PINS: "the pinned construct version in every accepted answer",
    CheckId.SCORERS: "the pinned scorers, installed",
    CheckId.OUTCOMES: "each outcome as its recorded answer has it",
    CheckId.SCORES: "scores/per_episode.jsonl as recomputed, byte for byte",
    CheckId.HUMAN_SCORES: "people asked as committed, and each score as the trail has it",
    CheckId.AGGREGATE: "scores/aggregate.json as recomputed, interval bounds within 2e-6",
    CheckId.RESULTS_HASH: "the SHA-256 of the score files in aggregate and certificate",
    CheckId.DATA_AUDIT: "scores/data_audit.json as counted again",
    CheckId.BASELINES: "scores/baselines.json as scored again, interval bounds within 2e-6",
    CheckId.RESOLUTION: "each step of the committed programme with what it came to",
    CheckId.TIER: "tier, unmet requirements and expiry that follow from the evidence",
    CheckId.CERTIFICATE_FIELDS: "certificate fields that follow from the evidence",
    CheckId.ISSUER_IDENTITY: "who made the bundle",
    CheckId.TIMES_AND_LATENCIES: "when it happened and how long it took",
    CheckId.HISTORY: "all runs, telemetry, attestations, disputes and signals there were",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a report; `expected` and `actual` are printable and short."""

    id: str
    status: CheckStatus
    expected: str
    actual: str

    @property
    def ok(self) -> bool | None:
        """Return True for pass, None for unanchored, False for everything else."""
        if self.status is CheckStatus.UNANCHORED:
            return None
        return self.status is CheckStatus.PASS

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        return {
            "id": self.id,
            "ok": self.ok,
            "status": self.status.value,
            "expected": self.expected,
            "actual": self.actual,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Every check of one bundle, in the order of `CheckId`.

    `outside` names the facts outside the bundle that its tier rests on, if there are any.
    """

    checks: tuple[Check, ...]
    outside: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the one word for the whole."""
        if not self.consistent:
            return Verdict.NOT_VALID
        kept = any(
            check.id == CheckId.CERTIFICATE_COPY and check.status is CheckStatus.PASS
            for check in self.checks
        )
        return Verdict.VALID if kept and self.outside is None else Verdict.CONSISTENT

    @property
    def because(self) -> str:
        """Return why the verdict is neither a lesser nor a greater one, in a few words."""
        if self.verdict is Verdict.VALID:
            return "equal to the certificate you gave"
        if self.verdict is Verdict.CONSISTENT:
            return self.outside or "no one vouches for it"
        return f"{len(self.failed)} failed, {len(self.unavailable)} could not be made"

    @property
    def consistent(self) -> bool:
        """Return whether nothing failed and nothing was unavailable."""
        return not self.failed and not self.unavailable

    @property
    def valid(self) -> bool:
        """Return whether the verdict is `valid` or better."""
        return self.verdict is Verdict.VALID

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the checks that failed."""
        return self._with(CheckStatus.FAIL)

    @property
    def unavailable(self) -> tuple[Check, ...]:
        """Return the checks that could not be made for want of something installed."""
        return self._with(CheckStatus.UNAVAILABLE)

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        return {
            "verdict": self.verdict.value,
            "valid": self.valid,
            "checks": [check.as_document() for check in self.checks],
        }

    def _with(self, status: CheckStatus) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status is status)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something could not be computed: a defect, or code that is not installed."""

    text: str
    unavailable: bool = False


class Ledger:
    """Takes what every check finds. A check that was not completed has failed: none is silent."""

    def __init__(self) -> None:
        self._first: dict[CheckId, tuple[str, str]] = {}
        self._problems: dict[CheckId, int] = {}
        self._completed: dict[CheckId, tuple[CheckStatus, str]] = {}
        self._outside: str | None = None

    def wrong(self, check: CheckId, expected: str, actual: str) -> None:
        """Note that `check` found `actual` instead of `expected`."""
        self._first.setdefault(check, (expected, actual))
        self._problems[check] = self._problems.get(check, 0) + 1

    def compare(
        self,
        check: CheckId,
        what: str,
        expected: JsonValue | Nothing,
        actual: JsonValue | Nothing,
    ) -> None:
        """Note a difference in `what`; two gaps differ too: nothing proves nothing."""
        found = first_difference(expected, actual)
        if found is not None:
            wanted = f"{what}{found.pointer} {render(found.expected)}"
            if isinstance(expected, Nothing):
                wanted = f"{what} from a part of the bundle that cannot be read"
            self.wrong(check, wanted, render(found.actual))

    def cannot(self, check: CheckId, cause: Cause) -> None:
        """Note that `check` could not be computed."""
        if cause.unavailable:
            self._completed[check] = (CheckStatus.UNAVAILABLE, cause.text)
        else:
            self.wrong(check, _REQUIREMENTS[check], f"not computed because {cause.text}")

    def completed(self, check: CheckId, summary: str) -> None:
        """Note that `check` was made to its end; it passed unless something was wrong."""
        self._completed.setdefault(check, (CheckStatus.PASS, summary))

    def unanchored(self, check: CheckId, seen: str) -> None:
        """Note that nothing in the bundle could settle `check`."""
        self._completed[check] = (CheckStatus.UNANCHORED, seen)

    def depends_on_outside(self, facts: str) -> None:
        """Note that the tier rests on `facts` that nothing in the bundle can settle."""
        self._outside = facts

    def passed(self, check: CheckId) -> bool:
        """Return whether `check` was completed and found nothing."""
        return self._line(check).status is CheckStatus.PASS

    def report(self) -> CheckReport:
        """Return every check, in order."""
        lines = tuple(self._line(check) for check in CheckId)
        return CheckReport(checks=lines, outside=self._outside)

    def _line(self, check: CheckId) -> Check:
        expected, actual = _REQUIREMENTS[check], "not computed"
        status = CheckStatus.FAIL
        if check in self._first:
            expected, actual = self._first[check]
            more = self._problems[check] - 1
            actual += f" (and {more} more)" if more else ""
        elif check in self._completed:
            status, actual = self._completed[check]
        return Check(
            id=check.value, status=status, expected=printable(expected), actual=printable(actual)
        )
