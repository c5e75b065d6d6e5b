"""What a measure is worth: the check's own reading of qualifications.

Written from docs/scorers.md, "Qualification", and docs/contract/evidence.md; it imports the
standard library and the check's own arithmetic and JSON, and is part of `verify_bundle.py`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from theatre.engine.bundle_check.arithmetic import (
    SCORER_KINDS,
    Document,
    Plan,
    Z,
    exact,
    kinds_of,
    published,
)
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed

LABELLED_SETS: Final[dict[str, Document]] = {
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
"""The labelled sets on which a measure qualifies, by hash (docs/scorers.md)."""
LEAST_ACCURACY, CLAIM_THRESHOLD = 0.75, 0.5
NEAR: Final = 2.000001e-6
"""How far a bound may be from the one that is computed here."""
PLACES_OF_PARAMS: Final = {"field", "record", "diff", "expected", "question"}
FIGURES: Final = ("balanced_accuracy", "sensitivity", "specificity")

Hits = dict[str, tuple[int, int]]
"""Change → how many claims about it the measure is right about, and how many there are."""


def signed_qualification(lines: Iterable[bytes], sha256: object) -> Document | None:
    """Return document and key of a signed file; None for another, and for false figures.

    `sha256` is the hash that the template names. The result is the document with `signed_by`.
    """
    try:
        (line,) = lines
        envelope = parsed(line, "a signed file")["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        document = parsed(payload, "a statement")["predicate"]["qualification"]
        follows = all(
            near_share(found, document[name]) for name, found in figures_of_rows(document).items()
        )
        same = hashlib.sha256(canonical(document)).hexdigest() == sha256
        if not follows or not same or labels_hash(document) != document["labelled_set"]["sha256"]:
            return None
        return {**document, "signed_by": str(signature["keyid"])}
    except (DefectError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
        return None


def near_share(found: Document, stated: Document) -> bool:
    """Return whether a share agrees: its bounds nearly, all else exactly."""
    ends = [(found[end], stated[end]) for end in ("low", "high")]
    near = all(
        a is b or (None not in (a, b) and type(b) is not bool and abs(a - b) <= NEAR)
        for a, b in ends
    )
    alike = [canonical({**one, "low": 0, "high": 0}) for one in (found, stated)]
    return near and alike[0] == alike[1]


def labels_hash(document: Document) -> str:
    """Return the hash of the labelled set, from the rows and the hash of its texts."""
    rows = sorted(document["rows"], key=lambda row: row["claim_id"])
    if len({row["claim_id"] for row in rows}) != len(rows):
        raise ValueError("expected each claim once")
    labels = [[row[name] for name in ("claim_id", "change_id", "verdict", "kind")] for row in rows]
    parts = {
        "labels_sha256": hashlib.sha256(canonical(labels)).hexdigest(),
        "texts_sha256": document["labelled_set"]["texts_sha256"],
    }
    return hashlib.sha256(canonical(parts)).hexdigest()


def sides_of(document: Document) -> tuple[Hits, Hits]:
    """Return how often the measure is right about true claims, and about all others."""
    threshold = exact(document["measure"]["threshold"])
    sides: tuple[Hits, Hits] = ({}, {})
    for row in document["rows"]:
        true, score = row["verdict"] == "supported", row["score"]
        right = score is not None and (exact(score) >= threshold) is true
        hits, of = sides[not true].get(row["change_id"], (0, 0))
        sides[not true][row["change_id"]] = (hits + right, of + 1)
    return sides


def figures_of_rows(document: Document) -> dict[str, Document]:
    """Return sensitivity, specificity and balanced accuracy with intervals, from the rows."""
    sides = sides_of(document)
    shares = [share_of(side) for side in sides]
    return {
        "sensitivity": shares[0],
        "specificity": shares[1],
        "balanced_accuracy": mean_of_shares(sides, shares),
    }


def totals(side: Hits) -> tuple[int, int]:
    """Return all hits of a side, and all claims."""
    return sum(hits for hits, _ in side.values()), sum(of for _, of in side.values())


def share_of(side: Hits) -> Document:
    """Return a share with Wilson's interval for as many claims as would vary as much."""
    hits, of = totals(side)
    if len(side) < 2:  # noqa: PLR2004 - one change has no spread
        return share_interval(published(Fraction(hits, of)) if of else None, None, "undefined")
    single = all(claims == 1 for _, claims in side.values())
    trials = of if single else independent_claims(side)
    share, square = hits / of, Z * Z
    shrink = 1 + square / trials
    centre = (share + square / (2 * trials)) / shrink
    half = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials)) / shrink
    method = "wilson" if single else "cluster_wilson"
    return share_interval(published(Fraction(hits, of)), (centre - half, centre + half), method)


