"""Recorded answers scored once more: a report, which is never a certificate."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import DatasetError, ParseError
from theatre.engine.models import GroundTruthEpisode, InvocationStatus, Scored, Scorer
from theatre.engine.rlmf_export import judge_seed_of, judgements_of, outputs_of
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider, nano_to_number
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.provider import EpisodeAnswer, EpisodeScores
from theatre.engine.scoring.tallies import CriterionTally
from theatre.verification.template import OUTPUT_SPEC

_ORACLE = "oracle"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """How an answer ended, what it was, and what a judge was asked about it, by criterion."""

    status: InvocationStatus
    output: JsonObject | None = None
    judgements: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)
    judge_seed: str = ""

    @classmethod
    def of(cls, record: JsonObject, status: InvocationStatus) -> "RecordedAnswer":
        """Return the answer in an invocation record."""
        outputs = list(outputs_of(record).values())
        return cls(
            status=status,
            output=outputs[-1] if outputs else None,
            judgements=judgements_of(record),
            judge_seed=judge_seed_of(record),
        )


def read_answers(lines: Iterable[bytes], registry: SchemaRegistry) -> dict[str, RecordedAnswer]:
    """Return id of the change → answer, from lines `{"ground_truth_id", "output"}`.

    An output that is no OracleOutput is an answer that failed. Raises DatasetError, naming the
    line, for one that is no such object, or whose change came before.
    """
    answers: dict[str, RecordedAnswer] = {}
    for number, line in enumerate(lines, start=1):
        try:
            document = parse_object(line)
        except ParseError as error:
            raise DatasetError(f"expected JSON in line {number} of the answers: {error}") from error
        name, output = document.get("ground_truth_id"), document.get("output")
        if not isinstance(name, str) or document.keys() != {"ground_truth_id", "output"}:
            raise DatasetError(
                f"expected ground_truth_id and output in line {number} of the answers, got "
                f"{', '.join(document)[:100]}"
            )
        if name in answers:
            raise DatasetError(f"expected one answer a change, got another in line {number}")
        fits = isinstance(output, dict) and not registry.validate_inline(OUTPUT_SPEC, output)
        answers[name] = RecordedAnswer(
            status=InvocationStatus.SUCCESS if fits else InvocationStatus.ERROR,
            output=output if isinstance(output, dict) and fits else None,
        )
    return answers


def rescore(
    template: JsonObject,
    scorers: Mapping[str, Scorer],
    episodes: Iterable[GroundTruthEpisode],
    answers: Mapping[str, RecordedAnswer],
) -> JsonObject:
    """Return scores by criterion, the composite, and a line for each change with an answer.

    Failures count 0, declined changes not at all; changes without an answer are only counted.
    No call is made: judged criteria are scored by the recorded exchanges.
    Raises UnknownScorerError and PinMismatchError as `TheatreScoringProvider`.
    """
    provider = TheatreScoringProvider(template, scorers)
    tallies = {criterion: CriterionTally() for criterion in provider.criterion_ids}
    lines: list[JsonValue] = []
    total = 0
    for episode in episodes:
        total += 1
        answer = answers.get(episode.episode_id)
        if answer is None:
            continue
        hops = {} if answer.output is None else {_ORACLE: answer.output}
        judged = EpisodeAnswer(
            status=answer.status,
            hops=hops,
            judgements=answer.judgements,
            judge_seed=answer.judge_seed,
        )
        scores = provider.score_episode(episode, judged)
        for criterion, tally in tallies.items():
            tally.add(scores.by_criterion[criterion])
        lines.append(_line(episode.episode_id, scores))
    means = {criterion: tally.mean for criterion, tally in tallies.items()}
    return {
        "scores": {c: None if m is None else rounded_number(m) for c, m in means.items()},
        "composite_score": _composite(provider, means),
        "changes": total,
        "replay_count": sum(isinstance(x, dict) and x["outcome"] == "scored" for x in lines),
        "individual_scores": lines,
    }


def _composite(
    provider: TheatreScoringProvider, means: Mapping[str, Fraction | None]
) -> float | None:
    total = Fraction(0)
    for plan in provider.criteria:
        mean = means[plan.criterion_id]
        if mean is None:
            return None
        total += plan.weight * mean
    return rounded_number(total)


def _line(name: str, scores: EpisodeScores) -> JsonObject:
    return {
        "ground_truth_id": name,
        "outcome": scores.outcome.value,
        **{
            criterion: nano_to_number(result.nano) if isinstance(result, Scored) else None
            for criterion, result in scores.by_criterion.items()
        },
    }
