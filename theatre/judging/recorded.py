"""What judges said in a run, read again from its `episodes`, and how far those of a panel agree."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import (
    Computation,
    GroundTruthEpisode,
    InvocationStatus,
    Scorer,
    ScorerKind,
    ScoringCase,
    judges_of,
)
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.ratings import agreement
from theatre.judging.panel import NotMeasurableError, Votes, split_of
from theatre.judging.rubrics import object_of

_ANSWERED = frozenset({"scored", "unscored"})


def answered_episodes(lines: Iterable[bytes]) -> Iterator[tuple[GroundTruthEpisode, EpisodeAnswer]]:
    """Yield the episodes that were answered, with their answers, of lines of `episodes`."""
    for number, line in enumerate(lines, start=1):
        entry: dict[str, Any] = parse_object(line)
        if entry["outcome"] in _ANSWERED:
            episode = GroundTruthEpisode(
                seq=number,
                episode_id=entry["episode_id"],
                input_data=entry["input_data"],
                expected_output=entry["expected_output"],
            )
            yield (
                episode,
                EpisodeAnswer(
                    status=InvocationStatus.SUCCESS,
                    hops=entry["hops"],
                    judgements=entry.get("judgements", {}),
                    judge_seed=entry.get("judge_seed", ""),
                ),
            )


def judged_cases(
    lines: Iterable[bytes], params: JsonObject, scorer: Scorer
) -> Iterator[tuple[str, str, ScoringCase]]:
    """Yield criterion, episode id and case of each answer that a criterion of `params` is about.

    Raises UnknownScorerError for a criterion that another than `scorer` scores.
    """
    chosen = cast("JsonObject", params["criteria_scorers"])
    provider = TheatreScoringProvider(
        {"criteria": {"criteria_ids": [*chosen]}, "scoring": {"criteria_scorers": chosen}},
        {scorer.name: scorer},
    )
    for episode, answer in answered_episodes(lines):
        for criterion in chosen:
            case = provider.case(criterion, episode, answer)
            if isinstance(case, ScoringCase):
                yield criterion, episode.episode_id, case


def judging_computation(
    name: str, compute: Callable[[Iterable[bytes], JsonObject], JsonObject]
) -> Computation:
    """Return a computation over what `criteria_scorers`, its one parameter, had judges say."""
    return Computation(
        name=name,
        version="1",
        kind=ScorerKind.JUDGED,
        params_schema={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **object_of(criteria_scorers={"type": "object", "minProperties": 1}),
        },
        compute=compute,
    )


# How far the judges of a panel agree about the items that they all rated.


@dataclass(slots=True)
class _Panel:
    """What the judges of one criterion gave; an item has a vote of each that rated it."""

    params: JsonObject
    items: list[list[Fraction]] = field(default_factory=list)
    totals: list[tuple[Fraction, int]] = field(default_factory=list)
    unmeasured: int = 0

    def add(self, case: ScoringCase, votes_on: Callable[[ScoringCase], list[Votes]]) -> None:
        """Take the votes about one answer, if every judge has a usable one."""
        try:
            votes = votes_on(case)
        except NotMeasurableError:
            self.unmeasured += 1
            return
        self.totals = self.totals or [(Fraction(0), 0)] * len(votes)
        self.totals = [
            (total + sum(given or ()), count + len(given or ()))
            for (total, count), given in zip(self.totals, votes, strict=True)
        ]
        rated = [given for given in votes if given is not None]
        self.items += [list(item) for item in zip(*rated, strict=True)]

    def as_document(self) -> JsonObject:
        judges = judges_of(self.params)
        totals = self.totals or [(Fraction(0), 0)] * len(judges)
        return {
            "split": split_of(self.params),
            "judges": [
                {
                    "provider": judge["provider"],
                    "model": judge["model"],
                    "items": count,
                    "mean": rounded_number(total / count) if count else None,
                }
                for judge, (total, count) in zip(judges, totals, strict=True)
            ],
            "items": len(self.items),
            "split_items": sum(len(set(item)) > 1 for item in self.items),
            "unmeasured": self.unmeasured,
            "agreement": agreement(self.items),
        }


def agreement_computation(
    name: str, scorer: Scorer, votes: Callable[[ScoringCase], list[Votes]]
) -> Computation:
    """Return for each criterion of a panel Krippendorff's alpha over its items, and each mean.

    `criteria_scorers` is how each is scored, by `scorer`; `votes` reads each judge's from a case.
    Items are claims, replies, summaries or turns. `split_items` counts those about which judges
    differ, `unmeasured` the answers about which a judge gave nothing usable: they are in no other
    number.
    """

    def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
        chosen = cast("dict[str, JsonObject]", params["criteria_scorers"])
        found = {
            criterion: _Panel(cast("JsonObject", entry.get("params", {})))
            for criterion, entry in chosen.items()
        }
        for criterion, _, case in judged_cases(lines, params, scorer):
            found[criterion].add(case, votes)
        return {"criteria": {name: panel.as_document() for name, panel in found.items()}}

    return judging_computation(name, compute)