def share_interval(value: float | None, ends: tuple[float, float] | None, method: str) -> Document:
    """Return a value with its interval as documents have it."""
    low = high = None
    if ends is not None:
        low, high = max(0.0, round(ends[0], 6)), min(1.0, round(ends[1], 6))
    return {"value": value, "low": low, "high": high, "method": method, "level": 0.95}


def independent_claims(side: Hits) -> float:
    """Return how many independent claims would vary as much as these do between changes."""
    hits, of = totals(side)
    share = Fraction(hits, of)
    if share in (0, 1):
        return len(side)
    spread = sum((right - share * claims) ** 2 for right, claims in side.values())
    if not spread:
        return of
    variance = spread * Fraction(len(side), len(side) - 1) / of**2
    return float(min(share * (1 - share) / variance, Fraction(of)))


def mean_of_shares(sides: tuple[Hits, Hits], shares: list[Document]) -> Document:
    """Return the mean of both shares; its interval joins theirs with their correlation (MOVER)."""
    if any(share["value"] is None for share in shares):
        return share_interval(None, None, "undefined")
    value = published(sum((Fraction(*totals(side)) for side in sides), Fraction(0)) / 2)
    if value is None or any(share["low"] is None for share in shares):
        return share_interval(value, None, "undefined")
    (hits_1, of_1), (hits_2, of_2) = map(totals, sides)
    first = {name: hits * of_1 - hits_1 * of for name, (hits, of) in sides[0].items()}
    second = {name: hits * of_2 - hits_2 * of for name, (hits, of) in sides[1].items()}
    squares = [sum(one * one for one in side.values()) for side in (first, second)]
    product = sum(one * second.get(name, 0) for name, one in first.items())
    together = product / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0
    ends = []
    for side, sign in (("low", -1), ("high", 1)):
        a, b = (abs(share["value"] - share[side]) for share in shares)
        ends.append(value + sign * math.sqrt(max(0.0, a * a + b * b + 2 * together * a * b)) / 2)
    method = "mover" if all(share["method"] == "wilson" for share in shares) else "cluster_mover"
    return share_interval(value, (ends[0], ends[1]), method)


def committed_qualifications(
    template: Document, lines: Callable[[str], Iterable[bytes]]
) -> dict[str, Document | None]:
    """Return criterion → the qualification that a template relies on; None where it is none.

    `lines` gives those of the dataset of a name.
    """
    scoring = template.get("scoring") or {}
    # Before 2.2.0 the member is open: whatever is there means nothing.
    named = scoring.get("qualifications", {}) if template["schema_version"] == "2.2.0" else {}
    return {
        criterion: signed_qualification(lines(one["dataset"]), one["sha256"])
        for criterion, one in named.items()
    }


def unqualified_measures(
    template: Document,
    kinds: Mapping[str, str],
    pins: Mapping[str, object],
    qualifications: Mapping[str, Document | None],
    controls: Mapping[str, Document],
) -> Document:
    """Return criterion → why a measure that decides a weight carries no tier.

    `kinds` and `pins` are those in the receipt, `controls` as `counted_controls` has them. A
    criterion that people decide whole is theirs.
    """
    plan = Plan(template)
    known = kinds_of(plan.scorers.values(), kinds)
    choices = (template.get("scoring") or {}).get("criteria_scorers") or {}
    found = {}
    for name, share in zip(plan.ids, plan.shares, strict=True):
        scorer = plan.scorers[name]
        if not share or known[scorer] == "exact" or plan.human.get(name) == 1:
            continue
        if name not in qualifications:
            found[name] = f"{scorer} is {known[scorer]}"
            continue
        params = choices.get(name, {}).get("params") or {}
        document = qualifications[name]
        reason = why_not(document, scorer, pins.get(scorer), params)
        if reason is None and document is not None and known[scorer] == "judged":
            reason = not_borne_out(controls.get(name), document)
        if reason is None and scorer not in SCORER_KINDS:
            # The labelled set is public, and no control items ride along with words.
            reason = "no release ships it, and it may know the labelled set by heart"
        if reason is not None:
            found[name] = f"{scorer}: {reason}"
    return found


