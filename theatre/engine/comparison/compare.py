"""Sealed runs of one dataset side by side: a pure function of their bundles, and no certificate.

Runs are paired episode by episode. Interactive runs meet the same worlds only where all that their
draws follow from is the same (docs/contract/earned.md §4); else they are two samples.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, sha256_hex
from theatre.engine.comparison.sealed_runs import (
    Scores,
    SealedRun,
    read_sealed_run,
    require_comparable,
)
from theatre.engine.models import EpisodeOutcome
from theatre.engine.scoring.arithmetic import NANO, exact, ratio, rounded_number
from theatre.engine.scoring.differences import (
    clustered_difference,
    detectable_difference,
    difference_of_means,
    holm,
    mcnemar,
    mean_difference,
    sign_flip_test,
    two_sample_test,
)
from theatre.engine.scoring.tallies import COMPOSITE

# How far two runs stand apart on one measure.


CLUSTERS_WITHHELD = "clusters-withheld"


class _Pair(NamedTuple):
    """Two runs in the order that their draws and seeds go by, so that naming them turns no test."""

    first: SealedRun
    second: SealedRun
    clusters: Mapping[str, str] | None
    is_paired: bool

    def seed(self, measure: str) -> str:
        hashes = (str(run.certificate["commitment_hash"]) for run in (self.first, self.second))
        return sha256_hex(":".join([*hashes, measure]).encode())

    def units(self, scores: Scores) -> list[list[Fraction]]:
        """Group scores by what is independent."""
        grouped: dict[object, list[Fraction]] = {}
        for episode, score in scores.items():
            cluster = (self.clusters or {}).get(episode)
            grouped.setdefault((episode,) if cluster is None else cluster, []).append(score)
        return list(grouped.values())


def measure_difference(first: SealedRun, second: SealedRun, measure: str) -> JsonObject:
    """Return first minus second on one measure, each from -1 to 1; never raises.

    `counted` is how many episodes count on either side: of paired runs those that count for both.
    `left_out` counts the others, by whom they count for; `failed` the episodes that failed, which
    count 0. `first` and `second` are the means over what is counted, so not the published scores
    where some are left out. `difference` has its interval, `at_worst` the bounds with every gap of
    either side as 0 and as 1 (null where people have a share, which no difference here has).
    `detectable` is the difference that as many episodes would show four times in five; null where
    there is none up to 1, and for two samples. `flips` are the paired episodes whose scores differ,
    the farthest first.
    """
    key = ("commitment_hash", "theatre_id")
    ours, theirs = ([str(run.certificate[name]) for name in key] for run in (first, second))
    is_turned = ours > theirs
    pair = _pair(*((second, first) if is_turned else (first, second)))
    found = _paired(pair, measure) if pair.is_paired else _two_samples(pair, measure)
    if is_turned:
        found = _turned(found)
    scores = first.scores[measure], second.scores[measure]
    total, both = len(first.outcomes), len(scores[0].keys() & scores[1].keys())
    only = len(scores[0]) - both, len(scores[1]) - both
    return {
        "is_paired": pair.is_paired,
        **found,
        "left_out": {"first": only[1], "second": only[0], "both": total - both - sum(only)},
        "failed": {
            name: sum(one is EpisodeOutcome.MISSING for one in run.outcomes.values())
            for name, run in (("first", first), ("second", second))
        },
        "at_worst": _worst_case(first, second, measure),
        "flips": _flips(first, second, measure) if pair.is_paired and measure != COMPOSITE else [],
    }


def _pair(first: SealedRun, second: SealedRun) -> _Pair:
    known = first.clusters if first.clusters is not None else second.clusters
    return _Pair(
        first=first,
        second=second,
        clusters=known if known is not None or first.is_clustered else {},
        is_paired=first.worlds == second.worlds,
    )


def _paired(pair: _Pair, measure: str) -> JsonObject:
    ours, theirs = pair.first.scores[measure], pair.second.scores[measure]
    both = {episode: ours[episode] - theirs[episode] for episode in ours if episode in theirs}
    found: JsonObject = {
        "counted": {"first": len(both), "second": len(both)},
        "first": _mean([ours[one] for one in both]),
        "second": _mean([theirs[one] for one in both]),
    }
    if pair.clusters is None:
        return found | _unknown(_mean(list(both.values())))
    units, seed = pair.units(both), pair.seed(measure)
    if pair.clusters:
        difference, detectable = clustered_difference(units, seed=seed)
    else:
        named = {str(place): unit for place, unit in enumerate(units)}
        difference, detectable = mean_difference(named), detectable_difference(named)
    return found | {
        "difference": difference,
        "detectable": detectable,
        "test": _paired_test(pair, both, measure) if both else None,
    }


def _paired_test(pair: _Pair, both: Scores, measure: str) -> JsonObject:
    ours, theirs = pair.first.scores[measure], pair.second.scores[measure]
    if not pair.clusters and all(
        scores[one] in (0, 1) for scores in (ours, theirs) for one in both
    ):
        return {"test": "mcnemar"} | mcnemar([(ours[one] == 1, theirs[one] == 1) for one in both])
    units = [round(sum(unit, Fraction(0)) * NANO) for unit in pair.units(both)]
    return sign_flip_test(units, seed=pair.seed(measure))


def _two_samples(pair: _Pair, measure: str) -> JsonObject:
    ours, theirs = pair.first.scores[measure], pair.second.scores[measure]
    first, second = _mean(list(ours.values())), _mean(list(theirs.values()))
    found: JsonObject = {
        "counted": {"first": len(ours), "second": len(theirs)},
        "first": first,
        "second": second,
    }
    if pair.clusters is None:
        return found | _unknown(None if first is None or second is None else first - second)
    units, clustered = (pair.units(ours), pair.units(theirs)), bool(pair.clusters)
    hashes = (str(run.certificate["commitment_hash"]) for run in (pair.first, pair.second))
    seeds = tuple(sha256_hex(f"{one}:{measure}".encode()) for one in hashes)
    return found | {
        "difference": difference_of_means(
            *units, seeds=cast("tuple[str, str]", seeds), clustered=clustered
        ),
        "detectable": None,
        "test": two_sample_test(*units, seed=pair.seed(measure), clustered=clustered)
        if ours and theirs
        else None,
    }


def _unknown(value: float | None) -> JsonObject:
    """Return a difference without an interval: what belongs together is withheld."""
    return {
        "difference": {"value": value, "low": None, "high": None, "method": CLUSTERS_WITHHELD},
        "detectable": None,
        "test": None,
    }


def _turned(found: JsonObject) -> JsonObject:
    """Return a measured difference as second minus first."""
    turned: dict[str, Any] = {**found, "first": found["second"], "second": found["first"]}
    turned["counted"] = {"first": turned["counted"]["second"], "second": turned["counted"]["first"]}
    old, test = turned["difference"], turned["test"]

    def minus(value: float | None) -> float | None:
        # Adding nought makes a negative nought a plain one.
        return None if value is None else -value + 0.0

    turned["difference"] = old | {
        "value": minus(old["value"]),
        "low": minus(old["high"]),
        "high": minus(old["low"]),
    }
    if test is not None and "only_first" in test:
        turned["test"] = test | {
            "only_first": test["only_second"],
            "only_second": test["only_first"],
        }
    return turned


def _worst_case(first: SealedRun, second: SealedRun, measure: str) -> JsonObject | None:
    ours, theirs = (
        cast("dict[str, Any]", run.documents["aggregate"])["worst_case_bounds"][measure]
        for run in (first, second)
    )
    if has_people(first.documents["template"]) or None in (ours, theirs):
        return None
    low, high = (
        exact(ours["low"]) - exact(theirs["high"]),
        exact(ours["high"]) - exact(theirs["low"]),
    )
    return {"low": rounded_number(low), "high": rounded_number(high)}


def has_people(template: JsonObject) -> bool:
    """Return whether people have a share in a score: it is of no single episode's."""
    steps = cast("list[dict[str, Any]]", template.get("hitl_steps") or [])
    return any(step.get("share") is not None for step in steps)


