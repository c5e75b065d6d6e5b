"""Which measures carry a tier: policy v0 on qualifications that templates rely on.

A qualification is a document that follows from its rows (`qualification`), signed. Here it is read
from the signed file that a template commits to as a dataset, held against the criterion that
relies on it, and judged. Source: docs/scorers.md, "Qualification"; docs/adr/0193.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Self, cast

from theatre.engine.canonical_json import JsonObject, canonical_line, canonical_sha256, parse_object
from theatre.engine.errors import ParseError, QualificationError
from theatre.engine.models import ScorerKind
from theatre.engine.scoring.corrections import JudgeErrors, effective_tally
from theatre.engine.scoring.provider import criteria_scorers
from theatre.engine.scoring.qualification import MINIMUM, counted_again, read_rows, units_of_side
from theatre.engine.templates import NEWEST

KNOWN_SETS: Final[Mapping[str, JsonObject]] = {
    "9e7d7519776f8f67003dfd8c63c0c9b9c0d282ef57563b70957bd51b25eee569": {
        "name": "fixtures/labelled/changes",
        "made_by": "language models of the team, no person",
        "agreement": {
            "by": "a second reader, a language model too, who saw no labels",
            "claims": 600,
            "raw": 0.998,
            "kappa": 0.998,
        },
    }
}
"""Labelled sets by their hash. An author could label 600 trivial claims of his own and qualify a
salad of keywords: a set counts that is named here, with who made it and how far two passes agree.
"""

THRESHOLD: Final = 0.5
"""From which score on a claim counts as supported: one chosen afterwards could suit any measure."""

PLACES: Final = frozenset({"field", "record", "diff", "expected", "question"})
"""Parameters that say where something lies, which is elsewhere in a labelled set than in a run."""

RIDE_ALONG: Final = frozenset({"controls"})
"""Parameters that say how many claims of known truth a run adds to those that it scores."""


class Qualification(NamedTuple):
    """A qualification as its signed file has it; whose the key `kid` is, is not looked at."""

    document: JsonObject
    kid: str

    @classmethod
    def read(cls, lines: Iterable[bytes], *, sha256: str | None) -> Self:
        """Read the one line of a signed file; QualificationError for anything else.

        `sha256` is the hash that a template names, None where it is still to be named. Figures that
        do not follow from the rows are an error, too.
        """
        try:
            (line,) = lines
            signed: Any = parse_object(line)
            envelope = signed["dsseEnvelope"]
            (signature,) = envelope["signatures"]
            kid = signature["keyid"]
            statement: Any = parse_object(base64.b64decode(envelope["payload"], validate=True))
            document = statement["predicate"]["qualification"]
            again = counted_again(document)
        except (ParseError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise QualificationError(
                "expected the file that `echelon qualify` signed (….sigstore.json), got another"
            ) from error
        if canonical_line(again) != canonical_line(document):
            raise QualificationError(
                "expected a qualification whose figures follow from its rows, got others"
            )
        if sha256 is not None and canonical_sha256(document) != sha256:
            raise QualificationError(
                f"expected the qualification {sha256} that the template names, got "
                f"{canonical_sha256(document)}"
            )
        return cls(document=document, kid=str(kid))

    @property
    def sha256(self) -> str:
        """Return the hash that a template names."""
        return canonical_sha256(self.document)

    @property
    def measure(self) -> Mapping[str, Any]:
        """Return scorer, version, kind, params and threshold."""
        return cast("Mapping[str, Any]", self.document["measure"])

    def misfit(self, scorer: str, version: object, params: Mapping[str, object]) -> str | None:
        """Return why it is not about a criterion's measure: another scorer, version, judge, …."""
        for what, wanted, found in (
            ("scorer", scorer, self.measure["scorer"]),
            ("version", version, self.measure["version"]),
            *_deciding(params, self.measure["params"]),
        ):
            if canonical_line({"is": wanted}) != canonical_line({"is": found}):
                return f"its qualification is of another {what}"
        return None

    def strangeness(self) -> str | None:
        """Return why policy does not take its figures at all; None where it does."""
        if str(self._set["sha256"]) not in KNOWN_SETS:
            return "qualified on a labelled set that policy does not know"
        if self.measure["threshold"] != THRESHOLD:
            return f"qualified with another threshold than {THRESHOLD}"
        return None

    def weakness(self) -> str | None:
        """Return why the measure carries no tier by policy; None where it does."""
        if (strange := self.strangeness()) is not None:
            return strange
        low = cast("JsonObject", self.document["balanced_accuracy"])["low"]
        if low is None or cast("float", low) < MINIMUM:
            return f"its balanced accuracy may be below {MINIMUM}"
        return None

    def errors(self) -> JudgeErrors:
        """Return its errors, as of so many claims as would vary as much between changes."""
        rows = read_rows(self.document)
        threshold = float(self.measure["threshold"])
        sides = (units_of_side(rows, threshold, is_true=is_true) for is_true in (True, False))
        return JudgeErrors(*map(effective_tally, sides))

    def certified(self) -> JsonObject:
        """Return what a certificate says of it."""
        known = KNOWN_SETS.get(str(self._set["sha256"]), {})
        return {
            "sha256": self.sha256,
            "signed_by": self.kid,
            "issuer": self.document["issuer"],
            "measure": f"{self.measure['scorer']}@{self.measure['version']}",
            "labelled_set": {
                **{name: self._set[name] for name in ("sha256", "claims", "changes")},
                **{name: known.get(name) for name in ("name", "made_by", "agreement")},
            },
            **{name: self.document[name] for name in _FIGURES},
            "qualified": self.weakness() is None,
        }

    @property
    def _set(self) -> JsonObject:
        return cast("JsonObject", self.document["labelled_set"])


