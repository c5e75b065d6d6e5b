"""Whether a sealed run really is a verification by `community_oracle_v1`.

A template may bear any name, and a dataset may expect anything. A verification certificate says
more than that recorded answers have these scores: that they were asked and scored as verifications
are, about what the changes did (docs/design/families.md, "What bears its name").
"""

from typing import Any, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.comparison import find_differences
from theatre.engine.models import GroundTruthEpisode, judges_of
from theatre.engine.scoring.measure_policy import named_qualifications
from theatre.engine.scoring.provider import ABSENT, at_path
from theatre.judging.panel import split_of
from theatre.verification.errors import NoRecordError, NoVerificationError
from theatre.verification.judge.scorer import SCORER, committed_judge
from theatre.verification.records import make_episode, read_record
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider, judged_scoring
from theatre.verification.template import (
    CRITERIA,
    DATASET,
    TEMPLATE_ID,
    OracleUnderTest,
    ReliedOn,
    Terms,
    oracle_template,
    qualification_dataset,
)

_SHOWN = 5
_PATHS = frozenset({"replay_data_path", "dataset_paths"})


def require_built_in(template: JsonObject) -> None:
    """Raise NoVerificationError for a template that is not made of its own terms as all are.

    The paths of its datasets do not count: their hashes are committed.
    """
    named = template.get("theatre_id")
    if named != TEMPLATE_ID:
        raise NoVerificationError(f"expected the template {TEMPLATE_ID}, got {named}")
    made = _make_again(template)
    config = cast("JsonObject", made["product_theatre_config"])
    for name in _PATHS & config.keys():
        config[name] = _at(template, f"product_theatre_config.{name}")
    paths = list(find_differences(made, template))
    if paths:
        raise NoVerificationError(
            f"expected {TEMPLATE_ID} as this version makes it from its terms, got other members: "
            f"{', '.join(paths[:_SHOWN])}; the theatre certificate stands, this is no verification"
        )


def require_derived(truth: GroundTruthEpisode) -> None:
    """Raise NoVerificationError unless question and expectation follow from the change itself."""
    try:
        record = read_record(cast("JsonObject", truth.input_data.get("record")))
    except NoRecordError as error:
        raise NoVerificationError(f"episode {truth.episode_id:.80}: {error}") from None
    made = make_episode(record)
    kept: JsonObject = {
        "episode_id": truth.episode_id,
        "input_data": truth.input_data,
        "expected_output": truth.expected_output,
        # A change has no other member of an episode.
        **({"labels": truth.labels} if truth.labels else {}),
        **({"metadata": truth.metadata} if truth.metadata else {}),
        **({} if truth.cluster_key is None else {"cluster_key": truth.cluster_key}),
    }
    paths = list(find_differences(made, kept))
    if paths:
        raise NoVerificationError(
            f"expected of change {truth.episode_id:.80} what follows from its diff, got other "
            f"members: {', '.join(paths[:_SHOWN])}"
        )


def _make_again(template: JsonObject) -> JsonObject:
    config = cast("dict[str, str]", template["product_theatre_config"])
    construct_id = config["construct_under_test"]
    constructs = cast("dict[str, str]", _at(template, "version_pins.constructs"))
    weights = cast("dict[str, float]", _at(template, "criteria.weights"))
    oracle = OracleUnderTest(
        construct_id=construct_id,
        version=constructs[construct_id],
        adapter_type=config["adapter_type"],
        endpoint=config["adapter_endpoint"],
        adapter_pin=_at(template, "version_pins.adapter_version"),
    )
    terms = Terms(
        weights={criterion: weights[criterion] for criterion in CRITERIA if criterion in weights},
        timeout_seconds=_at(template, "resolution_programme.0.timeout_seconds"),
        max_retries=_at(template, "execution_policy.retry_policy.max_retries"),
        ground_truth_source=config["ground_truth_source"],
        repository=_at(template, "oracle_config.repository"),
        minimum_replays=_at(template, "oracle_config.minimum_replays"),
    )
    sha256 = _at(template, f"dataset_hashes.{DATASET}")
    return oracle_template(
        oracle, terms, sha256, scoring=_scoring(template), relied_on=_relied_on(template)
    )


def _relied_on(template: JsonObject) -> dict[str, ReliedOn]:
    return {
        criterion: ReliedOn(
            file_sha256=_at(template, f"dataset_hashes.{qualification_dataset(criterion)}"),
            sha256=sha256,
        )
        for criterion, (_, sha256) in named_qualifications(template).items()
    }


def _scoring(template: JsonObject) -> ScoringProvider:
    chosen = "scoring.criteria_scorers.precision"
    if at_path(template, f"{chosen}.scorer") != SCORER.name:
        return LEXICAL
    params = _at(template, f"{chosen}.params")
    judges = [
        committed_judge(
            cast("str", judge.get("model")),
            temperature=cast("int | None", judge.get("temperature")),
            repeats=cast("int", judge.get("repeats")),
            provider=cast("str", judge.get("provider")),
        )
        for judge in judges_of(params)
    ]
    return judged_scoring(
        *judges,
        split=split_of(params) if "panel" in params else None,
        controls=_at(template, f"{chosen}.params.controls"),
    )


def _at(template: JsonObject, path: str) -> Any:  # noqa: ANN401  # as the template's schema has it
    """Return what is committed at `path`; null where nothing is, which then differs."""
    found = at_path(template, path)
    return None if found is ABSENT else found
