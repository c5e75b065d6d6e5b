"""The built-in template `community_oracle_v1`: what a verification run commits to."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from theatre.engine.canonical_json import JsonObject
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider

TEMPLATE_ID = "community_oracle_v1"
CRITERIA = ("precision", "recall", "reply_accuracy")
EQUAL_WEIGHTS: Mapping[str, float] = dict.fromkeys(CRITERIA, 1 / len(CRITERIA))
DATASET, DATASET_FILE = "ground_truth", "dataset.jsonl"
LOCAL_CLONE = "local-clone"
"""The name of a repository that is a local folder: its path must not be published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleUnderTest:
    """A construct as the template names it: its id, pin, adapter and place.

    `adapter_pin` is that of the adapter, where it is not the first version of its type.
    """

    construct_id: str
    version: str
    adapter_type: str
    endpoint: str
    adapter_pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliedOn:
    """A qualification that a criterion relies on: the SHA-256 of its signed file, and its own."""

    file_sha256: str
    sha256: str


NOTHING: Final[Mapping[str, ReliedOn]] = MappingProxyType({})


def qualification_dataset(criterion: str) -> str:
    """Return the name of the dataset that is the signed file; drafts name it so, too."""
    return f"{criterion}_qualification"


def qualification_file(criterion: str) -> str:
    """Return the name of the signed file in a verification's folder."""
    return f"{qualification_dataset(criterion)}.sigstore.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the user decides about a verification; all of it is committed.

    `timeout_seconds` is for one call, which is tried again up to `max_retries` times.
    `repository` is a URL, or LOCAL_CLONE. With fewer than `minimum_replays` scored changes there
    is no verification certificate.
    """

    weights: Mapping[str, float]
    timeout_seconds: int
    ground_truth_source: str
    repository: str = LOCAL_CLONE
    minimum_replays: int = 50
    max_retries: int = 2


def oracle_template(
    oracle: OracleUnderTest,
    terms: Terms,
    dataset_sha256: str,
    *,
    scoring: ScoringProvider = LEXICAL,
    relied_on: Mapping[str, ReliedOn] = NOTHING,
) -> JsonObject:
    """Return the template for one oracle and one dataset, named by the SHA-256 of its bytes.

    The same for the same arguments; `relied_on` has the criteria whose measure is qualified.
    Criteria of `scoring` that the terms give no weight are published and weigh nothing.
    """
    files: JsonObject = {qualification_dataset(one): qualification_file(one) for one in relied_on}
    named: JsonObject = {
        criterion: {"dataset": qualification_dataset(criterion), "sha256": one.sha256}
        for criterion, one in relied_on.items()
    }
    return {
        # Before 2.2.0 a template names no qualification: what names none keeps its hash.
        "schema_version": "2.2.0" if relied_on else "2.1.0",
        "theatre_id": TEMPLATE_ID,
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": "Community oracle: summaries of changes to a repository",
        "description": "An oracle is shown changes from a repository's history and a question "
        "about each. It writes a summary, single claims and a reply.",
        "criteria": {
            "criteria_ids": list(scoring.criteria_scorers),
            "criteria_human": "; ".join(f"{one}: {what}" for one, what in scoring.measures.items())
            + f". {scoring.criteria_human}",
            "weights": {
                criterion: terms.weights.get(criterion, 0) for criterion in scoring.criteria_scorers
            },
        },
        "version_pins": {
            "constructs": {oracle.construct_id: oracle.version},
            "scorer_version": scoring.scorer_version,
            "methodology_version": scoring.methodology,
            "adapter_version": oracle.adapter_pin or f"{oracle.adapter_type}@1",
        },
        "scorer_pins": {scorer.name: scorer.version for scorer in scoring.scorers},
        "dataset_hashes": {
            DATASET: dataset_sha256,
            **{qualification_dataset(one): file.file_sha256 for one, file in relied_on.items()},
        },
        "resolution_programme": [
            {
                "step_id": "ask_oracle",
                "type": "construct_invocation",
                "construct_id": oracle.construct_id,
                "timeout_seconds": terms.timeout_seconds,
                "output_spec": OUTPUT_SPEC,
            },
            *scoring.aggregate_steps,
            {"step_id": "aggregate_scores", "type": "aggregation"},
            *scoring.steps,
        ],
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "holds", "label": "What it says of the change holds"},
                    {"option_id": "does_not_hold", "label": "Some of it does not"},
                    # Free text names no option, and a score must not choose one for it.
                    {"option_id": "none", "label": "None: what it says is scored"},
                ],
            }
        ],
        "scoring": {
            "holdout_split": 0.2,
            "criteria_scorers": dict(scoring.criteria_scorers),
            **({"qualifications": named} if named else {}),
        },
        "execution_policy": {"retry_policy": {"max_retries": terms.max_retries}},
        "product_theatre_config": {
            "ground_truth_source": terms.ground_truth_source,
            "construct_under_test": oracle.construct_id,
            "adapter_type": oracle.adapter_type,
            "adapter_endpoint": oracle.endpoint,
            "replay_dataset_id": DATASET,
            "replay_data_path": DATASET_FILE,
            **({"dataset_paths": files} if files else {}),
            "disclosure": "hashes",
        },
        "oracle_config": {"repository": terms.repository, "minimum_replays": terms.minimum_replays},
    }


OUTPUT_SPEC: JsonObject = {
    "type": "object",
    "required": ["summary", "key_claims", "follow_up_response"],
    "properties": {
        "summary": {"type": "string"},
        "key_claims": {"type": "array", "items": {"type": "string"}},
        "follow_up_response": {"type": "string"},
        "metadata": {"type": "object"},
    },
}
