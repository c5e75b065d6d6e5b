"""What a check of a bundle says: one line for each id, always the same ids, in a fixed order.

Source: docs/contract/evidence.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple, TypeGuard

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json, json_type
from theatre.engine.canonical_json.writing import are_spelt_alike
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError, TheatreError

SHA256 = re.compile("[0-9a-f]{64}")

MAX_SHOWN = 100
"""The most characters of a value that a report repeats."""

_MAX_TEXT = 500


class Nothing(Enum):
    """What a lookup finds where there is nothing; null is a value, this is not."""

    NOTHING = b"nothing"  # which no writer of JSON takes for a text


NOTHING: Final = Nothing.NOTHING


class DefectError(TheatreError):
    """Part of a bundle is not as specified; caught by the check that looked at it."""

    code = "bundle-defect"

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}, got {actual}")
        self.expected = expected
        self.actual = actual


class Difference(NamedTuple):
    """The first place (JSON Pointer) at which two values differ."""

    pointer: str
    expected: JsonValue | Nothing
    actual: JsonValue | Nothing


def at(value: JsonValue | Nothing, *keys: str | int) -> JsonValue | Nothing:
    """Return what lies below `value` at member names and array indices, or NOTHING."""
    current: Any = value
    try:
        for key in keys:
            if isinstance(current, str):  # of which an index would find a character
                return NOTHING
            current = current[key]
    except (KeyError, IndexError, TypeError):
        return NOTHING
    found: JsonValue = current
    return found


_SCALARS = frozenset({str, int, float, bool, type(None)})


def same_json(one: JsonValue | Nothing, other: JsonValue | Nothing) -> bool:
    """Return whether two values are the same JSON value; NOTHING is the same as nothing at all."""
    kind = type(one)
    if kind is type(other) and kind in _SCALARS:
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return are_spelt_alike(one, other) or (
            one.keys() == other.keys()
            and all(same_json(item, other[name]) for name, item in one.items())
        )
    if isinstance(one, list) and isinstance(other, list):
        return are_spelt_alike(one, other) or (
            len(one) == len(other) and all(map(same_json, one, other))
        )
    return is_number(one) and is_number(other) and one == other


def first_difference(
    expected: JsonValue | Nothing, actual: JsonValue | Nothing
) -> Difference | None:
    """Return the first place at which `actual` is not `expected`; None where they are the same."""
    if same_json(expected, actual):
        return None
    keys: Iterable[str | int] = ()
    if isinstance(expected, dict) and isinstance(actual, dict):
        keys = sorted(expected.keys() | actual.keys())
    if isinstance(expected, list) and isinstance(actual, list):
        keys = range(max(len(expected), len(actual)))
    for key in keys:
        one, other = at(expected, key), at(actual, key)
        if not same_json(one, other):
            inner = first_difference(one, other) or Difference("", one, other)
            return Difference(f"/{key}{inner.pointer}", inner.expected, inner.actual)
    return Difference("", expected, actual)


def require_members(value: JsonValue | Nothing, names: frozenset[str], what: str) -> None:
    """Raise DefectError unless `value` is an object with exactly the members `names`."""
    if not isinstance(value, dict):
        raise DefectError(f"{what} as an object", render(value))
    if value.keys() != names:
        odd = ", ".join(sorted(value.keys() ^ names))
        raise DefectError(f"{what} with exactly {', '.join(sorted(names))}", f"a difference: {odd}")


def require_same(what: str, expected: JsonValue | Nothing, actual: JsonValue | Nothing) -> None:
    """Raise DefectError, with the place, unless `actual` is the same JSON value as `expected`."""
    if same_json(expected, actual):
        return
    found = first_difference(expected, actual) or Difference("", expected, actual)
    place = f"{what}{found.pointer}"
    raise DefectError(f"{place} {render(found.expected)}", render(found.actual))


def require_time(value: JsonValue | Nothing, what: str) -> str:
    """Return `value`. Raises DefectError unless it is an RFC 3339 time in UTC."""
    text = value if isinstance(value, str) else ""
    try:
        parse_rfc3339(text)
    except ClockError as error:
        raise DefectError(f"{what} as an RFC 3339 time in UTC", render(value)) from error
    return text


def is_whole(value: JsonValue | Nothing) -> TypeGuard[int]:
    """Return whether `value` is an integer (no boolean, no fraction)."""
    return isinstance(value, int) and not isinstance(value, bool)


def render(value: JsonValue | Nothing) -> str:
    """Return `value` for a report: its canonical text, cut."""
    if isinstance(value, Nothing):
        return "nothing"
    if isinstance(value, (dict, list)) and len(value) > MAX_SHOWN:
        return f"an {json_type(value)} of {len(value)}"
    text = canonical_json(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def printable(text: str) -> str:
    """Return `text` on one line, without control characters and half surrogates, cut."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(plain) > _MAX_TEXT:
        plain = f"{plain[:_MAX_TEXT]}… (cut)"
    if plain.isprintable():
        return plain
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in plain
    )


