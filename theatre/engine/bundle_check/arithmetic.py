"""The check's own arithmetic: what follows from the scores of a run, from `docs/` alone.

It imports the standard library and nothing of this project, and shares no line with the engine's
`scoring` and `tier_assigner`: an error in a mean there is found here. `verify_bundle.py` is this
file and a reader. Three things are not computed here, because they are long and the check may share
them: intervals that are resampled or have a human part, and what calibrated probabilities would
show. They are asked of the caller.

Scores are whole billionths, sums are exact, and everything is rounded once
(docs/contract/scoring.md §4).
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeGuard

NANO: Final = 10**9
Z: Final = 1.959963984540054
DISTINCT: Final = 1024
"""Of so many sets of results it is kept what an episode comes to."""
MIN_UNITS, MAX_RESAMPLED, MIN_PROBABILITIES = 2, 5000, 100
COMPOSITE: Final = "composite_score"
SCORED, MISSING, NOT_APPLICABLE, DECLINED, UNSCORED, EXCLUDED, NOT_RUN = (
    "scored",
    "missing",
    "not_applicable",
    "declined",
    "unscored",
    "excluded",
    "not_run",
)
VERDICT_OF: Final = {"timeout": MISSING, "error": MISSING, "refused": EXCLUDED, None: NOT_RUN}
"""The result of a criterion that applies where there is no answer, by the last response."""

KINDS: Final = {"exact", "textual", "judged"}
SCORER_KINDS: Final = {
    "brier": "exact",
    "contains_terms": "textual",
    "debate_judge": "judged",
    "debate_quality": "textual",
    "debate_transitions": "exact",
    "exact_match": "exact",
    "field_match": "exact",
    "freshness_decay": "exact",
    "harness_score": "exact",
    "hash_chain": "exact",
    "json_schema": "exact",
    "label_accuracy": "exact",
    "lexical_precision": "textual",
    "lexical_recall": "textual",
    "lexical_reply_accuracy": "textual",
    "llm_judge": "judged",
    "numeric_tolerance": "exact",
    "planted_faults": "exact",
    "record_completeness": "exact",
    "sequence_similarity": "textual",
    "set_f1": "exact",
    "text_match": "exact",
    "timestamp_order": "exact",
}
"""What the scores of each shipped scorer rest on, in any version (docs/scorers.md, "Kinds")."""
RUNNERS: Final = {"single_call", "axion", "axion_pair", "debate"}
"""The episode runners that a release ships: what scorers see of an episode, they make."""
SIDES: Final = {"axion_pair": ("honest", "pseudo")}
"""Runner of several constructs → the member of its result that is about each, in their order."""
FORM_SCORERS: Final = {"freshness_decay", "json_schema", "record_completeness", "timestamp_order"}
"""Exact ones that hold an answer to an expectation only where `params` name one, or never."""
TRANSITIONS: Final = "debate_transitions"
BOTH_SIDES: Final = "turned_and_kept"
"""The scorer of what control did, and its one measure that no single habit is enough for."""
PROBES: Final = {"begun_true", "begun_false"}
"""What to keep an answer, and to change it, is enough for; a bad start is for all others."""

Document = dict[str, Any]
Verdict = int | str
"""Billionths of a score, or the word for why there is none."""
Repeat = tuple[str, Mapping[str, float | str]]
"""How one of an episode's repeats ended, and its results by criterion."""
Unit = tuple[tuple[int, int], ...]
"""For each criterion the sum of what counts, in billionths, and the number of it."""
Weighed = tuple[Unit, int]
"""A unit, and how often it is there."""
Bounds = Callable[[str, str], tuple[float | None, float | None]]
"""(name, method) → the bounds of an interval that is not computed here."""
Calibrated = Callable[[Mapping[int, int]], tuple[float, float]]
"""(billionths of a probability → answers) → the mean and the 95 % point of the ECE by chance."""


def exact(number: float) -> Fraction:
    """Return a number as the decimal that it is written as."""
    return Fraction(Decimal(repr(number)))


def billionths(value: object) -> int | None:
    """Return a number from 0 to 1 in billionths, half-even; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= 1:
        return None
    if value in {0, 1}:
        return NANO * int(value)
    return int((Decimal(repr(value)) * NANO).to_integral_value(ROUND_HALF_EVEN))


def divided(numerator: int, denominator: int) -> int:
    """Return a quotient as the nearest whole number, a half as the even one."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2))


def published(value: Fraction | None) -> float | None:
    """Return a value as documents have it: to nine places, half-even; None stays None."""
    if value is None:
        return None
    return divided(value.numerator * NANO, value.denominator) / NANO


def ratio(numerator: int, denominator: int) -> Fraction | None:
    """Return a share, None of nothing."""
    return Fraction(numerator, denominator) if denominator else None


class Plan:
    """What a committed template says about how scores are added up (docs/templates.md)."""

    def __init__(self, template: Document) -> None:
        criteria, scoring = template["criteria"], template.get("scoring") or {}
        policy = template.get("execution_policy") or {}
        scorers = scoring.get("criteria_scorers") or {}
        self.ids: list[str] = list(criteria["criteria_ids"])
        stated = criteria.get("weights") or dict.fromkeys(self.ids, 1)
        weights = [exact(stated.get(name, 0)) for name in self.ids]
        scale = math.lcm(*(weight.denominator for weight in weights))
        self.shares: list[int] = [int(weight * scale) for weight in weights]
        """Weights as whole numbers, in the order of `ids`; their sum stands for 1."""
        self.split = exact(scoring.get("holdout_split", 0.2))
        self.max_refusal_rate = exact(policy.get("max_refusal_rate", 0.5))
        settles = policy.get("on_threshold", "settle") == "settle"
        self.threshold = exact(policy.get("failure_threshold", 0.2)) if settles else None
        labelled = [c for c in self.ids if scorers.get(c, {}).get("scorer") == "label_accuracy"]
        only = labelled[0] if len(labelled) == 1 else None
        self.repeats = int(policy.get("repeats", 1))
        """How often each episode is asked."""
        named: str | None = scoring.get("calibration_criterion", only)
        self.calibrated = named if self.repeats == 1 else None
        self.human: dict[str, Fraction] = {
            step["criterion_id"]: exact(step["share"])
            for step in template.get("hitl_steps") or []
            if step.get("share") is not None and step.get("criterion_id") is not None
        }
        """Criterion → the share that people have in it."""
        self.few_rated = sorted(
            step["criterion_id"]
            for step in template.get("hitl_steps") or []
            if step.get("criterion_id") in self.human
            and step.get("share") is not None
            and step.get("items", 1) < 30 * exact(step["share"])
        )
        """Criteria in which people's share is larger than their answers are a part of thirty."""
        self.scorers: dict[str, str] = {
            name: scorers.get(name, {}).get("scorer", "exact_match") for name in self.ids
        }
        config = template.get("product_theatre_config") or {}
        self.runner: str = config.get("episode_runner", "single_call")
        self.recorded = recorded_types(template)
        self.of_others = criteria_of_others(template)
        self.form_alone = {
            name
            for name in self.ids
            if self.scorers[name] in FORM_SCORERS
            and "expected" not in (scorers[name].get("params") or {})
        }
        """Criteria that need no ground truth."""
        self.transitions = {
            name: (scorers[name].get("params") or {}).get("measure")
            for name in self.ids
            if self.scorers[name] == TRANSITIONS
        }
        """Criterion about control → its measure."""
        answering = {own["model"] for _, _, _, own in settings_of(template) if "model" in own}
        self.judged_by_own = {
            name
            for name in self.ids
            for params in [scorers.get(name, {}).get("params") or {}]
            for judge in (params.get("panel") or {"judges": [params.get("judge") or {}]})["judges"]
            if judge.get("model") in answering
        }
        """Criteria of which a judge is a model that answers, too."""

    def template_caps(self) -> list[str]:
        """Return the codes for what other programs made, and for what too few answers decide."""
        by_harness = (
            name
            for name, share in zip(self.ids, self.shares, strict=True)
            if share and self.scorers[name] == "harness_score" and self.human.get(name) != 1
        )
        imported = ["evidence:imported"] if "imported" in self.recorded else []
        few = [f"ratings-too-few:{name}" for name in self.few_rated]
        return imported + sorted(f"scores-by-harness:{name}" for name in by_harness) + few

    def scorer_findings(self) -> list[str]:
        """Return a code for each criterion that says less of the construct than it seems to.

        An unknown scorer decides it or an unknown runner makes what is scored, another construct of
        the chain answered it, the form of an answer is all that counts, who answers judges it, or
        it weighs less than a tenth of what its judge decides elsewhere.
        """
        # Whatever it weighs: without a weight, too, its score stands on the certificate.
        decides = {name: self.scorers[name] for name in self.ids if self.human.get(name) != 1}
        own = [
            f"own-scorer:{name}"
            for name, it in decides.items()
            if it not in SCORER_KINDS or self.runner not in RUNNERS
        ]
        own += [f"answered-by-another:{name}" for name in decides if name in self.of_others]
        own += [f"form-alone:{name}" for name in decides if name in self.form_alone]
        own += [f"judges-itself:{name}" for name in decides if name in self.judged_by_own]
        shares = dict(zip(self.ids, self.shares, strict=True))
        heaviest = {
            it: max(shares[name] for name in decides if decides[name] == it)
            for it in decides.values()
            if SCORER_KINDS.get(it) == "judged"
        }
        own += [
            f"unweighted-judge:{name}"
            for name, share in shares.items()
            if 10 * share < heaviest.get(self.scorers[name], 0)
        ]
        control = {name: it for name, it in self.transitions.items() if name in decides}
        both = max((shares[name] for name, it in control.items() if it == BOTH_SIDES), default=0)
        habits = {n: it if it in PROBES else "" for n, it in control.items() if it != BOTH_SIDES}
        had: Counter[str] = Counter()
        for name, habit in habits.items():
            had[habit] += shares[name]
        return own + [
            f"one-sided:{name}"
            for name, habit in habits.items()
            if shares[name] >= 10 * both or 2 * had[habit] >= sum(self.shares)
        ]

    def weighted(self, values: Mapping[str, Fraction | None]) -> Fraction | None:
        """Return the weighted mean over all criteria, None where one of them has no value."""
        total = Fraction(0)
        for name, share in zip(self.ids, self.shares, strict=True):
            value = values[name]
            if value is None:
                return None
            total += share * value
        return total / sum(self.shares)