_FIGURES: Final = ("balanced_accuracy", "sensitivity", "specificity")


def _deciding(
    committed: Mapping[str, object], measured: Mapping[str, object]
) -> Iterable[tuple[str, Any, Any]]:
    for name in sorted((committed.keys() | measured.keys()) - RIDE_ALONG):
        # That a place is named at all decides, too: what is held against nothing is no recall.
        if name in PLACES:
            yield name, name in committed, name in measured
        else:
            yield name, committed.get(name), measured.get(name)


def why_unqualified(
    scorer: str,
    kind: object,
    version: object,
    params: Mapping[str, object],
    qualification: Qualification | None,
    *,
    is_named: bool,
) -> str | None:
    """Return why a criterion carries no tier, for the scorer that decides it; None where it does.

    `is_named` says that the template names a qualification, which is None where its file is none.
    A kind that is none counts as textual.
    """
    if kind == ScorerKind.EXACT:
        return None
    if not is_named:
        return f"{scorer} is {ScorerKind.JUDGED if kind == ScorerKind.JUDGED else 'textual'}"
    if qualification is None:
        return f"{scorer}: its qualification cannot be read"
    reason = qualification.misfit(scorer, version, params) or qualification.weakness()
    return None if reason is None else f"{scorer}: {reason}"


Qualifications = Mapping[str, Qualification | None]
"""Criterion → the qualification that the template names for it; None where its file is none."""


def read_qualifications(
    document: JsonObject, lines: Callable[[str], Iterable[bytes]]
) -> Qualifications:
    """Return the qualifications that a template names; `lines` gives those of a dataset by name.

    One whose document has another hash than the template names is none.
    """
    found: dict[str, Qualification | None] = {}
    for criterion, (dataset, sha256) in named_qualifications(document).items():
        found[criterion] = None
        with contextlib.suppress(QualificationError):
            found[criterion] = Qualification.read(lines(dataset), sha256=sha256)
    return found


def named_qualifications(document: JsonObject) -> dict[str, tuple[str, str]]:
    """Return criterion → the dataset with its qualification, and the hash that it must have."""
    # Before 2.2.0 the member is open: whatever is there means nothing.
    if document.get("schema_version") != NEWEST:
        return {}
    scoring: Any = document.get("scoring", {})
    named = scoring.get("qualifications", {})
    return {criterion: (one["dataset"], one["sha256"]) for criterion, one in named.items()}


# What a certificate says of them.


def certified_qualifications(qualifications: Qualifications) -> JsonObject | None:
    """Return criterion → what its qualification shows, null for a file that is none."""
    return {
        criterion: None if one is None else one.certified()
        for criterion, one in qualifications.items()
    } or None


def qualification_findings(qualifications: Qualifications) -> list[str]:
    """Return a code for each criterion whose measure was held against labels by models."""
    return [
        f"labels-by-models:{criterion}"
        for criterion, one in qualifications.items()
        if one is not None and one.strangeness() is None
    ]


def known_errors(
    document: JsonObject, pins: Mapping[str, object], qualifications: Qualifications
) -> dict[str, JudgeErrors | None]:
    """Return criterion → the errors of its measure; None where its qualification shows none."""
    found: dict[str, JudgeErrors | None] = {}
    for criterion, one in qualifications.items():
        choice = criteria_scorers(document)[criterion]
        scorer, params = str(choice["scorer"]), cast("JsonObject", choice.get("params", {}))
        fits = one is not None and one.misfit(scorer, pins.get(scorer), params) is None
        found[criterion] = one.errors() if one and fits and one.strangeness() is None else None
    return found
