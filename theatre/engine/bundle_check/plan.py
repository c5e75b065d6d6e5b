"""What a committed template asks for, read from its document and the documented defaults.

Source: docs/contract/template.md §2 and §3. Read here once more, on purpose
without the engine's own views and rules: the check must not share their mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import cast

from theatre.engine.bundle_check.arithmetic import COMPOSITE, exact
from theatre.engine.bundle_check.json_values import DefectError, render
from theatre.engine.bundle_check.steps import (
    CommittedHop,
    CommittedRubric,
    CommittedStep,
    SanitisePolicy,
    committed_hops,
    committed_rubrics,
    committed_sanitising,
    committed_steps,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.models import SINGLE_CALL, EpisodeRunner

_WEIGHT_TOLERANCE = Fraction(1, 1_000_000)
_WITHOUT_SCORERS = "2.0.1"
"""The version whose templates may leave the choice open (docs/contract/template.md §1)."""

_MAX_PATH = 1000
"""Longest dotted path of a criterion: beyond 4,300 digits Python reads no integer."""

REPLAY_DATASET = "ground_truth/dataset.jsonl"
GOLD_LABELS = "ground_truth/gold_labels.jsonl"
_DEFAULTS: JsonObject = {
    "failure_threshold": 0.2,
    "on_threshold": "settle",
    "max_refusal_rate": 0.5,
    "timeout_seconds": 30,
    "deterministic_sample": 0,
    "max_concurrency": 1,
    "sanitise_input": True,
}
_RETRY_DEFAULTS: JsonObject = {"backoff_seconds": 5, "max_retries": 2}


def committed_criteria(document: JsonObject) -> JsonObject:
    """Return the criteria as a certificate shows them.

    Raises DefectError for weights that the arithmetic cannot use.
    """
    criteria = cast("JsonObject", document["criteria"])
    ids = cast("list[str]", criteria["criteria_ids"])
    weights = cast("dict[str, float]", criteria.get("weights", {}))
    if COMPOSITE in ids:
        raise DefectError(f"criteria that are not named {COMPOSITE}", "one that is")
    if weights and weights.keys() != set(ids):
        raise DefectError("weights for exactly the criteria", render(dict(weights)))
    total = sum((exact(weight) for weight in weights.values()), Fraction(0))
    if weights and (abs(total - 1) > _WEIGHT_TOLERANCE or min(weights.values()) < 0):
        raise DefectError("weights from 0 that sum to 1", render(dict(weights)))
    return {
        "criteria_ids": list(ids),
        "criteria_human": criteria.get("criteria_human", ""),
        "weights": dict(weights),
    }


def _chosen(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → its entry of `criteria_scorers`, for each committed criterion."""
    scoring = cast("JsonObject", document["scoring"])
    criteria = cast("list[str]", cast("JsonObject", document["criteria"])["criteria_ids"])
    if document["schema_version"] == _WITHOUT_SCORERS and "criteria_scorers" not in scoring:
        return {
            name: {"scorer": "exact_match", "params": {"field": name, "expected": name}}
            for name in criteria
        }
    entries = cast("JsonObject", scoring.get("criteria_scorers", {}))
    chosen = {}
    for criterion in criteria:
        if criterion not in entries:
            raise DefectError(f"a scorer for criterion {criterion}", "none")
        chosen[criterion] = cast("JsonObject", entries[criterion])
    return chosen


def names_its_scorers(document: JsonObject) -> bool:
    """Return whether the template itself says how each criterion is scored."""
    return bool(cast("JsonObject", document["scoring"]).get("criteria_scorers"))


def committed_scorers(document: JsonObject) -> dict[str, str]:
    """Return criterion → name of its scorer; DefectError for a criterion without one."""
    return {
        criterion: cast("str", entry["scorer"]) for criterion, entry in _chosen(document).items()
    }