def criteria_of_others(template: Document) -> set[str]:
    """Return the criteria of a chain that are about another construct than that under test.

    Of interactive episodes about what came of that other one; about both, they are about this one.
    """
    config = template.get("product_theatre_config") or {"construct_under_test": None}
    under_test, steps = config["construct_under_test"], template.get("resolution_programme") or []
    chain = config.get("construct_chain") or [
        one.get("construct_id", under_test)
        for one in steps
        if one["type"] == "construct_invocation"
    ]
    if len(chain) < 2:  # noqa: PLR2004 - a chain
        return set()
    runner = config.get("episode_runner", "single_call")
    scorers = (template.get("scoring") or {}).get("criteria_scorers") or {}
    fields = {
        name: str((scorers.get(name, {}).get("params") or {}).get("field", ""))
        for name in template["criteria"]["criteria_ids"]
    }
    sides = dict(zip(SIDES.get(runner, ()), chain, strict=False))

    def answering(field: str) -> object:
        named, colon, path = field.partition(":")
        if runner == "single_call":
            return named if colon else chain[-1]
        return sides.get((path or field).partition(".")[0], under_test)

    return {name for name, field in fields.items() if answering(field) != under_test}


def kinds_of(scorers: Iterable[str], stated: Mapping[str, str]) -> dict[str, str]:
    """Return scorer → kind: of shipped ones by the table, of others as stated, else textual."""
    known = {name: kind for name, kind in stated.items() if kind in KINDS} | SCORER_KINDS
    return {name: known.get(name, "textual") for name in sorted(set(scorers))}


class Found(NamedTuple):
    """What an episode comes to, whichever it is; `counted` is in billionths."""

    status: str | None
    outcome: str
    verdicts: tuple[Verdict, ...]
    counted: tuple[int | None, ...]
    composite: float | None