def _flips(first: SealedRun, second: SealedRun, measure: str) -> list[JsonValue]:
    ours, theirs = first.scores[measure], second.scores[measure]
    closed = first.withheld | second.withheld
    found: list[JsonObject] = [
        {
            "episode_id": episode,
            "seq": seq,
            "first": rounded_number(ours[episode]),
            "second": rounded_number(theirs[episode]),
            "first_outcome": first.outcomes[episode].value,
            "second_outcome": second.outcomes[episode].value,
            "is_withheld": episode in closed,
        }
        for seq, episode in enumerate(first.outcomes, 1)
        if episode in ours and episode in theirs and ours[episode] != theirs[episode]
    ]
    found.sort(key=lambda one: -abs(cast("float", one["first"]) - cast("float", one["second"])))
    return cast("list[JsonValue]", found)


def _mean(scores: Sequence[Fraction]) -> float | None:
    return rounded_number(sum(scores, Fraction(0)) / len(scores)) if scores else None


# The comparison of all runs that are given.


_SHORT = 8
_VERSION = 7
_SHOWN = (
    *("theatre_id", "template_id", "construct_id", "construct_version", "certificate_id"),
    *("verification_tier", "caps", "findings", "replay_count", "episode_counts", "refusal_rate"),
    *("coverage", "commitment_hash", "evidence_bundle_hash", "results_hash"),
    *("theatre_committed_at", "theatre_resolved_at", "expires_at"),
)


