"""How often a measure is right about claims whose truth is known: its qualification.

A measure that no one measured carries no tier (docs/scorers.md). What is counted here is what a
document of a qualification says; it follows from the rows that are in it, so that anyone counts
again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.errors import QualificationError
from theatre.engine.scoring.arithmetic import (
    exact,
    published_interval,
    rounded_number,
    undefined_interval,
)
from theatre.engine.scoring.differences import Tally, share_of_pairs

SUPPORTED: Final = "supported"
VERDICTS: Final = (SUPPORTED, "contradicted", "not_in_change", "half_true")
"""What a claim is, by those who labelled it: held against `supported` are the other three."""

KINDS: Final = (
    "plain",
    "paraphrase",
    "plain_lie",
    "wrong_number",
    "negation",
    "swapped_subjects",
    "absent",
    "half_true",
)

MINIMUM: Final = 0.75
"""What the lower bound of the balanced accuracy must reach."""

VERSION: Final = "1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRow:
    """A claim whose truth is known, and what the measure gave: None for no usable answer."""

    claim_id: str
    change_id: str
    verdict: str
    kind: str
    score: float | None

    @property
    def is_true(self) -> bool:
        """Return whether the change bears the claim out."""
        return self.verdict == SUPPORTED

    def is_right(self, threshold: float) -> bool:
        """Return whether the measure says so; no usable answer is an error on either side."""
        return self.score is not None and (exact(self.score) >= exact(threshold)) is self.is_true

    def as_document(self) -> JsonObject:
        """Return the form in a qualification."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: JsonValue) -> LabelledRow:
        """Read a row; QualificationError for anything else."""
        if not isinstance(document, dict) or document.keys() != set(cls.__slots__):
            raise QualificationError(f"expected a row of a qualification, got {document!r:.100}")
        texts = [document[name] for name in ("claim_id", "change_id", "verdict", "kind")]
        score = document["score"]
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if (
            not all(isinstance(text, str) for text in texts)
            or document["verdict"] not in VERDICTS
            or not (score is None or (is_number and 0 <= cast("float", score) <= 1))
        ):
            raise QualificationError(f"expected a row of a qualification, got {document!r:.100}")
        claim_id, change_id, verdict, kind = cast("list[str]", texts)
        return cls(
            claim_id=claim_id,
            change_id=change_id,
            verdict=verdict,
            kind=kind,
            score=cast("float | None", score),
        )


def figures_of(rows: Sequence[LabelledRow], threshold: float) -> JsonObject:
    """Return counts, rates and intervals of a measure that calls true what reaches `threshold`.

    Claims about one change are no independent draws: every interval is clustered by the change.
    """
    sides = {
        "supported": [row for row in rows if row.is_true],
        "not_supported": [row for row in rows if not row.is_true],
    }
    right = {side: _units(of, lambda row: row.is_right(threshold)) for side, of in sides.items()}
    wrong = {
        side: _units(of, lambda row: not row.is_right(threshold)) for side, of in sides.items()
    }
    by_kind = defaultdict[str, list[LabelledRow]](list)
    for row in rows:
        by_kind[row.kind].append(row)
    balanced = balanced_accuracy(right["supported"], right["not_supported"])
    low = balanced["low"]
    return {
        "counts": {side: _counts(of, threshold) for side, of in sides.items()},
        "sensitivity": share_of_pairs(right["supported"]),
        "specificity": share_of_pairs(right["not_supported"]),
        "false_refusal_rate": share_of_pairs(wrong["supported"]),
        "false_support_rate": share_of_pairs(wrong["not_supported"]),
        "balanced_accuracy": balanced,
        "by_kind": {
            kind: {
                **_counts(of, threshold),
                "error_rate": share_of_pairs(_units(of, lambda row: not row.is_right(threshold))),
            }
            for kind, of in sorted(by_kind.items())
        },
        "minimum": MINIMUM,
        "qualified": low is not None and cast("float", low) >= MINIMUM,
    }


def units_of_side(
    rows: Iterable[LabelledRow], threshold: float, *, is_true: bool
) -> dict[str, Tally]:
    """Return change → how often the measure is right about its true claims, or its others."""
    side = (row for row in rows if row.is_true is is_true)
    return _units(side, lambda row: row.is_right(threshold))


def _units(rows: Iterable[LabelledRow], hit: Callable[[LabelledRow], bool]) -> dict[str, Tally]:
    hits, pairs = Counter[str](), Counter[str]()
    for row in rows:
        hits[row.change_id] += hit(row)
        pairs[row.change_id] += 1
    return {change: Tally(hits[change], count) for change, count in sorted(pairs.items())}


def _counts(rows: Sequence[LabelledRow], threshold: float) -> JsonObject:
    return {
        "claims": len(rows),
        "changes": len({row.change_id for row in rows}),
        "right": sum(row.is_right(threshold) for row in rows),
        "unusable": sum(row.score is None for row in rows),
    }