class Tally:
    """Adds up a run, episode by episode in the order of the dataset.

    `add` returns the line of `scores/per_episode.jsonl`. An episode behind the one that ended the
    run counts as not run, whatever is recorded of it (docs/contract/evidence.md §8).
    """

    def __init__(self, template: Document, commitment_hash: str, episodes: int) -> None:
        self.plan = Plan(template)
        self.commitment_hash = commitment_hash
        self.episodes = episodes
        threshold = self.plan.threshold
        asked = episodes * self.plan.repeats
        self.most_missing = None if threshold is None else math.floor(threshold * asked)
        """With more missing answers than that the run has ended."""
        self.missing_answers = 0
        self.ended = False
        self.answers: Counter[str] = Counter()
        """Status → answers to episodes that are asked more than once."""
        self.repeated: Counter[tuple[tuple[int, ...] | None, ...]] = Counter()
        """What each repeat of an episode counts on each criterion → episodes with just that."""
        self.statuses: Counter[str | None] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.verdicts: dict[str, Counter[str]] = {name: Counter() for name in self.plan.ids}
        self.rows: Counter[tuple[bool, tuple[int | None, ...]]] = Counter()
        """(held out?, what counts on each criterion in billionths) → episodes that were run."""
        self.clusters: dict[str, list[list[int]]] = {}
        """Cluster → for each criterion [sum of what counts, number of it]."""
        self.loose: Counter[tuple[int | None, ...]] = Counter()
        """As `rows`, of the episodes that were run and are in no cluster."""
        self.bins = [[0, 0, 0] for _ in range(10)]
        """[answers, right ones, sum of probabilities] for each tenth."""
        self.probabilities: Counter[int] = Counter()
        self.squares = self.silent = self.undecided = 0
        # Most episodes come to what others came to: it is computed once. Typed: true is not 1.
        self.come_to = lru_cache(maxsize=DISTINCT, typed=True)(self._come_to)

    def add(
        self,
        *,
        seq: int,
        episode_id: str,
        status: str | None,
        results: Mapping[str, float | str],
        cluster_key: str | None = None,
        confidence: object = None,
        repeats: Sequence[Repeat] = (),
    ) -> Document:
        """Count one episode and return its line.

        `status` is that of the last response (None: never called). `results` has for each criterion
        the scorer's number, `declined`, `unscored` or `not_applicable`; where there is no
        successful answer only `not_applicable` is read from it. Where episodes are asked more than
        once, both are in `repeats`, for each of the answers.
        """
        if self.ended:
            status, repeats = None, ()
        ids, each = self.plan.ids, list[list[Verdict]]()
        if repeats:
            status = status_of_all([one for one, _ in repeats])
            each = [
                [self._verdict(one, own[name]) for one, own in repeats] for name in self.plan.ids
            ]
            found = self._found(status, [merged(status, of_repeats) for of_repeats in each])
            self.missing_answers += sum(VERDICT_OF.get(one) == MISSING for one, _ in repeats)
        else:
            found = self.come_to(status, *(results[name] for name in ids))
            self.missing_answers += found.outcome == MISSING
        split = self.plan.split
        held_out = bool(split) and is_held_out(self.commitment_hash, episode_id, split)
        self.count(found, cluster_key, held_out=held_out)
        if self.most_missing is not None and self.missing_answers > self.most_missing:
            self.ended = True
        if self.plan.calibrated is not None:
            self._calibrate(found.verdicts[ids.index(self.plan.calibrated)], confidence)
        line = {
            "seq": seq,
            "episode_id": episode_id,
            "outcome": found.outcome,
            "scores": {
                name: None if value is None else value / NANO
                for name, value in zip(ids, found.counted, strict=True)
            },
            "composite": found.composite,
            "holdout": held_out,
        }
        return line if self.plan.repeats == 1 else line | self._shown(repeats, each, found)

    def count(
        self, found: Found, cluster_key: str | None, *, held_out: bool = False, times: int = 1
    ) -> None:
        """Count so many episodes that came to the same."""
        self.statuses[found.status] += times
        self.outcomes[found.outcome] += times
        for name, verdict in zip(self.plan.ids, found.verdicts, strict=True):
            self.verdicts[name][verdict if isinstance(verdict, str) else SCORED] += times
        if found.status is None:
            return
        self.rows[held_out, found.counted] += times
        if cluster_key is None:
            self.loose[found.counted] += times
            return
        sums = self.clusters.setdefault(cluster_key, [[0, 0] for _ in found.counted])
        for pair, value in zip(sums, found.counted, strict=True):
            if value is not None:
                pair[0] += value * times
                pair[1] += times

    def _shown(
        self, repeats: Sequence[Repeat], each: Sequence[Sequence[Verdict]], found: Found
    ) -> Document:
        """Count what each repeat counts; return the member of the line that says it."""
        if not repeats:
            return {"repeats": None}
        answers = [
            None if value is None else tuple(counted_value(one) or 0 for one in of_repeats)
            for value, of_repeats in zip(found.counted, each, strict=True)
        ]
        self.answers.update(str(one) for one, _ in repeats)
        self.repeated[tuple(answers)] += 1
        scores = {
            name: None if values is None else [value / NANO for value in values]
            for name, values in zip(self.plan.ids, answers, strict=True)
        }
        return {"repeats": {"statuses": [status for status, _ in repeats], "scores": scores}}

    def _come_to(self, status: str | None, *results: float | str) -> Found:
        """Return what an episode comes to by its results, in the order of the criteria."""
        return self._found(status, [self._verdict(status, result) for result in results])

    def _found(self, status: str | None, verdicts: Sequence[Verdict]) -> Found:
        counted = tuple(counted_value(verdict) for verdict in verdicts)
        composite = self._composite(counted)
        return Found(status, outcome_of(status, verdicts), tuple(verdicts), counted, composite)

    def _verdict(self, status: str | None, result: float | str) -> Verdict:
        if status is None or (status != "success" and result != NOT_APPLICABLE):
            return VERDICT_OF[status]
        if isinstance(result, str):
            if result not in {NOT_APPLICABLE, DECLINED, UNSCORED}:
                raise ValueError(f"expected a score or a gap, got {result!r}")
            return result
        nano = billionths(result)
        return UNSCORED if nano is None else nano

    def _calibrate(self, verdict: Verdict, confidence: object) -> None:
        if isinstance(verdict, str):
            return
        probability = billionths(confidence)
        if verdict not in {0, NANO}:
            self.undecided += 1
        elif probability is None:
            self.silent += 1
        else:
            in_bin = self.bins[min(10 * probability // NANO, 9)]
            for place, value in enumerate((1, verdict // NANO, probability)):
                in_bin[place] += value
            self.probabilities[probability] += 1
            self.squares += (probability - verdict) ** 2

    def _composite(self, counted: Sequence[int | None]) -> float | None:
        pairs = zip(self.plan.shares, counted, strict=True)
        numbers = [(share, value) for share, value in pairs if value is not None]
        total = sum(share for share, _ in numbers)
        return divided(sum(s * v for s, v in numbers), total) / NANO if total else None

    # the result of the run

    @property
    def run(self) -> int:
        """How many episodes were run."""
        return sum(self.outcomes.values()) - self.outcomes[NOT_RUN]

    def episode_counts(self) -> Document:
        """Return the counts by outcome; they add up to `total`."""
        return {
            "total": sum(self.outcomes.values()),
            "scored": self.outcomes[SCORED],
            "timeout": self.statuses["timeout"],
            "error": self.statuses["error"],
            "refused": self.statuses["refused"],
            "unscored": self.outcomes[UNSCORED],
            "not_run": self.outcomes[NOT_RUN],
        }

    def score_counts(self) -> dict[str, Document]:
        """Return for each criterion how many episodes it scored, and how many not, and why."""
        words = (SCORED, MISSING, NOT_APPLICABLE, DECLINED, UNSCORED)
        return {name: {word: seen[word] for word in words} for name, seen in self.verdicts.items()}

    def counted_facts(self) -> Document:
        """Return those of the facts in `tier.json` that are counts of this run."""
        return {
            "replay_count": self.outcomes[SCORED],
            "failures": self.outcomes[MISSING],
            "refusals": self.outcomes[EXCLUDED],
            "run": self.run,
            "total": sum(self.outcomes.values()),
            "max_refusal_rate": str(self.plan.max_refusal_rate),
            "criterion_counts": self.score_counts(),
            **({} if self.plan.repeats == 1 else {"answers": self._answer_counts()}),
        }

    def _answer_counts(self) -> Document:
        return {
            "asked": self.answers.total(),
            "failed": self.answers["timeout"] + self.answers["error"],
            "refused": self.answers["refused"],
        }

    def aggregate(
        self,
        *,
        bounds: Bounds,
        calibrated: Calibrated,
        people: Mapping[str, Fraction | None] | None = None,
        human_scores: Document | None = None,
        computed: Document | None = None,
    ) -> Document:
        """Return `scores/aggregate.json` without `results_hash`.

        `bounds(name, method)` gives the bounds of an interval that is not computed here, and
        `calibrated(probabilities)` the mean and the 95 % point of the ECE that these (billionths →
        number of answers) would show. `people` is the human mean of each criterion with a share.
        """
        people = people or {}
        scores = self.with_people(self.machine_means(), people)
        refused = self._means(SCORED, MISSING, EXCLUDED)
        document = {
            "scores": each_published(scores),
            "composite_score": published(self.plan.weighted(scores)),
            "score_counts": self.score_counts(),
            "episode_counts": self.episode_counts(),
            "coverage": published(ratio(self.outcomes[SCORED], self.run - self.outcomes[EXCLUDED])),
            "refusal_rate": published(ratio(self.outcomes[EXCLUDED], self.run)),
            "score_intervals": self._intervals(scores, bounds),
            "holdout_scores": self._holdout() if self.plan.split else None,
            "answered_only": each_published(self.with_people(self._means(SCORED), people)),
            "refusals_as_zero": each_published(self.with_people(refused, people)),
            "worst_case_bounds": self._worst_case(people),
            "calibration": self._calibration(calibrated),
            "human_scores": human_scores,
        }
        if self.plan.repeats > 1:
            document["repeats"] = self._repeats(scores)
        return document if computed is None else document | {"computed": computed}

    def machine_means(self) -> dict[str, Fraction | None]:
        """Return each criterion's mean, failures as 0, without what people gave."""
        return self._means(SCORED, MISSING)

    def _means(self, *words: str, gap: int = 0) -> dict[str, Fraction | None]:
        """Return the means over the episodes with these verdicts; all but scored count `gap`."""
        sums = dict.fromkeys(self.plan.ids, 0)
        for (_, counted), times in self.rows.items():
            for name, value in zip(self.plan.ids, counted, strict=True):
                sums[name] += times * (value or 0)
        means: dict[str, Fraction | None] = {}
        for name, total in sums.items():
            counts = self.verdicts[name]
            gaps = sum(counts[word] for word in words if word != SCORED)
            means[name] = ratio(total + gap * gaps * NANO, (counts[SCORED] + gaps) * NANO)
        return means

    def with_people(
        self, machine: Mapping[str, Fraction | None], people: Mapping[str, Fraction | None]
    ) -> dict[str, Fraction | None]:
        """Return scores with what people gave (docs/contract/evidence.md §9)."""
        scores = dict(machine)
        for name, share in self.plan.human.items():
            mean, given = machine[name], people.get(name)
            if given is None or (mean is None and share < 1):
                scores[name] = None
            else:
                scores[name] = (1 - share) * (mean or 0) + share * given
        return scores

    def _worst_case(self, people: Mapping[str, Fraction | None]) -> Document:
        every = (SCORED, MISSING, EXCLUDED, DECLINED, UNSCORED, NOT_RUN)
        low, high = (self.with_people(self._means(*every, gap=gap), people) for gap in (0, 1))
        pairs = {name: (low[name], high[name]) for name in self.plan.ids}
        pairs[COMPOSITE] = (self.plan.weighted(low), self.plan.weighted(high))
        return {
            name: None
            if ends[0] is None
            else {"low": published(ends[0]), "high": published(ends[1])}
            for name, ends in pairs.items()
        }

    # intervals

    def units(self) -> Iterator[Weighed]:
        """Yield what an interval draws again: clusters, and episodes that are in none."""
        for sums in self.clusters.values():
            yield tuple((total, number) for total, number in sums), 1
        for counted, times in self.loose.items():
            yield unit_of(counted), times

    def _intervals(
        self,
        scores: Mapping[str, Fraction | None],
        bounds: Bounds,
    ) -> Document:
        intervals = {}
        for place, name in enumerate(self.plan.ids):
            shares, mixed = one_of(place, len(self.plan.ids)), name in self.plan.human
            intervals[name] = self._interval(name, shares, scores[name], bounds, mixed=mixed)
        intervals[COMPOSITE] = self._interval(
            COMPOSITE,
            self.plan.shares,
            self.plan.weighted(scores),
            bounds,
            mixed=bool(self.plan.human),
        )
        return intervals

    def _interval(
        self,
        name: str,
        shares: Sequence[int],
        score: Fraction | None,
        bounds: Bounds,
        *,
        mixed: bool,
    ) -> Document:
        """Return the interval of a weighted mean by docs/contract/scoring.md §5."""
        whole = name == COMPOSITE
        prefix = "cluster_" if self.clusters else ""
        spread = Spread(self.units(), shares)
        ends: tuple[float | None, float | None] = (None, None)
        method = "undefined"
        if score is None:
            pass
        elif mixed:
            ends = bounds(name, f"{prefix}mixed_clt")
            method = "undefined" if ends[0] is None else f"{prefix}mixed_clt"
        elif min(spread.on_each if whole else [spread.number]) < MIN_UNITS:
            pass
        elif not whole and not prefix and self._is_whole(name):
            method, ends = "wilson", wilson(int(score * spread.number), spread.number)
        elif spread.square and spread.number > MAX_RESAMPLED:
            method, ends = f"{prefix}clt", spread.normal(score)
        elif spread.square:
            method = f"{prefix}bca"
            ends = bounds(name, method)
        return interval_of(method, ends)

    def narrowed(self, aggregate: Document) -> list[str]:
        """Return a code for each score whose interval clusters make less than half as wide.

        Than score ± z · √(Σ (x - mean)² / n (n - 1)) over episodes (docs/certificate.md).
        """
        machine = [1 - self.plan.human.get(name, 0) for name in self.plan.ids]
        weights = [w * part for w, part in zip(self.plan.shares, machine, strict=True)]
        found = []
        for place, name in enumerate([*self.plan.ids, COMPOSITE] if self.clusters else ()):
            kept: Counter[int | Fraction] = Counter()
            for (_, row), times in self.rows.items():
                value = self._weighted(row, weights) if name == COMPOSITE else row[place]
                if value is not None:
                    kept[value * (1 if name == COMPOSITE else machine[place])] += times
            n, interval = kept.total(), aggregate["score_intervals"][name]
            if n < MIN_UNITS or interval["low"] is None:
                continue
            total = sum(value * times for value, times in kept.items())
            squares = sum(times * (n * value - total) ** 2 for value, times in kept.items())
            width = (exact(interval["high"]) - exact(interval["low"])) * NANO
            if width**2 < exact(Z) ** 2 * squares / (n**3 * (n - 1)):
                found.append(f"interval-narrowed:{name}")
        return found

    def _weighted(self, row: Sequence[int | None], weights: Sequence[int | Fraction]) -> int | None:
        pairs = zip(self.plan.shares, row, strict=True)
        total = sum(share for share, value in pairs if value is not None)
        number = sum(w * (value or 0) for w, value in zip(weights, row, strict=True))
        return int(number // total) if total else None

    def _is_whole(self, name: str) -> bool:
        place = self.plan.ids.index(name)
        return all(counted[place] in {None, 0, NANO} for _, counted in self.rows)

    # answers to the same question (docs/contract/scoring.md §9)

    def _repeats(self, scores: Mapping[str, Fraction | None]) -> Document:
        answers, whole = self._answer_counts(), self.plan.weighted(scores)
        stand_alone = {name: one_of(at, len(self.plan.ids)) for at, name in enumerate(scores)}
        return {
            "k": self.plan.repeats,
            "asked": answers["asked"],
            "statuses": {
                name: self.answers[name]
                for name in ("success", *(one for one in VERDICT_OF if one))
            },
            "failure_rate": published(ratio(answers["failed"], answers["asked"])),
            "criteria": {
                name: self._variances(place)
                | {"these_items": self._these_items(scores[name], stand_alone[name])}
                for place, name in enumerate(self.plan.ids)
            },
            "composite_score": {"these_items": self._these_items(whole, self.plan.shares)},
        }

    def _variances(self, place: int) -> Document:
        """Return how one criterion varies between episodes and within them."""
        k = self.plan.repeats
        counted = [(row[place], times) for row, times in self.repeated.items()]
        rows = [(values, times) for values, times in counted if values is not None]
        items = sum(times for _, times in rows)
        means = [(Fraction(sum(values), k * NANO), times) for values, times in rows]
        within = between = None
        if items:
            squares = sum(
                times * sum((Fraction(value, NANO) - mean) ** 2 for value in values)
                for (values, times), (mean, _) in zip(rows, means, strict=True)
            )
            within = Fraction(squares, items * (k - 1))
        if within is not None and items >= MIN_UNITS:
            centre = sum((mean * times for mean, times in means), Fraction(0)) / items
            around = ((mean - centre) ** 2 * times for mean, times in means)
            of_means = sum(around, Fraction(0)) / (items - 1)
            between = max(Fraction(0), of_means - within / k)
        return {
            "items": items,
            "items_that_vary": sum(times for values, times in rows if len(set(values)) > 1),
            "between_item_variance": published(between),
            "within_item_variance": published(within),
            "pass": self._passes(rows, items),
        }

    def _passes(self, rows: Sequence[tuple[tuple[int, ...], int]], items: int) -> Document | None:
        """Return the chance that one of j answers is right, and that all are, for j = 1 … k."""
        if not items or any(value not in {0, NANO} for values, _ in rows for value in values):
            return None
        k = self.plan.repeats
        right: Counter[int] = Counter()
        for values, times in rows:
            right[values.count(NANO)] += times

        def drawn(j: int, of: Callable[[int], int]) -> Fraction:
            chances = (
                times * Fraction(math.comb(of(c), j), math.comb(k, j)) for c, times in right.items()
            )
            return sum(chances, Fraction(0)) / items

        def interval(number: int) -> Document:
            if items < MIN_UNITS or self.clusters:
                return interval_of("undefined", (None, None))
            return interval_of("wilson", wilson(number, items))

        return {
            "any": [published(1 - drawn(j, lambda c: k - c)) for j in range(1, k + 1)],
            "any_interval": interval(items - right[0]),
            "all": [published(drawn(j, lambda c: c)) for j in range(1, k + 1)],
            "all_interval": interval(right[k]),
        }

    def _these_items(self, score: Fraction | None, shares: Sequence[int]) -> Document:
        """Return the interval of a weighted mean if the same episodes were asked again.

        With u the weighted sum of what a repeat adds to the means, the variance is the sum over
        episodes of the variance of u over their repeats, divided by k.
        """
        k, used = self.plan.repeats, [place for place, share in enumerate(shares) if share]
        items = {
            place: sum(n for row, n in self.repeated.items() if row[place] is not None)
            for place in used
        }
        if score is None or not all(items.values()):
            return interval_of("undefined", (None, None))
        weights = {at: Fraction(shares[at], sum(shares) * items[at] * NANO) for at in used}
        variance = Fraction(0)
        for row, times in self.repeated.items():
            kept = [(weights[at], values) for at in used if (values := row[at]) is not None]
            adds = [sum((w * v[n] for w, v in kept), Fraction(0)) for n in range(k)]
            mean = sum(adds, Fraction(0)) / k
            squares = sum(((one - mean) ** 2 for one in adds), Fraction(0))
            variance += times * squares / (k * (k - 1))
        if not variance:
            return interval_of("undefined", (None, None))
        half = Z * math.sqrt(variance)
        low, high = max(float(score) - half, 0.0), min(float(score) + half, 1.0)
        return interval_of("within_item_normal", (round(low, 6), round(high, 6)))

    def _holdout(self) -> Document:
        parts = [
            [(unit_of(row), n) for (held, row), n in self.rows.items() if held is held_out]
            for held_out in (False, True)
        ]
        means = [self._part_means(part) for part in parts]
        gap = {}
        for place, name in enumerate([*self.plan.ids, COMPOSITE]):
            whole = name == COMPOSITE
            shares = self.plan.shares if whole else one_of(place, len(self.plan.ids))
            train, holdout = (values[name] for values in means)
            difference = None if train is None or holdout is None else train - holdout
            few = any(
                sum(n for unit, n in part if unit[other][1]) < MIN_UNITS
                for part in parts
                for other in range(len(self.plan.ids))
                if whole or other == place
            )
            gap[name] = {
                "difference": published(difference),
                "beyond_sampling_error": None
                if difference is None or few
                else is_beyond(difference, parts, shares),
            }
        documents = [
            {
                "episodes": sum(n for _, n in part),
                "scores": {name: published(values[name]) for name in self.plan.ids},
                "composite_score": published(values[COMPOSITE]),
            }
            for part, values in zip(parts, means, strict=True)
        ]
        return {"train": documents[0], "holdout": documents[1], "gap": gap}

    def _part_means(self, part: Sequence[Weighed]) -> dict[str, Fraction | None]:
        means = {}
        for place, name in enumerate(self.plan.ids):
            total = sum(unit[place][0] * n for unit, n in part)
            means[name] = ratio(total, NANO * sum(unit[place][1] * n for unit, n in part))
        return means | {COMPOSITE: self.plan.weighted(means)}

    def _calibration(self, calibrated: Calibrated) -> Document | None:
        """Return what docs/contract/scoring.md §5 asks for."""
        if self.plan.calibrated is None:
            return None
        number = sum(count for count, _, _ in self.bins)
        ece = None
        if number >= MIN_PROBABILITIES:
            mean, upper = calibrated(self.probabilities)
            off = sum(abs(right * NANO - stated) for _, right, stated in self.bins)
            ece = {
                "value": published(Fraction(off, number * NANO)),
                "bins": 10,
                "scheme": "equal-width",
                "expected_if_calibrated": mean,
                "upper_95_if_calibrated": upper,
            }
        brier = ratio(self.squares, number * NANO**2)
        return {
            "criterion": self.plan.calibrated,
            "probabilities": number,
            "without_probability": self.silent,
            "without_verdict": self.undecided,
            "brier_score": published(brier),
            "decomposition": None if brier is None else self._decomposition(brier, number),
            "ece": ece,
            "ece_reason": "fewer-than-100-probabilities" if ece is None else None,
            "bins": [
                {
                    "low": place / 10,
                    "high": (place + 1) / 10,
                    "count": count,
                    "mean_probability": published(ratio(stated, count * NANO)),
                    "share_right": published(ratio(right, count)),
                }
                for place, (count, right, stated) in enumerate(self.bins)
            ],
        }

    def _decomposition(self, brier: Fraction, number: int) -> Document:
        share = Fraction(sum(right for _, right, _ in self.bins), number)
        reliability = resolution = Fraction(0)
        for count, right, stated in self.bins:
            if count:
                reliability += (Fraction(stated, NANO) - right) ** 2 / count / number
                resolution += count * (Fraction(right, count) - share) ** 2 / number
        uncertainty = share * (1 - share)
        return {
            "reliability": published(reliability),
            "resolution": published(resolution),
            "uncertainty": published(uncertainty),
            "within_bin": published(brier - reliability + resolution - uncertainty),
        }


class Spread:
    """What each unit adds to a weighted mean, less its share of it (docs/contract/scoring.md §5).

    `number` is how many units have a value where there is a weight, `on_each` how many have one on
    each criterion, `square` the sum of the squares. A unit adds
    Σ w · (s - mean · c) / C: s and c are its sum and number of values on a criterion, C is the
    number of all values there, w the weight.
    """

    def __init__(self, units: Iterable[Weighed], shares: Sequence[int]) -> None:
        kept = list(units)
        numbers = [sum(pairs[n][1] * times for pairs, times in kept) for n in range(len(shares))]
        sums = [sum(pairs[n][0] * times for pairs, times in kept) for n in range(len(shares))]
        used = [n for n, share in enumerate(shares) if share and numbers[n]]
        scale = math.lcm(*(numbers[n] ** 2 for n in used))
        factors = {n: shares[n] * scale // numbers[n] ** 2 for n in used}
        square = 0
        self.number = 0
        self.on_each = [sum(n for unit, n in kept if unit[c][1]) for c in range(len(shares))]
        for pairs, times in kept:
            if any(pairs[n][1] for n in used):
                self.number += times
                added = sum(
                    factor * (pairs[n][0] * numbers[n] - sums[n] * pairs[n][1])
                    for n, factor in factors.items()
                )
                square += times * added**2
        self.square = Fraction(square, (scale * sum(shares) * NANO) ** 2)

    def normal(self, score: Fraction) -> tuple[float, float]:
        """Return score ± z · √(n / (n - 1) · Σ u²), within 0 and 1, to six places."""
        half = Z * math.sqrt(self.square * self.number / (self.number - 1))
        return round(max(float(score) - half, 0.0), 6), round(min(float(score) + half, 1.0), 6)


def outcome_of(status: str | None, verdicts: Iterable[Verdict]) -> str:
    """Return what an episode counts as (docs/contract/evidence.md §8)."""
    if status != "success":
        return VERDICT_OF[status]
    return SCORED if any(not isinstance(verdict, str) for verdict in verdicts) else UNSCORED


def status_of_all(statuses: Sequence[str | None]) -> str | None:
    """Return the status of an episode by those of its repeats (docs/contract/scoring.md §9)."""
    if "success" in statuses:
        return "success"
    failed = [status for status in statuses if VERDICT_OF[status] == MISSING]
    return failed[0] if failed else statuses[0]


def merged(status: str | None, verdicts: Sequence[Verdict]) -> Verdict:
    """Return what an episode comes to on one criterion; `status` is the episode's.

    Where one repeat counts, all do: who leaves out an answer has answered wrongly.
    """
    for gap in (NOT_APPLICABLE, UNSCORED):
        if gap in verdicts:
            return gap
    values = [counted_value(verdict) for verdict in verdicts]
    if values == [None] * len(values):
        return DECLINED if status == "success" else EXCLUDED
    if status != "success":
        return MISSING
    return divided(sum(value or 0 for value in values), len(values))


def interval_of(method: str, ends: tuple[float | None, float | None]) -> Document:
    """Return an interval as documents have it."""
    return {"low": ends[0], "high": ends[1], "method": method, "level": 0.95}


def both_estimands(aggregate: Document) -> Document | None:
    """Return the certificate's `repeats`: with what holds for items like these, too."""
    found: Document | None = aggregate.get("repeats")
    if found is None:
        return None
    like = aggregate["score_intervals"]
    criteria = {
        name: one | {"items_like_these": like[name]} for name, one in found["criteria"].items()
    }
    whole = found["composite_score"] | {"items_like_these": like[COMPOSITE]}
    return found | {"criteria": criteria, "composite_score": whole}


def counted_value(verdict: Verdict) -> int | None:
    """Return what counts in a mean: the score, 0 for a failure, nothing for any other gap."""
    if isinstance(verdict, str):
        return 0 if verdict == MISSING else None
    return verdict


def unit_of(counted: Iterable[int | None]) -> Unit:
    """Return a single episode as a unit."""
    return tuple((value or 0, int(value is not None)) for value in counted)


def one_of(place: int, number: int) -> list[int]:
    """Return weights of which only one is not 0."""
    return [int(other == place) for other in range(number)]


def each_published(values: Mapping[str, Fraction | None]) -> Document:
    """Return `published` of each value."""
    return {name: published(value) for name, value in values.items()}


def is_beyond(
    difference: Fraction, parts: Sequence[Sequence[Weighed]], shares: Sequence[int]
) -> bool:
    """Return whether a gap exceeds z standard errors of the draw (docs/contract/scoring.md §6)."""
    whole, train, holdout = (Spread(units, shares) for units in ([*parts[0], *parts[1]], *parts))
    variance = whole.square * whole.number**2 / (whole.number - 1)
    return difference**2 > exact(Z) ** 2 * variance * (
        Fraction(1, train.number) + Fraction(1, holdout.number)
    )


def is_held_out(commitment_hash: str, episode_id: str, split: Fraction) -> bool:
    """Return whether the commitment hash draws an episode into the holdout."""
    digest = hashlib.sha256(f"{commitment_hash}:{episode_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * split.denominator < split.numerator * 2**64


def wilson(right: int, number: int) -> tuple[float, float]:
    """Return Wilson's interval for a share, to six places."""
    share, square = right / number, Z * Z
    centre = (share + square / (2 * number)) / (1 + square / number)
    half = Z * math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    half /= 1 + square / number
    low = 0.0 if right == 0 else centre - half
    high = 1.0 if right == number else centre + half
    return round(low, 6), round(high, 6)


def tier(facts: Document, history: Document, *, resolved_at: str) -> Document:
    """Return the `assessment` of `tier.json` (docs/contract/evidence.md §10).

    `history` is what was known when the run resolved; its reader refuses what came later.
    """
    moment = parsed_time(resolved_at)
    unmet = list(unmet_for_backtested(facts, history))
    found = {code for code, _ in unmet}
    brought = sorted(set(facts["extra_caps"]) - found)
    unmet += [(code, "found with the evidence") for code in brought]
    above = list(unmet_for_proven(facts, history, moment, backtested=not unmet))
    word = "UNVERIFIED" if unmet else "BACKTESTED" if above else "PROVEN"
    days = {"UNVERIFIED": None, "BACKTESTED": 90, "PROVEN": 180}[word]
    return {
        "tier": word,
        "unmet": [
            {"code": code, "seen": seen, "tier": wanted}
            for wanted, missing in (("BACKTESTED", unmet), ("PROVEN", above))
            for code, seen in missing
        ],
        "caps": [code for code, _ in unmet or above],
        "expires_at": None if days is None else written_time(moment + timedelta(days=days)),
    }


def unmet_for_backtested(  # noqa: C901 - a list of rules
    facts: Document, history: Document
) -> Iterator[tuple[str, str]]:
    """Yield code and what was seen of each requirement of BACKTESTED that is not met, in order."""
    scored, run, most = facts["replay_count"], facts["run"], Fraction(facts["max_refusal_rate"])
    if scored == 0:
        yield "nothing-scored", "0"
    if scored < 50:  # noqa: PLR2004 - docs/certificate.md
        yield "replays-below-50", str(scored)
    if facts["distinct_inputs"] < min(50, scored):
        yield "distinct-inputs-below-50", str(facts["distinct_inputs"])
    by_episode = {"asked": run, "failed": facts["failures"], "refused": facts["refusals"]}
    # Where episodes are asked more than once, of answers: one success would hide many failures.
    rated = facts.get("answers", by_episode)
    asked = rated["asked"]
    if 5 * rated["failed"] > asked:
        yield "failure-rate-above-20", f"{rated['failed']}/{asked}"
    if rated["refused"] > most * asked:
        yield "refusal-rate-above-max", f"{rated['refused']}/{asked}, allowed {most}"
    yield from unmet_on_criteria(facts, most)
    unpinned = {"construct_version"} if facts["construct_version"] is None else set()
    for name in sorted(unpinned.union(facts["missing_pins"])):
        yield f"pin-missing:{name}", "absent"
    if facts["version_mismatches"]:
        yield "version-mismatch", str(facts["version_mismatches"])
    if facts["determinism_differences"]:
        yield "answers-not-deterministic", str(facts["determinism_differences"])
    if facts["rehearsal"] or facts["adapter_pin"].split("@")[0] == "mock":
        yield "mock-adapter", facts["adapter_pin"]
    for member, code in (
        ("scorers_committed", "scorers-not-committed"),
        ("bundle_complete", "bundle-incomplete"),
        ("commitment_verifiable", "commitment-not-verifiable"),
    ):
        if not facts[member]:
            yield code, "no"
    admitted = sorted(d["dispute_id"] for d in history["disputes"] if d["status"] == "admitted")
    if admitted:
        yield "dispute-open", ", ".join(admitted)


def unmet_on_criteria(facts: Document, most: Fraction) -> Iterator[tuple[str, str]]:
    """Yield what each criterion lacks, then which of them rest on a measure of unknown worth."""
    for name, counts in sorted(facts["criterion_counts"].items()):
        number = counts[SCORED] + counts[MISSING]
        asked = number + counts[DECLINED] + counts[UNSCORED]
        if number == 0:
            yield f"criterion-unscored:{name}", "0"
        if number < 30:  # noqa: PLR2004 - docs/certificate.md
            yield f"criterion-n-below-30:{name}", str(number)
        distinct = facts["criterion_distinct_inputs"][name]
        if distinct < min(30, number):
            yield f"distinct-per-criterion-below-30:{name}", str(distinct)
        if counts[UNSCORED]:
            yield f"unscored-answers:{name}", str(counts[UNSCORED])
        if counts[DECLINED] > most * asked:
            yield f"declined-above-max:{name}", f"{counts[DECLINED]}/{asked}, allowed {most}"
    for name, reason in sorted(facts["unqualified_measures"].items()):
        yield f"measure-unqualified:{name}", reason


def unmet_for_proven(
    facts: Document, history: Document, moment: datetime, *, backtested: bool
) -> Iterator[tuple[str, str]]:
    """Yield the same for PROVEN; of the history counts what is about this version."""
    own = {name: facts[name] for name in ("construct_id", "construct_version")}

    def known(kind: str, **wanted: object) -> list[Document]:
        return [item for item in history[kind] if wanted.items() <= item.items()]

    runs = known("runs", **own)
    yield from unmet_by_runs(runs, moment, backtested=backtested)
    ends = [parsed_time(item["end"]) for item in known("telemetry", **own)]
    if not ends:
        yield "telemetry-missing", "0"
    elif moment - max(ends) >= timedelta(days=180):
        yield "telemetry-older-than-180-days", str(moment - max(ends))
    hashes = {item["results_hash"] for item in runs}
    attested = known("attestations", independent=True)
    if hashes.isdisjoint(item["results_hash"] for item in attested):
        yield "attestation-missing", "0"
    signals = known("signals", **own)
    newest: dict[str, str] = {}
    for item in signals:
        newest[item["source"]] = max(item["at"], newest.get(item["source"], ""))
    last = [item for item in signals if item["at"] == newest[item["source"]]]
    adverse = sorted({item["source"] for item in last if not item["consistent"]})
    if not signals:
        yield "behavioural-signal-missing", "0"
    elif adverse:
        yield "behavioural-signal-adverse", ", ".join(adverse)


def unmet_by_runs(
    runs: Sequence[Document], moment: datetime, *, backtested: bool
) -> Iterator[tuple[str, str]]:
    """Yield what is missing of three runs over 90 days without a gap over 45."""
    times: dict[bool, set[datetime]] = {True: set(), False: set()}
    for item in runs:
        times[item["tier"] == "UNVERIFIED"].add(parsed_time(item["resolved_at"]))
    since = max(times[True], default=None)
    row = sorted({moment} | {at for at in times[False] if since is None or at > since})
    row = row if backtested else []
    if not any(not list(missing_in(row[first:])) for first in range(len(row))):
        yield from missing_in(row)


def missing_in(row: Sequence[datetime]) -> Iterator[tuple[str, str]]:
    """Yield what a row of runs lacks."""
    span = row[-1] - row[0] if row else timedelta(0)
    gap = max((later - earlier for earlier, later in pairwise(row)), default=timedelta(0))
    if len(row) < 3:  # noqa: PLR2004 - docs/certificate.md
        yield "runs-below-3", str(len(row))
    if span < timedelta(days=90):
        yield "runs-span-below-90-days", str(span)
    if gap > timedelta(days=45):
        yield "run-gap-above-45-days", str(gap)


REQUIRED: Final = (
    "template.json",
    "commitment_receipt.json",
    "coin.txt",
    "ground_truth/dataset.jsonl",
    "scores/per_episode.jsonl",
    "scores/aggregate.json",
    "scores/data_audit.json",
    "scores/baselines.json",
    "resolution.json",
    "tier.json",
    "audit_trail.jsonl",
    "manifest.json",
    "SHA256SUMS",
)
"""The files of every bundle; certificate or reproduction comes to them."""
PROOFS: Final = {
    f"proofs/{name}"
    for name in (
        "certificate.sigstore.json",
        "certificate.tlog-proof",
        "commitment.tlog-proof",
        "trust.json",
    )
}
"""Files that come after the sealing, and are no evidence: they have checks of their own."""
UNSUMMED: Final = {"manifest.json", "SHA256SUMS", "certificate.json", "reproduction.json"}
"""The files that SHA256SUMS leaves out, so that the certificate can name its bundle."""
STATES: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "created": (None, "DRAFT"),
    "committed": ("DRAFT", "COMMITTED"),
    "activated": ("COMMITTED", "ACTIVE"),
    "settling": ("ACTIVE", "SETTLING"),
}
"""The states that an event leads from and to; every other event leads nowhere."""
TOKENS: Final = ("input_tokens", "output_tokens")


def is_usage(value: object) -> bool:
    """Return whether a value is what a provider counted of one call."""
    if not isinstance(value, dict) or value.keys() != set(TOKENS):
        return False
    return all(type(value[name]) is int and 0 <= value[name] <= MOST_TOKENS for name in TOKENS)


MOST_TOKENS: Final = 10**9
PLAIN_ADAPTERS: Final = {"openai", "anthropic", "mcp", "command", "container"}
"""Those that know no envelope: the template says what they are asked."""
RECORDED: Final = {"imported", "harness"}
"""Those that ask nothing: another program did."""
DECLARED: Final = {"openai", "anthropic", "mcp", "container", *RECORDED}
"""Those of which it is pinned or said what is asked, and nobody sees what answers."""


def settings_of(template: Document) -> Iterator[tuple[str, str, str, Document]]:
    """Yield construct, adapter type, place and settings of each endpoint of a template."""
    config = template.get("product_theatre_config")
    if config is None:
        return
    under_test = config["construct_under_test"]
    place = config.get("adapter_endpoint") or f"construct:{under_test}"
    yield under_test, config["adapter_type"], place, config.get("adapter_settings") or {}
    for name, own in (config.get("construct_endpoints") or {}).items():
        yield name, own["adapter_type"], own["endpoint"], own.get("adapter_settings") or {}


def usage_of(template: Document, calls: Iterable[Document]) -> Document | None:
    """Return what the calls took, as the certificate says it; None where none is plain."""
    prices = {name: one["prices"] for name, _, _, one in settings_of(template) if "prices" in one}
    latencies, tokens, counted, cost, priced = [], [0, 0], 0, Fraction(0), True
    for call in calls:
        if call["adapter"].partition("@")[0] not in PLAIN_ADAPTERS:
            continue
        for attempt in call["attempts"]:
            latencies.append(attempt["response"]["latency_ms"])
            if "usage" not in attempt:
                continue
            counted += 1
            price = prices.get(call["construct_id"])
            priced = priced and price is not None
            for place, (name, of) in enumerate(zip(TOKENS, ("input", "output"), strict=True)):
                used = attempt["usage"][name]
                tokens[place] += used
                cost += Fraction(str(price[of])) * used / 10**6 if price else 0
    if not latencies:
        return None
    latencies.sort()
    ranks = {
        f"p{share}": math.ceil(Fraction(len(latencies) * share, 100)) for share in (50, 95, 99)
    }
    return {
        "calls": len(latencies),
        "calls_counted": counted,
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "cost_usd": float(round(cost, 9)) if counted and priced else None,
        "latency_ms": {name: latencies[rank - 1] for name, rank in ranks.items()},
    }


def taken_by(call: Document) -> Document | None:
    """Return of a call what `usage_of` reads; None where its adapter sends envelopes.

    Raises KeyError or TypeError for another form.
    """
    if str(call["adapter"]).partition("@")[0] not in PLAIN_ADAPTERS:
        return None
    attempts = [
        {"response": {"latency_ms": one["response"]["latency_ms"]}}
        | ({"usage": one["usage"]} if "usage" in one else {})
        for one in call["attempts"]
    ]
    forms = [type(one["response"]["latency_ms"]) is int for one in attempts]
    forms += [is_usage(one["usage"]) for one in attempts if "usage" in one]
    if not all(forms) or not isinstance(call["construct_id"], str):
        raise TypeError("expected a call with times and tokens as numbers")
    return {"adapter": call["adapter"], "construct_id": call["construct_id"], "attempts": attempts}


def undeclared(template: Document, digest: Callable[[Document], str]) -> Iterator[str]:
    """Yield the constructs whose pin is not the hash of what the template asks of them.

    `digest` returns the SHA-256 over the canonical bytes of a value.
    """
    for name, adapter, place, settings in settings_of(template):
        by_url = adapter == "mcp" and place.startswith(("http://", "https://"))
        if adapter not in DECLARED - RECORDED or (adapter == "mcp" and not by_url):
            continue
        asked = {one: settings[one] for one in settings if one not in {"key_env", "prices"}}
        yield from (
            [name]
            if template["version_pins"]["constructs"].get(name)
            != digest({"adapter_type": adapter, "endpoint": place, "settings": asked})
            else []
        )


RESERVED: Final = ("owner",)
"""Members of the certificate that nothing in this release can fill: null."""
CLOSED: Final = ("files", "processes", "network")
WEAKEST_FIRST: Final = ("none", "other-user", "landlock", "namespaces", "remote")
NOTHING_CLOSED: Final[Document] = {**dict.fromkeys(CLOSED, False), "by": "none"}


def recorded_types(template: Document) -> set[str]:
    """Return which of `imported` and `harness` are adapter types of a template."""
    config = template.get("product_theatre_config") or {"adapter_type": None}
    own = (one["adapter_type"] for one in config.get("construct_endpoints", {}).values())
    return RECORDED & {config["adapter_type"], *own}


def adapter_type_of(template: Document, construct: str) -> str:
    """Return the adapter type that a template commits for a construct."""
    config: Document = template["product_theatre_config"]
    own = (config.get("construct_endpoints") or {}).get(construct, config)
    return str(own["adapter_type"])


def is_of_type(adapter: object, adapter_type: str) -> bool:
    """Return whether an adapter, `name@version`, is one of a type: http has `plain_http` too."""
    name = str(adapter).partition("@")[0]
    return name == adapter_type or (name, adapter_type) == ("plain_http", "http")


def is_isolation(value: object) -> TypeGuard[Document]:
    """Return whether a value says what was closed to a construct when that was tried."""
    if not isinstance(value, dict) or value.keys() != NOTHING_CLOSED.keys():
        return False
    return all(isinstance(value[name], bool) for name in CLOSED) and value["by"] in WEAKEST_FIRST


def weakest_isolation(found: Sequence[Document]) -> Document:
    """Return what was closed to every construct of an episode (docs/certificate.md)."""
    return {
        **{name: all(one[name] for one in found) for name in CLOSED},
        "by": min((one["by"] for one in found), key=WEAKEST_FIRST.index),
    }


def parsed_time(text: str) -> datetime:
    """Return a moment that is written as documents have it: UTC, six places, `Z`."""
    moment = datetime.fromisoformat(text)
    if written_time(moment) != text:
        raise ValueError(f"expected a time such as 2026-01-31T00:00:00.000000Z, got {text!r}")
    return moment


def written_time(moment: datetime) -> str:
    """Return a moment as documents have it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


ABOUT: Final[Mapping[str, type]] = {"construct_id": str, "construct_version": str}
HISTORY: Final[Mapping[str, Mapping[str, type]]] = {
    "runs": {**ABOUT, "theatre_id": str, "tier": str, "resolved_at": str, "results_hash": str},
    "telemetry": {**ABOUT, "start": str, "end": str, "confirmed_at": str},
    "attestations": {"attester": str, "independent": bool, "results_hash": str, "at": str},
    "disputes": {"dispute_id": str, "status": str, "at": str},
    "signals": {**ABOUT, "source": str, "consistent": bool, "at": str},
}
"""What there is in a history: sort → member → type (docs/contract/evidence.md §10)."""
NAMED_BY: Final = {"runs": "theatre_id", "disputes": "dispute_id"}
MOMENTS: Final = {"at", "start", "end", "confirmed_at", "resolved_at"}
VALUES: Final = {
    "tier": "UNVERIFIED|BACKTESTED|PROVEN",
    "status": "filed|admitted|resolved",
    "results_hash": "[0-9a-f]{64}",
    "theatre_id": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
}
"""Member of a history's record → what it must match; every other text must not be empty."""
FIRST_YEAR: Final = 1970


def problems_of_history(
    history: object, theatre_id: object, moment: str
) -> Iterator[tuple[str, str]]:
    """Yield what is expected and what is there, where a history is not what a tier may rest on.

    Each fact is there once, of another run than this, and was known at `moment`: an issuer could
    count one run three times, or runs to come. Raises ValueError for what is no time.
    """
    if not isinstance(history, dict) or history.keys() != HISTORY.keys():
        yield "a history in its form", "other members"
        return
    for sort, form in HISTORY.items():
        items = history[sort]
        if not isinstance(items, list) or not all(is_record(item, form) for item in items):
            yield "a history in its form", f"a record of another form in {sort}"
            continue
        by = NAMED_BY.get(sort)
        if len({item[by] if by else tuple(sorted(item.items())) for item in items}) < len(items):
            yield f"each of the {sort} once", "one of them twice"
        for item in items:
            if item.get("theatre_id") == theatre_id:
                yield "a history of other runs", "this run"
            latest = max(item[name] for name in MOMENTS & item.keys())
            if latest > moment:
                yield f"{sort} not later than {moment}", latest
            if "start" in item and not item["start"] < item["end"] <= item["confirmed_at"]:
                yield "telemetry with start < end ≤ confirmed_at", repr(item)


def is_record(item: object, form: Mapping[str, type]) -> bool:
    """Return whether a record of a history has its members, types and words."""
    if not isinstance(item, dict) or {name: type(value) for name, value in item.items()} != form:
        return False
    return all(
        (name not in MOMENTS or parsed_time(value).year >= FIRST_YEAR)
        and re.fullmatch(VALUES.get(name, "(?s:.+)"), str(value)) is not None
        for name, value in item.items()
    )


def rated(step: Document, items: Sequence[str], lines: Sequence[Document]) -> Rating:
    """Return what people gave at a rubric step (docs/contract/evidence.md §9).

    `step` is its entry in `hitl_steps`, `items` are the episodes that were drawn, `lines` those of
    its file, which the check of people's scores has found to be in order; none where the step was
    not completed.
    """
    given: dict[str, dict[str, Fraction]] = {}
    low, high = (exact(step["scoring_scale"][end]) for end in ("min", "max"))
    for line in lines:
        share = (exact(line["score"]) - low) / (high - low)
        given.setdefault(identity(line["scorer"]), {})[line["episode_id"]] = share
    panel = [scores for scores in given.values() if scores.keys() == set(items)]
    return Rating([[scores[item] for scores in panel] for item in items])


def rating_findings(
    template: Document,
    authors: Iterable[object],
    given: Iterable[tuple[str, str]],
    human_scores: Mapping[str, Document] | None,
) -> list[str]:
    """Return codes: of criteria with ratings that count nowhere, or that an author may give.

    `authors` are those of the constructs, null for one who is not named; `given` has step and
    scorer of each score in the trail.
    """
    named = [(template.get("metadata") or {}).get("author"), *authors]
    is_named = any(isinstance(name, str) and identity(name) for name in named)
    people: dict[str, set[str]] = {}
    for step_id, scorer in given:
        people.setdefault(step_id, set()).add(identity(scorer))
    found = []
    for entry in template.get("hitl_steps") or []:
        step_id, criterion = entry["step_id"], entry.get("criterion_id")
        if criterion is None or step_id not in (human_scores or {}):
            continue
        if len(people.get(step_id, ())) > (human_scores or {})[step_id]["scorers"]:
            found.append(f"ratings-left-out:{criterion}")
        separation = entry.get("identity_separation") or {}
        if not (is_named and separation.get("scorer_must_not_be_author", True)):
            found.append(f"authors-may-rate:{criterion}")
    return found


class Rating(NamedTuple):
    """What those people gave who scored every item: a row an item, a score of each in it."""

    rows: Sequence[Sequence[Fraction]]

    @property
    def scorers(self) -> int:
        """Return how many people it rests on."""
        return len(self.rows[0]) if self.rows else 0

    @property
    def mean(self) -> Fraction | None:
        """Return the human mean; None without any scores."""
        every = [value for row in self.rows for value in row]
        return sum(every, Fraction(0)) / len(every) if every else None

    def agreement(self) -> Document:
        """Return Krippendorff's alpha for interval data, or why there is none."""
        alpha, reason = None, None
        if not self.scorers:
            reason = "not-rated"
        elif self.scorers < 2:  # noqa: PLR2004 - docs/contract/evidence.md
            reason = "fewer-than-2-scorers"
        elif len(self.rows) < 10:  # noqa: PLR2004 - docs/contract/evidence.md
            reason = "fewer-than-10-items"
        else:
            every = [value for row in self.rows for value in row]
            if len(set(every)) == 1:
                reason = "no-variation"
            else:
                within = sum(spread_of(row) / (self.scorers - 1) for row in self.rows)
                alpha = 1 - within * (len(every) - 1) / spread_of(every)
        return {
            "method": "krippendorff-alpha-interval",
            "value": published(alpha),
            "reason": reason,
        }


def spread_of(values: Sequence[Fraction]) -> Fraction:
    """Return the sum of the squares of all differences, each pair counted twice."""
    return 2 * (len(values) * sum((v * v for v in values), Fraction(0)) - sum(values) ** 2)


REFUSALS: Final = {
    "scorer-is-author",
    "item-already-scored",
    "not-an-item",
    "score-off-scale",
    "score-not-a-number",
    "identity-empty",
    "identity-unreadable",
    "comment-unreadable",
    "step-not-open",
}
"""Why a person's score can be refused (docs/templates.md)."""


def normalised(name: str) -> str:
    """Return a name as it must be recorded: trimmed, in NFC."""
    return unicodedata.normalize("NFC", name.strip())


UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What shows nothing in a name (docs/contract/evidence.md §9)."""


def identity(name: str) -> str:
    """Return what two spellings of one person's name have in common."""
    seen = " ".join(UNSEEN.sub("", name).split())
    return unicodedata.normalize("NFC", normalised(seen).casefold())


MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_ANSWER_DEPTH: Final = 48


def recorded_answers(lines: Iterable[Document]) -> dict[str, Document]:
    """Return episode_id → the line of a finished log about it."""
    return {line["episode_id"]: line for line in lines}


def is_recorded(
    line: Document | None,
    request: Document,
    attempt: Document,
    canonical: Callable[[Document], bytes],
) -> bool:
    """Return whether an attempt holds what a finished log has of its episode, None for nothing.

    What the log has is read as an answer that came (docs/contract/earned.md §9): status and
    output are those of the line, and only what could not be read has the reason of a refusal.
    """
    response, reason = attempt["response"], attempt["reason"]
    if line is None:
        return bool(reason == "no-recorded-answer")
    echoed = ("invocation_id", "construct_id", "construct_version")
    said = {name: value for name, value in line.items() if name not in {"episode_id", *echoed}}
    envelope = {name: request[name] for name in echoed} | {"status": "success"} | said
    output = envelope.get("output_data")
    status = str(envelope["status"]).lower()
    can_be_read = (
        isinstance(envelope["status"], str)
        and status in {"success", "timeout", "error", "refused"}
        and (status != "success" or isinstance(output, dict))
        and len(canonical(envelope)) <= MAX_ANSWER_BYTES
        and depth_of(envelope) <= MAX_ANSWER_DEPTH
    )
    if not can_be_read:
        return reason not in {None, "no-recorded-answer", "output-spec"}
    kept = output if isinstance(output, dict) else None
    if reason == "output-spec":
        # Of a long output the beginning is kept; that it does not fit is checked elsewhere.
        return kept is not None and canonical(kept).decode().startswith(attempt["raw"] or "{}")
    same = canonical({"is": response["output_data"]}) == canonical({"is": kept})
    return reason is None and bool(response["status"] == status) and same


def depth_of(value: object) -> int:
    """Return how many containers are nested in a JSON value, itself included."""
    if not isinstance(value, dict | list):
        return 0
    below = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, below), default=0)