def compare_bundles(bundles: Sequence[Path]) -> JsonObject:
    """Return the differences between the runs in `bundles`, pair by pair, with Holm's correction.

    Holm's `p_holm` counts every tested difference of the call, a composite that is the score of one
    criterion not once more. Raises as `read_sealed_run` and `require_comparable`. Whether a bundle
    is honest is the business of `check_bundle`.
    """
    runs = [read_sealed_run(bundle) for bundle in bundles]
    require_comparable(runs)
    named = _named(runs)
    measures = list(runs[0].scores)
    pairs = _with_holm(
        [
            {
                "first": first,
                "second": second,
                "is_paired": named[first].worlds == named[second].worlds,
                "measures": {
                    measure: measure_difference(named[first], named[second], measure)
                    for measure in measures
                },
            }
            for first, second in combinations(named, 2)
        ],
        repeated=next(
            (
                measure
                for measure in measures
                if measure != COMPOSITE
                and all(run.scores[measure] == run.scores[COMPOSITE] for run in runs)
            ),
            None,
        ),
    )
    template, certificate = runs[0].documents["template"], runs[0].certificate
    return {
        "is_certificate": False,
        "dataset_hash": certificate["dataset_hash"],
        "ground_truth_hash": certificate["ground_truth_hash"],
        "ground_truth_source": certificate["ground_truth_source"],
        "episodes": len(runs[0].outcomes),
        "clusters": len(set((runs[0].clusters or {}).values())),
        "scorers": runs[0].documents["receipt"]["scorer_pins"],
        "scorer_kinds": runs[0].documents["receipt"]["scorer_kinds"],
        "methodology_version": certificate["methodology_version"],
        "weights": cast("JsonObject", template["criteria"]).get("weights"),
        "people_have_a_share": has_people(template),
        "runs": {name: _shown(run, measures) for name, run in named.items()},
        "pairs": cast("list[JsonValue]", pairs),
        "ranking": {
            measure: ranking({name: run.scores[measure] for name, run in named.items()})
            for measure in measures
        },
    }


def _named(runs: Sequence[SealedRun]) -> dict[str, SealedRun]:
    named = dict(zip(_names(runs), runs, strict=True))
    if len(named) == len(runs):
        return named
    # Ids that were made one after the other begin alike, and a construct can be called anything.
    return {
        f"{one.certificate['construct_id']} ({one.certificate['theatre_id']})": one for one in runs
    }


def _names(runs: Sequence[SealedRun]) -> Iterator[str]:
    """Yield the construct ids; where one is repeated with its version, or with its theatre."""
    facts = [run.certificate for run in runs]
    ids = Counter(str(one["construct_id"]) for one in facts)
    versions = Counter((one["construct_id"], one["construct_version"][:_VERSION]) for one in facts)
    for one in facts:
        construct_id, version = one["construct_id"], one["construct_version"][:_VERSION]
        if ids[construct_id] == 1:
            yield construct_id
        elif versions[construct_id, version] == 1:
            yield f"{construct_id} @ {version}"
        else:
            yield f"{construct_id} ({one['theatre_id'][:_SHORT]})"


def _shown(run: SealedRun, measures: Sequence[str]) -> JsonObject:
    certificate = run.certificate
    published = {**certificate["scores"], COMPOSITE: certificate[COMPOSITE]}
    return {
        **{name: certificate[name] for name in _SHOWN},
        "scores": {measure: published[measure] for measure in measures},
        "score_intervals": certificate["score_intervals"],
        "counted": {measure: len(run.scores[measure]) for measure in measures},
        "withheld": len(run.withheld),
    }


def _with_holm(pairs: list[JsonObject], *, repeated: str | None) -> list[JsonObject]:
    """Correct all p-values; the composite takes that of `repeated`, the criterion that it is."""
    measures = [cast("dict[str, JsonObject]", pair["measures"]) for pair in pairs]
    left_out = set() if repeated is None else {COMPOSITE}
    found = [named[name] for named in measures for name in named.keys() - left_out]
    tested = [one for one in found if one["test"] is not None]
    p_values = [cast("float", cast("JsonObject", one["test"])["p_value"]) for one in tested]
    for one in found:
        one["p_holm"] = None
    for one, corrected in zip(tested, holm(p_values), strict=True):
        one["p_holm"] = corrected
    if repeated is not None:
        for named in measures:
            named[COMPOSITE] |= {name: named[repeated][name] for name in ("test", "p_holm")}
    return pairs


def ranking(scores: Mapping[str, Scores]) -> JsonObject:
    """Return how the runs rank by their means on one measure; `scores` are by run and episode.

    Over `episodes` that count for every run, so that no construct gains by declining hard ones;
    without one, `runs` is empty. In it: `mean`; `rank`, 1 for the highest, which equal means share;
    `tied`, how many others have the same; `percentile`, 0 to 100, the share of the *other* runs
    that lie below, with equal ones counted half, null where there are no others; `of`, how many are
    ranked.
    """
    common = set.intersection(*(set(counted) for counted in scores.values()))
    means = {
        name: sum((counted[episode] for episode in common), Fraction(0)) / len(common)
        for name, counted in scores.items()
        if common
    }
    return {"episodes": len(common), "runs": {name: _place(name, means) for name in means}}


def _place(name: str, means: Mapping[str, Fraction]) -> JsonObject:
    own = means[name]
    others = [mean for other, mean in means.items() if other != name]
    below, tied = sum(mean < own for mean in others), others.count(own)
    return {
        "mean": rounded_number(own),
        "rank": 1 + len(others) - below - tied,
        "tied": tied,
        "percentile": ratio(100 * (2 * below + tied), 2 * len(others)),
        "of": len(means),
    }
