"""What a dataset is worth as evidence before anything is committed to it (docs/templates.md).

As the run would count it, if every episode were answered: copies, answers that inputs give away,
what trivial answers would score, and which codes would cap the tier whatever the answers are.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import COIN_BYTES, Coin, Draws
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import SINGLE_CALL, EpisodeRunner, InputSanitiser, Scorer, read_episodes
from theatre.engine.replay import DatasetSource, DistinctEvidence, unqualified_measures
from theatre.engine.replay.context import open_datasets
from theatre.engine.replay.tier_evidence import few_ratings_caps
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider, data_findings, exact
from theatre.engine.templates import ProductTheatreTemplate
from theatre.engine.tier_assigner import (
    CriterionCounts,
    TierAssigner,
    TierFacts,
    TierHistory,
    VerificationTier,
)

_NO_COIN = Coin(bytes(COIN_BYTES))
"""Interactive episodes are played with seeds of it: the coin is drawn with the commitment."""

_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""What caps a run for BACKTESTED does not depend on when it was."""


def preview_evidence(
    document: JsonObject,
    view: ProductTheatreTemplate,
    datasets: DatasetSource,
    scorers: Mapping[str, Scorer],
    *,
    runners: Mapping[str, EpisodeRunner],
    sanitiser: InputSanitiser,
    registry: SchemaRegistry,
) -> JsonObject:
    """Return `data_audit`, `baselines`, `findings` and `caps` of a run in which all goes well.

    And, as `unqualified`, why measures carry no tier, and as `controls` with about how many answers
    control items ride along where a measure does only with them, both by criterion.

    The datasets are those that `verify_datasets` has accepted. Raises UnknownScorerError and
    PinMismatchError where the committed scorers are not to be had, ProgrammeError where the
    `episode_runner` is not.
    """
    provider = TheatreScoringProvider(document, scorers)
    config = view.product_theatre_config
    runner = runners.get(config.episode_runner)
    if runner is None and config.episode_runner != SINGLE_CALL:
        installed = ", ".join(sorted(runners)) or "none"
        raise ProgrammeError(
            f"expected episode_runner {config.episode_runner} to be installed; "
            f"there are: {installed}"
        )
    with open_datasets(view, datasets) as opened:
        gold = opened.gold_labels(config.gold_label_dataset_id)
        draws = Draws(_NO_COIN, CommitmentProtocol.hash_template(document))
        with closing(
            DistinctEvidence(view, provider, gold, draws=draws, runner=runner, registry=registry)
        ) as evidence:
            applies = dict.fromkeys(provider.criterion_ids, 0)
            for episode in read_episodes(opened.replay.lines()):
                sent = episode.input_data
                if view.execution_policy.sanitise_input:
                    policy = view.input_policy
                    made = sanitiser.sanitise(
                        sent, role_markers=policy.role_markers, raw_fields=policy.raw_fields
                    )
                    sent = made.value
                evidence.add_unanswered(episode, sent)
                for criterion in provider.expectations(episode, gold.get(episode.episode_id)):
                    applies[criterion] += 1
            audit, baselines = evidence.documents()
        qualifications = opened.qualifications(document)
    findings: list[JsonValue] = [*sorted(data_findings(audit))]
    unqualified = unqualified_measures(
        document, view, provider.scorer_kinds, provider.scorer_pins, qualifications
    )
    caps: list[JsonValue] = [*_caps(document, view, audit, applies, unqualified)]
    without_controls = unqualified_measures(
        document, view, provider.scorer_kinds, provider.scorer_pins, qualifications, {}
    )
    return {
        "data_audit": audit,
        "baselines": baselines,
        "findings": findings,
        "caps": caps,
        "unqualified": {**unqualified},
        "controls": {
            criterion: _answers_with_controls(view, criterion, applies[criterion])
            for criterion in without_controls.keys() - unqualified.keys()
        },
    }


def _answers_with_controls(
    view: ProductTheatreTemplate, criterion: str, episodes: int
) -> float | None:
    """Return with how many answers control items ride along on average; None if with none."""
    controls = view.scoring.criteria_scorers[criterion].params.get("controls")
    if not isinstance(controls, dict):
        return None
    answers = episodes * view.execution_policy.repeats
    return answers / float(cast("float", controls["every"]))


def _caps(
    document: JsonObject,
    view: ProductTheatreTemplate,
    audit: JsonObject,
    applies: Mapping[str, int],
    unqualified: Mapping[str, str],
) -> list[str]:
    """Return what would stand between the best of runs over this dataset and BACKTESTED."""
    construct_id, episodes = view.product_theatre_config.construct_under_test, audit["episodes"]
    criteria: Mapping[str, JsonObject] = audit["criteria"]  # type: ignore[assignment]
    facts = TierFacts.model_validate(
        {
            "construct_id": construct_id,
            "construct_version": view.version_pins.constructs[construct_id],
            "adapter_pin": view.product_theatre_config.adapter_type,
            "rehearsal": False,
            "replay_count": episodes,
            "failures": 0,
            "refusals": 0,
            "run": episodes,
            "total": episodes,
            "max_refusal_rate": exact(view.execution_policy.max_refusal_rate),
            "criterion_counts": {
                criterion: CriterionCounts(
                    scored=count, missing=0, not_applicable=0, declined=0, unscored=0
                )
                for criterion, count in applies.items()
            },
            "distinct_inputs": audit["distinct_scored_inputs"],
            "criterion_distinct_inputs": {
                criterion: one["distinct_inputs"] for criterion, one in criteria.items()
            },
            "unqualified_measures": unqualified,
            "missing_pins": (),
            "version_mismatches": 0,
            "determinism_differences": 0,
            "scorers_committed": True,
            "bundle_complete": True,
            "commitment_verifiable": True,
            "extra_caps": tuple(few_ratings_caps(document)),
        }
    )
    unmet = TierAssigner.assign(facts, TierHistory(), resolved_at=_ANY_MOMENT).unmet
    return [str(one) for one in unmet if one.tier is VerificationTier.BACKTESTED]
