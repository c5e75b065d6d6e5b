"""What is wrong with data for a template: found before the first call, named by its cause."""

from collections.abc import Iterator, Mapping

from theatre.drafts.compilation import nearest
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError
from theatre.engine.models import GroundTruthEpisode, Scorer
from theatre.engine.schema_registry import SchemaViolation, json_pointer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate
from theatre.files.datasets import DatasetRoots, verify_datasets
from theatre.scorers import load_episode_runners

_OF_NUMBERS = "numeric_tolerance"


def data_faults(
    document: JsonObject,
    view: ProductTheatreTemplate,
    datasets: DatasetRoots,
    scorers: Mapping[str, Scorer],
) -> list[SchemaViolation]:
    """Return why the data of a valid template can measure nothing, or not what it says.

    That is a file that is missing, changed, empty or no list of episodes; and a criterion whose
    expectation no episode has, or has as a text where numbers are compared. The scorers must be
    those that the template names. Reads the data once, streaming.
    """
    name = view.product_theatre_config.replay_dataset_id
    at = json_pointer("dataset_hashes", name)
    provider = TheatreScoringProvider(document, scorers)
    first: GroundTruthEpisode | None = None
    applies = dict.fromkeys(provider.criterion_ids, 0)
    texts: dict[str, tuple[str, str]] = {}

    def look(episode: GroundTruthEpisode, label: JsonObject | None) -> None:
        nonlocal first
        first = first or episode
        for criterion, expected in provider.expectations(episode, label).items():
            applies[criterion] += 1
            if isinstance(expected, str):
                texts.setdefault(criterion, (episode.episode_id, expected))

    try:
        verify_datasets(view, datasets, load_episode_runners(), look)
    except DatasetError as error:
        return [SchemaViolation(at, "dataset-file", str(error))]
    return [*_unmeasured(view, applies, first), *_texts_for_numbers(view, texts)]


def _unmeasured(
    view: ProductTheatreTemplate, applies: Mapping[str, int], first: GroundTruthEpisode | None
) -> Iterator[SchemaViolation]:
    known = list((first.expected_output or {}) if first is not None else {})
    for criterion, count in applies.items():
        if count:
            continue
        scorer = view.scoring.criteria_scorers.get(criterion)
        params = None if scorer is None else scorer.params
        path = params.get("expected", "expected_output") if isinstance(params, dict) else ""
        near = nearest(str(path), known)
        yield SchemaViolation(
            json_pointer("scoring", "criteria_scorers", criterion, "params", "expected"),
            "expectation-absent",
            f"expected {path} in the expected_output of the episodes, got it in none; the first "
            f"one has {', '.join(known) or 'none'}{near}",
        )


def _texts_for_numbers(
    view: ProductTheatreTemplate, texts: Mapping[str, tuple[str, str]]
) -> Iterator[SchemaViolation]:
    for criterion, (episode_id, text) in texts.items():
        # A template of 2.0.1 need not say which scorer.
        scorer = view.scoring.criteria_scorers.get(criterion)
        if scorer is not None and scorer.scorer == _OF_NUMBERS:
            yield SchemaViolation(
                json_pointer("scoring", "criteria_scorers", criterion),
                "expectation-is-text",
                f"expected a number to compare, got the text {text!r:.40} in episode "
                f"{episode_id!r:.60}: write numbers without quotation marks, or measure with "
                "exact_match",
            )