def why_not(
    document: Document | None, scorer: str, version: object, params: Mapping[str, Any]
) -> str | None:
    """Return why a qualification does not carry a criterion's measure; None where it does."""
    if document is None:
        return "its qualification cannot be read"
    measure = document["measure"]
    pairs: list[tuple[str, Any, Any]] = [
        ("scorer", scorer, measure["scorer"]),
        ("version", version, measure["version"]),
    ]
    # How many claims of known truth a run adds is no part of what a measure is.
    for name in sorted((params.keys() | measure["params"].keys()) - {"controls"}):
        mine, theirs = params.get(name), measure["params"].get(name)
        if name in PLACES_OF_PARAMS:
            mine, theirs = name in params, name in measure["params"]
        pairs.append((name, mine, theirs))
    for what, mine, theirs in pairs:
        if canonical(mine) != canonical(theirs):
            return f"its qualification is of another {what}"
    if document["labelled_set"]["sha256"] not in LABELLED_SETS:
        return "qualified on a labelled set that policy does not know"
    if measure["threshold"] != CLAIM_THRESHOLD:
        return f"qualified with another threshold than {CLAIM_THRESHOLD}"
    low = document["balanced_accuracy"]["low"]
    if low is None or low < LEAST_ACCURACY:
        return f"its balanced accuracy may be below {LEAST_ACCURACY}"
    return None


def certified(
    template: Document,
    pins: Mapping[str, object],
    qualifications: Mapping[str, Document | None],
    aggregate: Document,
    controls: Mapping[str, Document],
    labelled: Mapping[str, Labelled],
) -> Document:
    """Return the certificate's members on what the measures are worth."""
    shown = {name: None if one is None else shown_of(one) for name, one in qualifications.items()}
    corrected = {}
    for name in qualifications.keys() | controls.keys():
        one, counted = qualifications.get(name), controls.get(name)
        known = errors_of(template, pins, name, one) if one else None
        if one and counted and errs_more(counted, one):
            known = None  # What the run contradicts is not known.
        source = "qualification" if name in qualifications else "controls"
        seen = None if counted is None else errors_seen(counted)
        if counted and seen:
            enough = min(of for _, of in seen) >= FEWEST_TO_CORRECT
            if (enough and are_like_claims(counted)) or (known is None and not enough):
                known, source = seen, "controls"
        corrected[name] = {
            **corrected_of(aggregate, name, known, source),
            "controls": counted and {member: counted[member] for member in CERTIFIED_CONTROLS},
        }
    for name, items in labelled.items():
        if name not in corrected or (len(items.pairs) >= FEWEST_TO_CORRECT and not items.clustered):
            of_controls = corrected.get(name, {}).get("controls")
            corrected[name] = {**items.corrected(aggregate, name), "controls": of_controls}
    return {"qualification": shown or None, "corrected_scores": corrected or None}


class Labelled(NamedTuple):
    """A judged criterion of whose answers people labelled some that the coin drew.

    `pairs` has the mean label of each, and what the judge said of it; `others` is what he said of
    the answers that were not drawn.
    """

    step_id: str
    scorers: int
    pairs: Sequence[tuple[float, float]]
    others: Sequence[float]
    clustered: bool

    def corrected(self, aggregate: Document, name: str) -> Document:
        """Return the score corrected by the labels (docs/statistics.md), or why it is not."""
        counts = aggregate["score_counts"][name]
        found: tuple[float, float, float] | str = "its episodes share clusters"
        if not self.clustered:
            found = ppi(self.pairs, self.others)
        if not isinstance(found, str):
            part = counts["scored"] / (counts["scored"] + counts["missing"])
            value, low, high = (one * part for one in found)
            found = round(value, 9), round(low, 6), round(high, 6)
        value_or_none, *ends = (None, None, None) if isinstance(found, str) else found
        return {
            "raw": aggregate["scores"][name],
            "n": counts["scored"],
            "errors_from": "people",
            "value": value_or_none,
            "low": ends[0],
            "high": ends[1],
            "method": "undefined" if isinstance(found, str) else "ppi_wilson",
            "level": 0.95,
            "reason": found if isinstance(found, str) else None,
            "labels": {
                "step_id": self.step_id,
                "items": len(self.pairs),
                "scorers": self.scorers,
            },
        }