def text_members(value: JsonValue | Nothing) -> Mapping[str, str]:
    """Return the members of an object that are text; empty where it is no object."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def is_number(value: JsonValue | Nothing) -> TypeGuard[int | float]:
    """Return whether `value` is a number (no boolean)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class CheckStatus(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105  # the word for success, not a secret
    FAIL = "fail"
    UNANCHORED = "unanchored"
    """Nothing inside a bundle could settle it."""
    UNAVAILABLE = "unavailable"
    """A scorer, computation or sanitiser of the recorded version is not installed."""
    WITHHELD = "withheld"
    """What is open holds; the rest stays with the issuer, and no reader can compute it."""


class Verdict(StrEnum):
    """The result of a whole report; from the least to the most."""

    NOT_VALID = "not valid"
    """A check failed, or could not be made."""
    CONSISTENT = "consistent"
    """Everything inside the bundle follows from the rest of it; no one vouches for it."""
    VALID = "valid"
    """Consistent, and equal to a certificate that the reader kept, or signed by a trusted key."""
    LOGGED = "valid, logged"
    """Signed, with commitment and certificate in a log that the reader trusts, in that order."""


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


class Check(NamedTuple):
    """One line of a report; `expected` and `actual` are printable and short."""

    id: str
    status: CheckStatus
    expected: str
    actual: str

    @property
    def ok(self) -> bool | None:
        """Return True for pass, None where it is not settled, False for everything else."""
        if self.status in {CheckStatus.UNANCHORED, CheckStatus.WITHHELD}:
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


class CheckReport(NamedTuple):
    """Every check of one bundle, in the order of `CheckId`, and behind them those of its proofs.

    `outside` names the facts outside the bundle that its tier rests on, if there are any.
    `signed_by` says in words which key that the reader trusts signed the certificate, if one did;
    `logged`, whether a log that he trusts has commitment and certificate, too. Both are found by
    what stands above the engine (docs/contract/trust.md §1). `certificate` is the one that was
    checked, if there was one: what lies in the folder by now may be another.
    """

    checks: tuple[Check, ...]
    outside: str | None = None
    signed_by: str | None = None
    logged: bool = False
    certificate: JsonObject | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the one word for the whole."""
        if not self.consistent:
            return Verdict.NOT_VALID
        if self.outside is not None:
            return Verdict.CONSISTENT
        if self.signed_by is not None:
            return Verdict.LOGGED if self.logged else Verdict.VALID
        return Verdict.VALID if self._is_kept else Verdict.CONSISTENT

    @property
    def because(self) -> str:
        """Return why the verdict is neither a lesser nor a greater one, in a few words."""
        if self.verdict is Verdict.NOT_VALID:
            return f"{len(self.failed)} failed, {len(self.unavailable)} could not be made"
        if self.verdict is Verdict.CONSISTENT:
            return self.outside or "no one vouches for it"
        kept = "equal to the certificate you gave" if self._is_kept else None
        return ", ".join(filter(None, (kept, self.signed_by)))

    @property
    def consistent(self) -> bool:
        """Return whether nothing failed and nothing was unavailable."""
        return not self.failed and not self.unavailable

    @property
    def valid(self) -> bool:
        """Return whether the verdict is `valid` or better."""
        return self.verdict in {Verdict.VALID, Verdict.LOGGED}

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

    @property
    def _is_kept(self) -> bool:
        return any(
            check.id == CheckId.CERTIFICATE_COPY and check.status is CheckStatus.PASS
            for check in self.checks
        )

    def _with(self, status: CheckStatus) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status is status)


class Cause(NamedTuple):
    """Why something could not be computed: a defect, or code that is not installed."""

    text: str
    unavailable: bool = False


@dataclass(slots=True)
class _Noting:
    """Notes the defect that ends its block; what is behind the block is still computed."""

    ledger: Ledger
    checks: tuple[CheckId, ...]
    where: str

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Note a defect; let everything else pass."""
        if not isinstance(error, DefectError):
            return False
        for check in self.checks:
            self.ledger.wrong(check, f"{self.where}{error.expected}", error.actual)
        return True


class Ledger:
    """Takes what every check finds. A check that was not completed has failed: none is silent."""

    def __init__(self) -> None:
        self._first: dict[CheckId, tuple[str, str]] = {}
        self._problems: dict[CheckId, int] = {}
        self._completed: dict[CheckId, tuple[CheckStatus, str]] = {}
        self._outside: str | None = None
        self.certificate: JsonObject | None = None

    def wrong(self, check: CheckId, expected: str, actual: str) -> None:
        """Note that `check` found `actual` instead of `expected`."""
        self._first.setdefault(check, (expected, actual))
        self._problems[check] = self._problems.get(check, 0) + 1

    def noting(self, *checks: CheckId, where: str = "") -> _Noting:
        """Return a context that notes a DefectError at `checks`, and ends there."""
        return _Noting(self, checks, where)

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

    def withheld(self, check: CheckId, seen: str) -> None:
        """Note that `check` could be made of what is open alone; what was wrong stays wrong."""
        if self._completed.get(check, (CheckStatus.PASS, ""))[0] is CheckStatus.PASS:
            self._completed[check] = (CheckStatus.WITHHELD, seen)

    def depends_on_outside(self, facts: str) -> None:
        """Note that the tier rests on `facts` that nothing in the bundle can settle."""
        self._outside = facts

    def passed(self, check: CheckId) -> bool:
        """Return whether `check` was completed and found nothing."""
        return self._line(check).status is CheckStatus.PASS

    def report(self) -> CheckReport:
        """Return every check, in order."""
        lines = tuple(self._line(check) for check in CheckId)
        return CheckReport(checks=lines, outside=self._outside, certificate=self.certificate)

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