def balanced_accuracy(true: Mapping[str, Tally], false: Mapping[str, Tally]) -> JsonObject:
    """Return the mean of sensitivity and specificity with its interval.

    MOVER (Zou and Donner 2008): what either half lies from its bounds, joined as the sides of a
    triangle. Both halves are of the same changes, of which some are hard to read: their
    correlation is in it. Without it the interval covers 87 % where a fifth of the changes is hard.
    """
    ends = share_of_pairs(true), share_of_pairs(false)
    if any(end["value"] is None for end in ends):
        return {"value": None} | undefined_interval()
    shares = [Fraction(sum(u.hits for u in x.values()), sum(u.pairs for u in x.values()))
              for x in (true, false)]  # fmt: skip
    value = rounded_number(sum(shares, Fraction(0)) / 2)
    if any(end["low"] is None for end in ends):
        return {"value": value} | undefined_interval()
    together = _correlation(true, false)
    bounds = [
        [abs(cast("float", end["value"]) - cast("float", end[side])) for end in ends]
        for side in ("low", "high")
    ]
    below, above = (
        math.sqrt(max(0.0, one * one + other * other + 2 * together * one * other)) / 2
        for one, other in bounds
    )
    method = "cluster_mover" if any(end["method"] != "wilson" for end in ends) else "mover"
    return {"value": value} | published_interval(value - below, value + above, method)


def _correlation(true: Mapping[str, Tally], false: Mapping[str, Tally]) -> float:
    """Return how far changes with many errors of one side have many of the other, -1 to 1."""
    both = [_residuals(units) for units in (true, false)]
    product = sum(both[0][name] * both[1].get(name, 0) for name in both[0])
    squares = [sum(one * one for one in side.values()) for side in both]
    return product / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0


def _residuals(units: Mapping[str, Tally]) -> dict[str, int]:
    """Return how far each unit's hits are from the share of all, times the number of all."""
    hits = sum(unit.hits for unit in units.values())
    pairs = sum(unit.pairs for unit in units.values())
    return {name: unit.hits * pairs - hits * unit.pairs for name, unit in units.items()}


def labelled_set(rows: Iterable[LabelledRow], texts_sha256: str) -> JsonObject:
    """Return what a set of labelled claims is known by.

    Its hash is over what follows from the rows, which a qualification has, and over the texts,
    which it has not: no row of a known set can be left out, added or given another label.
    """
    ordered = sorted(rows, key=lambda row: row.claim_id)
    labels: list[JsonValue] = [
        [row.claim_id, row.change_id, row.verdict, row.kind] for row in ordered
    ]
    parts: JsonObject = {"labels_sha256": canonical_sha256(labels), "texts_sha256": texts_sha256}
    return {
        "sha256": canonical_sha256(parts),
        **parts,
        "claims": len(ordered),
        "changes": len({row.change_id for row in ordered}),
    }


def qualification_document(
    measure: JsonObject,
    rows: Sequence[LabelledRow],
    *,
    texts_sha256: str,
    usage: JsonObject | None,
    exchanges_sha256: str | None,
    issuer: str,
    qualified_at: str,
) -> JsonObject:
    """Return the document of a qualification; its hash is that of its canonical bytes.

    `measure` is {scorer, version, kind, params, threshold}.
    """
    ordered = sorted(rows, key=lambda row: row.claim_id)
    return {
        "schema_version": VERSION,
        "measure": measure,
        "labelled_set": labelled_set(ordered, texts_sha256),
        **figures_of(ordered, cast("float", measure["threshold"])),
        "usage": usage,
        "exchanges_sha256": exchanges_sha256,
        "issuer": issuer,
        "qualified_at": qualified_at,
        "rows": [row.as_document() for row in ordered],
    }


_Form = Mapping[str, type | tuple[type, ...]]
_MEASURE: _Form = {
    "scorer": str,
    "version": str,
    "kind": str,
    "params": dict,
    "threshold": (int, float),
}
_MEMBERS: _Form = {
    "measure": dict,
    "labelled_set": dict,
    "rows": list,
    "usage": (dict, type(None)),
    "exchanges_sha256": (str, type(None)),
    "issuer": str,
    "qualified_at": str,
}


def read_rows(document: JsonObject) -> list[LabelledRow]:
    """Return the rows of a qualification; QualificationError where its form is another."""
    measure, rows = document.get("measure"), document.get("rows")
    if (
        not _fits(document, _MEMBERS)
        or not _fits(measure, _MEASURE)
        or cast("JsonObject", measure).keys() != _MEASURE.keys()
        or not _fits(document["labelled_set"], {"texts_sha256": str})
    ):
        raise QualificationError("expected a qualification, got another document")
    read = [LabelledRow.from_document(row) for row in cast("list[JsonValue]", rows)]
    if len({row.claim_id for row in read}) != len(read):
        raise QualificationError("expected each claim once in a qualification, got one twice")
    return read


def _fits(value: JsonValue, members: _Form) -> bool:
    return isinstance(value, dict) and all(
        name in value and isinstance(value[name], kind) and not isinstance(value[name], bool)
        for name, kind in members.items()
    )


def counted_again(document: JsonObject) -> JsonObject:
    """Return a qualification as its own rows give it; QualificationError for another form."""
    rows = read_rows(document)
    stated: dict[str, Any] = document
    return qualification_document(
        stated["measure"],
        rows,
        texts_sha256=stated["labelled_set"]["texts_sha256"],
        usage=stated["usage"],
        exchanges_sha256=stated["exchanges_sha256"],
        issuer=stated["issuer"],
        qualified_at=stated["qualified_at"],
    )