def labelled_criteria(
    template: Document,
    kinds: Mapping[str, str],
    rated_at: Callable[[str, str], Labelled],
) -> dict[str, Labelled]:
    """Return judged criterion → its labels, by the first rating that has no share in its score.

    `rated_at` gives those of a criterion that people gave at a step.
    """
    plan, entries = Plan(template), {one["step_id"]: one for one in template.get("hitl_steps", [])}
    known, found = kinds_of(plan.scorers.values(), kinds), dict[str, Labelled]()
    for step in template["resolution_programme"]:
        if step["type"] == "aggregation":
            break
        entry = entries.get(step["step_id"], {}) if step["type"] == "hitl_rubric" else {}
        name = str(entry.get("criterion_id"))
        is_judged = known.get(plan.scorers.get(name, "")) == "judged"
        if is_judged and entry.get("share") is None and name not in found:
            found[name] = rated_at(name, step["step_id"])
    return found


def ppi(
    pairs: Sequence[tuple[float, float]], others: Sequence[float]
) -> tuple[float, float, float] | str:
    """Return the mean label of all answers and its bounds, by PPI++; or why there is none.

    The judge's mean over the answers without a label is moved by what he is wrong by on those with
    one, with the weight that has the least variance; Wilson's interval for as many labels.
    """
    n, rest = len(pairs), len(others)
    if n < FEWEST_TO_CORRECT:
        return f"fewer than {FEWEST_TO_CORRECT} labelled items"
    if not rest:
        return "no items without a label"
    labels, judged = [label for label, _ in pairs], [said for _, said in pairs]
    every, weight = [*judged, *others], 0.0
    if spread := variance_of(every):
        middle, centre = mean_of(labels), mean_of(judged)
        shared = math.fsum((a - middle) * (b - centre) for a, b in pairs) / (n - 1)
        weight = min(1.0, max(0.0, shared / (spread * (1 + n / rest))))
    value = mean_of(labels) + weight * (mean_of(others) - mean_of(judged))
    value = max(0.0, min(1.0, value))
    spread_of_labels = variance_of([label - weight * said for label, said in pairs])
    error = spread_of_labels / n + weight * weight * variance_of(every) / rest
    trials = min(value * (1 - value) / error, n + rest) if error else float(n)
    trials, square = trials or float(n), Z * Z
    shrink = 1 + square / trials
    centre = (value + square / (2 * trials)) / shrink
    half = Z * math.sqrt(value * (1 - value) / trials + square / (4 * trials * trials)) / shrink
    bounds = max(0.0, round(centre - half, 6)), min(1.0, round(centre + half, 6))
    return published(Fraction(value)) or 0.0, *bounds


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; the order of values does not matter."""
    return math.fsum(values) / len(values)


def variance_of(values: Sequence[float]) -> float:
    """Return the variance of a sample."""
    mean = mean_of(values)
    return math.fsum((one - mean) * (one - mean) for one in values) / (len(values) - 1)


BY_MODELS: Final = "labels-by-models:"
BELIED: Final = "controls-contradict-qualification:"
FINDINGS_OF_MEASURES: Final = (
    BY_MODELS,
    BELIED,
    "interval-narrowed:",
    "ratings-left-out:",
    "authors-may-rate:",
)
"""What a published bundle need not show: there it is as the certificate has it."""


def measure_findings(
    qualifications: Mapping[str, Document | None], controls: Mapping[str, Document]
) -> list[str]:
    """Return codes: of measures held against labels by models, and of judges that a run belies."""
    read = {name: one for name, one in qualifications.items() if one is not None}
    return [
        *(f"{BY_MODELS}{name}" for name, one in read.items() if is_by_policy(one)),
        *(
            f"{BELIED}{name}"
            for name in read.keys() & controls
            if errs_more(controls[name], read[name])
        ),
    ]


# What control items showed of a judge in its run.

CERTIFIED_CONTROLS: Final = (
    "true",
    "false",
    "unusable",
    "sensitivity",
    "specificity",
    "recognised",
)
LEAST_CONTROLS, TELLING = 30, 0.6


def counted_controls(template: Document, steps: object) -> dict[str, Document]:
    """Return criterion → what a step counts of control items; `steps` are those of the resolution.

    It counts that is over the run's episodes, and asks as the template scores.
    """
    scored = (template.get("scoring") or {}).get("criteria_scorers") or {}
    specs = {one["step_id"]: one.get("input_spec") for one in template["resolution_programme"]}
    found: dict[str, Document] = {}
    for step in steps if isinstance(steps, list) else []:
        with contextlib.suppress(LookupError, TypeError, AttributeError, ValueError):
            result = step["result"]
            if (result["computation"], result["over"]) != ("judge_controls@1", "episodes"):
                continue
            asked = specs[step["step_id"]]["params"]["criteria_scorers"]
            for name, counted in result["output"]["criteria"].items():
                if name in scored and canonical(asked[name]) == canonical(scored[name]):
                    require_tallies(counted)
                    found[name] = counted
    return found


def require_tallies(counted: Document) -> None:
    """Raise ValueError, or what a missing member raises, for another form of what decides."""
    parts = [counted, *(counted["by_source"][name] for name in ("planted", "labelled"))]
    for part in parts:
        for name in ("sensitivity", "specificity"):
            if any(
                type(part[name][end]) not in (float, int, type(None)) for end in ("low", "high")
            ):
                raise ValueError("expected bounds")
    for part in (counted, counted["independent"]):
        for side in ("true", "false"):
            right, asked = (part[side][name] for name in ("right", "asked"))
            if not (type(right) is type(asked) is int and 0 <= right <= asked):
                raise ValueError("expected counts")
    if type(counted["recognised"]) not in (float, int, type(None)):
        raise ValueError("expected a share")


def not_borne_out(counted: Document | None, qualified: Document) -> str | None:
    """Return why what a judge did in its run does not bear out its qualification."""
    if (
        counted is None
        or min(counted[side]["asked"] for side in ("true", "false")) < LEAST_CONTROLS
    ):
        return f"fewer than {LEAST_CONTROLS} control items of a sort in its run"
    if errs_more(counted, qualified):
        return "it errs more on the control items of its run than its qualification says"
    return None


def errs_more(counted: Document, qualified: Document) -> bool:
    """Return whether a rate on controls, on all or on those of a source, is below the other."""
    for part in (counted, *counted["by_source"].values()):
        for name in ("sensitivity", "specificity"):
            high, low = part[name]["high"], qualified[name]["low"]
            if high is not None and low is not None and high < low:
                return True
    return False


def are_like_claims(counted: Document) -> bool:
    """Return whether controls can stand for the claims: by their words, and by source alike."""
    planted, labelled = (counted["by_source"][name] for name in ("planted", "labelled"))
    for name in ("sensitivity", "specificity"):
        one, other = planted[name], labelled[name]
        if None in (one["low"], other["low"]):
            continue
        if one["high"] < other["low"] or other["high"] < one["low"]:
            return False
    return (counted["recognised"] or 0) <= TELLING


def errors_seen(counted: Document) -> Errors | None:
    """Return the errors on controls, as of so many as vary as much; None without a sort."""
    true, false = (
        (one["right"], one["asked"])
        for one in (counted["independent"][side] for side in ("true", "false"))
    )
    return (true, false) if true[1] and false[1] else None


# What a qualification shows.


def is_by_policy(document: Document) -> bool:
    """Return whether policy takes the figures of a qualification."""
    known = document["labelled_set"]["sha256"] in LABELLED_SETS
    return bool(known and document["measure"]["threshold"] == CLAIM_THRESHOLD)


def shown_of(document: Document) -> Document:
    """Return what a certificate says of a qualification."""
    content = {name: value for name, value in document.items() if name != "signed_by"}
    stated, measure = document["labelled_set"], document["measure"]
    known = LABELLED_SETS.get(stated["sha256"], {})
    low = document["balanced_accuracy"]["low"]
    return {
        "sha256": hashlib.sha256(canonical(content)).hexdigest(),
        "signed_by": document["signed_by"],
        "issuer": document["issuer"],
        "measure": f"{measure['scorer']}@{measure['version']}",
        "labelled_set": {
            **{name: stated[name] for name in ("sha256", "claims", "changes")},
            **{name: known.get(name) for name in ("name", "made_by", "agreement")},
        },
        **{name: document[name] for name in FIGURES},
        "qualified": is_by_policy(document) and low is not None and low >= LEAST_ACCURACY,
    }


Errors = tuple[tuple[int, int], tuple[int, int]]
"""Of so many true controls so many supported, and of others refused: (right, of) of each."""


def errors_of(
    template: Document, pins: Mapping[str, object], name: str, document: Document | None
) -> Errors | None:
    """Return the errors of a criterion's measure, as of so many claims as vary as much."""
    choice = template["scoring"]["criteria_scorers"][name]
    scorer, params = choice["scorer"], choice.get("params") or {}
    if document is None or not is_by_policy(document):
        return None
    reason = why_not(document, scorer, pins.get(scorer), params)
    if reason is not None and "is of another" in reason:
        return None
    true, false = (
        (0, 0) if len(side) < 2 else scaled_hits(side)  # noqa: PLR2004 - one change has no spread
        for side in sides_of(document)
    )
    return true, false


