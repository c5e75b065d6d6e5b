"""What judges said in a run, read again from its `episodes`, for computations."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import (
    Computation,
    GroundTruthEpisode,
    InvocationStatus,
    Scorer,
    ScorerKind,
    ScoringCase,
)
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
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
