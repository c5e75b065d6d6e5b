"""What a committed template asks for, read from its document and the documented defaults.

Source: contract/template.md, "Fields" and "Runtime rules". Read here once more, on purpose
without the engine's own views and rules: the check must not share their mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import cast

from theatre.engine.bundle_check.criteria import (
    committed_criteria,
    committed_params,
    committed_scorers,
)
from theatre.engine.bundle_check.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.scoring import exact

REPLAY_DATASET = "ground_truth/dataset.jsonl"
GOLD_LABELS = "ground_truth/gold_labels.jsonl"

INVOCATION = "construct_invocation"
AGGREGATION = "aggregation"

_DEFAULTS: JsonObject = {
    "failure_threshold": 0.2,
    "on_threshold": "settle",
    "max_refusal_rate": 0.5,
    "timeout_seconds": 30,
    "deterministic_sample": 0,
    "sanitise_input": True,
}
_RETRY_DEFAULTS: JsonObject = {"max_retries": 2, "backoff_seconds": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPlan:
    """One replay template, read. `datasets` maps paths in the bundle to committed SHA-256.

    `failure_threshold` is None where the run goes on whatever fails; `steps` are (id, type).
    """

    document: JsonObject
    commitment_hash: str
    template_id: str
    construct_id: str
    construct_version: str
    chain_versions: dict[str, JsonValue] | None
    adapter_version: str | None
    scorer_version: str
    methodology_version: str
    ground_truth_source: str
    criteria: JsonObject
    scorers: Mapping[str, str]
    params: Mapping[str, JsonObject]
    dataset_hashes: JsonObject
    replay_dataset_hash: str
    datasets: Mapping[str, str]
    retry_policy: JsonObject
    timeout_seconds: float
    failure_threshold: Fraction | None
    max_refusal_rate: Fraction
    steps: tuple[tuple[str, str], ...]

    @property
    def max_attempts(self) -> int:
        """Return how often a failing call is made in all."""
        return int(cast("float", self.retry_policy["max_retries"])) + 1


def commitment_hash(template: JsonObject) -> str:
    """Return the SHA-256 of the composite, in which an absent member of the template is `{}`."""
    return canonical_sha256(
        {
            "dataset_hashes": template.get("dataset_hashes", {}),
            "template": template,
            "version_pins": template.get("version_pins", {}),
        }
    )


def committed_plan(document: JsonObject) -> CommittedPlan:
    """Read a template that fits the 2.1.0 schema.

    Raises DefectError for a rule that the arithmetic rests on, and for what was committed but
    is beyond this version of the check: it must not pass what it did not recompute.
    """
    if document["execution_path"] != "replay":
        raise DefectError("a replay template", shown(document["execution_path"]))
    config, pins = _object(document, "product_theatre_config"), _object(document, "version_pins")
    policy = _DEFAULTS | _object(document, "execution_policy")
    _refuse_beyond(config, policy)
    construct_id = cast("str", config["construct_under_test"])
    invocation = _invocation_step(document, construct_id)
    hashes = cast("dict[str, str]", _object(document, "dataset_hashes"))
    threshold = exact(cast("float", policy["failure_threshold"]))
    return CommittedPlan(
        document=document,
        commitment_hash=commitment_hash(document),
        template_id=cast("str", document["theatre_id"]),
        construct_id=construct_id,
        construct_version=_pin(pins, construct_id),
        chain_versions=_chain_versions(config, pins),
        adapter_version=cast("str | None", pins.get("adapter_version")),
        scorer_version=cast("str", pins["scorer_version"]),
        methodology_version=cast("str", pins.get("methodology_version", "1.0.0")),
        ground_truth_source=cast("str", config["ground_truth_source"]),
        criteria=committed_criteria(document),
        scorers=committed_scorers(document),
        params=committed_params(document),
        dataset_hashes=dict(hashes),
        replay_dataset_hash=_replay_hash(config, hashes),
        datasets=_datasets(config, hashes),
        retry_policy=_RETRY_DEFAULTS | _object(policy, "retry_policy"),
        timeout_seconds=cast("float", invocation.get("timeout_seconds", policy["timeout_seconds"])),
        failure_threshold=threshold if policy["on_threshold"] == "settle" else None,
        max_refusal_rate=exact(cast("float", policy["max_refusal_rate"])),
        steps=tuple((cast("str", s["step_id"]), cast("str", s["type"])) for s in _steps(document)),
    )


def _object(document: JsonObject, name: str) -> JsonObject:
    return cast("JsonObject", document.get(name, {}))


def _refuse_beyond(config: JsonObject, policy: JsonObject) -> None:
    """Raise DefectError for committed behaviour that this version cannot recompute."""
    supported: Mapping[str, tuple[JsonValue, JsonValue]] = {
        "sanitise_input": (False, policy["sanitise_input"]),
        "deterministic_sample": (0, policy["deterministic_sample"]),
        "episode_runner": ("single_call", config.get("episode_runner", "single_call")),
    }
    for name, (known, committed) in supported.items():
        if committed != known:
            raise DefectError(
                f"{name} {shown(known)} (all this version can check)", shown(committed)
            )
    if config["adapter_type"] == "mock":
        raise DefectError("an adapter_type that reaches a real construct", '"mock"')


def _pin(pins: JsonObject, construct_id: str) -> str:
    constructs = cast("dict[str, str]", _object(pins, "constructs"))
    if construct_id not in constructs:
        raise DefectError(f"a version pin of {shown(construct_id)}", "none")
    return constructs[construct_id]


def _chain_versions(config: JsonObject, pins: JsonObject) -> dict[str, JsonValue] | None:
    under_test = cast("str", config["construct_under_test"])
    chain = cast("list[JsonValue]", config.get("construct_chain", []))
    if chain not in ([], [under_test]):
        raise DefectError(f"a construct_chain of {shown(under_test)} alone", shown(chain))
    return {under_test: _pin(pins, under_test)} if chain else None


def _steps(document: JsonObject) -> Sequence[JsonObject]:
    return cast("list[JsonObject]", document["resolution_programme"])


def _invocation_step(document: JsonObject, construct_id: str) -> JsonObject:
    steps = _steps(document)
    kinds = Counter(cast("str", step["type"]) for step in steps)
    if kinds.keys() - {INVOCATION, AGGREGATION} or kinds[INVOCATION] != 1:
        raise DefectError(
            f"a programme of one {INVOCATION} and {AGGREGATION} (all this version can check)",
            shown(dict(kinds)),
        )
    ids = Counter(cast("str", step["step_id"]) for step in steps)
    if len(ids) != len(steps):
        raise DefectError("step ids that are unique", shown(ids.most_common(1)[0][0]))
    if any(step.get("output_spec") for step in steps):
        raise DefectError("no output_spec (all this version can check)", "one")
    step = next(step for step in steps if step["type"] == INVOCATION)
    called = step.get("construct_id", construct_id)
    if called != construct_id:
        raise DefectError(
            f"a call of the construct under test, {shown(construct_id)}", shown(called)
        )
    return step


def _replay_hash(config: JsonObject, hashes: Mapping[str, str]) -> str:
    name = config.get("replay_dataset_id")
    if not isinstance(name, str) or name not in hashes:
        raise DefectError("a dataset hash for replay_dataset_id", shown(name))
    return hashes[name]


def _datasets(config: JsonObject, hashes: Mapping[str, str]) -> dict[str, str]:
    gold_name = config.get("gold_label_dataset_id", "gold_labels")
    named: dict[str, str] = {}
    for name, sha256 in hashes.items():
        if name == config.get("replay_dataset_id"):
            path = REPLAY_DATASET
        else:
            path = GOLD_LABELS if name == gold_name else f"ground_truth/{name}.jsonl"
        if path in named or ".." in PurePosixPath(path).parts:
            raise DefectError("dataset names with a file each in ground_truth", shown(name))
        named[path] = sha256
    return named