def scaled_hits(side: Hits) -> tuple[int, int]:
    """Return the hits and the number of as many independent claims, in whole numbers."""
    (hits, of), trials = totals(side), int(independent_claims(side))
    return round(Fraction(trials * hits, of)), trials


FEWEST_TO_CORRECT: Final = 100


def corrected_of(
    aggregate: Document, name: str, errors: Errors | None, source: str = "qualification"
) -> Document:
    """Return a score corrected for its measure's errors (docs/statistics.md), or why it is not."""
    counts, ends = aggregate["score_counts"][name], aggregate["score_intervals"][name]
    n = counts["scored"]
    of_people = any(
        one["criterion_id"] == name and one["share"] is not None
        for one in (aggregate["human_scores"] or {}).values()
    )
    found: tuple[float, float, float] | str
    if errors is None:
        found = "no known errors of the measure"
    elif of_people:
        found = "people have a share in the score"
    elif ends["low"] is None or not n:
        found = "the score has no interval"
    else:
        part = Fraction(n, n + counts["missing"])
        half = (ends["high"] - ends["low"]) / 2 / float(part)
        found = rogan_gladen(exact(aggregate["answered_only"][name]), n, half, errors)
        if not isinstance(found, str):
            value, low, high = (one * float(part) for one in found)
            found = round(value, 9), round(low, 6), round(high, 6)
    value_or_none, low_or_none, high_or_none = (
        (None, None, None) if isinstance(found, str) else found
    )
    return {
        "raw": aggregate["scores"][name],
        "n": n,
        "errors_from": source,
        "value": value_or_none,
        "low": low_or_none,
        "high": high_or_none,
        "method": "undefined" if isinstance(found, str) else "lang_reiczigel",
        "level": 0.95,
        "reason": found if isinstance(found, str) else None,
    }