def committed_params(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → parameters of its scorer; DefectError for a path beyond all measure."""
    params = {
        criterion: cast("JsonObject", entry.get("params", {}))
        for criterion, entry in _chosen(document).items()
    }
    for criterion, given in params.items():
        for name in ("field", "expected"):
            path = given.get(name)
            if isinstance(path, str) and len(path) > _MAX_PATH:
                raise DefectError(
                    f"a path of at most {_MAX_PATH} characters at {criterion}/{name}",
                    f"{len(path)} characters",
                )
    return params


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPlan:
    """One replay template, read.

    `hops` are the calls of a round, in order. `dataset_paths` maps names of datasets to paths
    in the bundle, `datasets` those to committed SHA-256. `failure_threshold` is None where the
    run continues whatever fails, `sanitising` where inputs are sent as they are, and
    `deterministic_sample` how many episodes are called a second time. `rubrics` are the
    ratings by step_id, in programme order, and `caps` codes that the template itself earns.
    """

    document: JsonObject
    commitment_hash: str
    template_id: str
    construct_id: str
    construct_version: str
    hops: tuple[CommittedHop, ...]
    chain_versions: dict[str, JsonValue] | None
    adapter_version: str | None
    scorer_version: str
    methodology_version: str
    ground_truth_source: str
    criteria: JsonObject
    scorers: Mapping[str, str]
    scorers_committed: bool
    params: Mapping[str, JsonObject]
    dataset_hashes: JsonObject
    replay_dataset_hash: str
    dataset_paths: Mapping[str, str]
    retry_policy: JsonObject
    failure_threshold: Fraction | None
    max_refusal_rate: Fraction
    max_concurrency: int
    deterministic_sample: int
    episode_runner: str
    sanitising: SanitisePolicy | None
    steps: tuple[CommittedStep, ...]
    rubrics: Mapping[str, CommittedRubric]
    caps: tuple[str, ...]

    @property
    def datasets(self) -> Mapping[str, str]:
        """Return path in the bundle → committed SHA-256, for every dataset."""
        hashes = cast("Mapping[str, str]", self.dataset_hashes)
        return {path: hashes[name] for name, path in self.dataset_paths.items()}

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


def committed_plan(
    document: JsonObject, *, runners: Mapping[str, EpisodeRunner] | None = None
) -> CommittedPlan:
    """Read a template that fits the schema of its version; `runners` are the installed ones.

    Raises DefectError for a rule that the arithmetic rests on, and for what was committed but
    is beyond this version of the check: it must not pass what it did not recompute.
    """
    if document["execution_path"] != "replay":
        raise DefectError("a replay template", render(document["execution_path"]))
    config, pins = _object(document, "product_theatre_config"), _object(document, "version_pins")
    policy = _DEFAULTS | _object(document, "execution_policy")
    installed = runners or {}
    _refuse_beyond(config, installed)
    _refuse_reserved(document)
    construct_id = cast("str", config["construct_under_test"])
    hops = committed_hops(document, timeout_seconds=cast("float", policy["timeout_seconds"]))
    versions = {hop.construct_id: hop.version for hop in hops}
    hashes = cast("dict[str, str]", _object(document, "dataset_hashes"))
    threshold = exact(cast("float", policy["failure_threshold"]))
    if (named := config.get("episode_runner", SINGLE_CALL)) != SINGLE_CALL:
        _refuse_beyond_play(policy, hops, installed[cast("str", named)])
    return CommittedPlan(
        document=document,
        commitment_hash=commitment_hash(document),
        template_id=cast("str", document["theatre_id"]),
        construct_id=construct_id,
        construct_version=versions[construct_id],
        hops=hops,
        chain_versions=dict(versions) if "construct_chain" in config or len(hops) > 1 else None,
        adapter_version=cast("str | None", pins.get("adapter_version")),
        scorer_version=cast("str", pins["scorer_version"]),
        methodology_version=cast("str", pins.get("methodology_version", "1.0.0")),
        ground_truth_source=cast("str", config["ground_truth_source"]),
        criteria=committed_criteria(document),
        scorers=committed_scorers(document),
        scorers_committed=names_its_scorers(document),
        params=committed_params(document),
        dataset_hashes=dict(hashes),
        replay_dataset_hash=_replay_hash(config, hashes),
        dataset_paths=_dataset_paths(config, hashes),
        retry_policy=_RETRY_DEFAULTS | _object(policy, "retry_policy"),
        failure_threshold=threshold if policy["on_threshold"] == "settle" else None,
        max_refusal_rate=exact(cast("float", policy["max_refusal_rate"])),
        max_concurrency=int(cast("float", policy["max_concurrency"])),
        episode_runner=cast("str", config.get("episode_runner", SINGLE_CALL)),
        deterministic_sample=int(cast("float", policy["deterministic_sample"])),
        sanitising=committed_sanitising(document) if policy["sanitise_input"] else None,
        steps=committed_steps(document, hashes),
        rubrics=committed_rubrics(document),
        caps=("gold-unpinned",) if _gold_is_unpinned(document, config, hashes) else (),
    )


def _object(document: JsonObject, name: str) -> JsonObject:
    return cast("JsonObject", document.get(name, {}))


def _refuse_beyond(config: JsonObject, runners: Mapping[str, EpisodeRunner]) -> None:
    """Raise DefectError for committed behaviour that this version cannot recompute."""
    runner = config.get("episode_runner", SINGLE_CALL)
    if runner not in {SINGLE_CALL, *runners}:
        installed = "".join(f" or {name}" for name in sorted(runners))
        raise DefectError(
            f"episode_runner {SINGLE_CALL}{installed} (all this version can check)", render(runner)
        )
    endpoints = cast("Mapping[str, JsonObject]", config.get("construct_endpoints", {}))
    if "mock" in {config["adapter_type"], *(e["adapter_type"] for e in endpoints.values())}:
        raise DefectError("an adapter_type that reaches a real construct", '"mock"')


def _refuse_reserved(document: JsonObject) -> None:
    """Raise DefectError for what 2.2.0 reserves: no version runs it, so no run obeyed it."""
    if document["schema_version"] != "2.2.0":
        return
    policy, config = (
        _object(document, "execution_policy"),
        _object(document, "product_theatre_config"),
    )
    endpoints = cast("Mapping[str, JsonObject]", config.get("construct_endpoints", {}))
    types = {config["adapter_type"], *(one["adapter_type"] for one in endpoints.values())}
    found = [
        *sorted(policy.keys() & {"repeats", "budget"}),
        *sorted(_object(document, "scoring").keys() & {"qualifications"}),
        *sorted(cast("set[str]", types) & {"openai", "anthropic", "mcp", "command"}),
    ]
    if found:
        raise DefectError("a template without what 2.2.0 reserves", ", ".join(found))


def _refuse_beyond_play(
    policy: JsonObject, hops: Sequence[CommittedHop], runner: EpisodeRunner
) -> None:
    """Raise DefectError for what no interactive episode is run with."""
    unplayable = len(hops) != runner.constructs
    if unplayable or policy["deterministic_sample"] or policy["sanitise_input"]:
        raise DefectError(
            f"an interactive episode with {runner.constructs} of its constructs, no repeats, "
            "and inputs as they are",
            f"{len(hops)} constructs, {render(policy)}",
        )


def _replay_hash(config: JsonObject, hashes: Mapping[str, str]) -> str:
    name = config.get("replay_dataset_id")
    if not isinstance(name, str) or name not in hashes:
        raise DefectError("a dataset hash for replay_dataset_id", render(name))
    return hashes[name]


def _gold_is_unpinned(document: JsonObject, config: JsonObject, hashes: Mapping[str, str]) -> bool:
    """Return whether gold labels are named without a hash: rule 19 lets 2.0.1 do so, unused."""
    named = document["schema_version"] == "2.0.1" and "gold_label_set" in config
    return named and "gold_labels" not in hashes


def _dataset_paths(config: JsonObject, hashes: Mapping[str, str]) -> dict[str, str]:
    gold_name = config.get("gold_label_dataset_id", "gold_labels")
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for name in hashes:
        if name == config.get("replay_dataset_id"):
            path = REPLAY_DATASET
        else:
            path = GOLD_LABELS if name == gold_name else f"ground_truth/{name}.jsonl"
        if path in taken or ".." in PurePosixPath(path).parts:
            raise DefectError("dataset names with a file each in ground_truth", render(name))
        taken.add(path)
        paths[name] = path
    return paths