def rogan_gladen(
    rate: Fraction, n: int, half: float, errors: Errors
) -> tuple[float, float, float] | str:
    """Return a rate without a judge's errors, and its bounds by Lang and Reiczigel; or why not."""
    (right_true, of_true), (right_false, of_false) = errors
    for number, what in (
        (n, "items"),
        (of_true, "true controls"),
        (of_false, "false controls"),
    ):
        if number < FEWEST_TO_CORRECT:
            return f"fewer than {FEWEST_TO_CORRECT} {what}"
    seen, spared = Fraction(right_true, of_true), Fraction(right_false, of_false)
    if seen + spared < Fraction(13, 10):
        return "sensitivity + specificity below 1.3"
    p, square = float(rate), Z * Z
    trials = float(n) if p in (0, 1) or not half else min(p * (1 - p) * square / half**2, float(n))
    share = (p * trials + square / 2) / (trials + square)
    se, sp = (right_true + 1) / (of_true + 2), (right_false + 1) / (of_false + 2)
    skill = se + sp - 1
    middle = (share + sp - 1) / skill
    of_se, of_sp = se * (1 - se) / (of_true + 2), sp * (1 - sp) / (of_false + 2)
    moved = middle + 2 * square * (middle * of_se - (1 - middle) * of_sp)
    spread = share * (1 - share) / (trials + square) + middle**2 * of_se + (1 - middle) ** 2 * of_sp
    reach = Z * math.sqrt(spread) / skill
    if moved + reach < 0 or moved - reach > 1:
        return "the judged rate is one that the judge's known errors cannot give"
    value = (rate + spared - 1) / (seen + spared - 1)
    clipped = published(min(Fraction(1), max(Fraction(0), Fraction(float(value)))))
    bounds = max(0.0, round(moved - reach, 6)), min(1.0, round(moved + reach, 6))
    return clipped or 0.0, *bounds


def near_corrected(found: Document, stated: object) -> Document:
    """Return corrected scores as they are stated, where these are as near as bounds must be."""
    given = stated if isinstance(stated, dict) else {}
    for name, one in found.items():
        told = given.get(name)
        for member in ("value", "low", "high"):
            seen = told.get(member) if isinstance(told, dict) else None
            is_number = isinstance(seen, int | float) and not isinstance(seen, bool)
            if is_number and one[member] is not None and abs(one[member] - seen) <= NEAR:
                one[member] = seen
    return found
