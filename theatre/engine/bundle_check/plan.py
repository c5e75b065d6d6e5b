"""What a committed template asks for, read from its document and the documented defaults.

Source: docs/contract/template.md §2 and §3. Read here once more, on purpose
without the engine's own views and rules: the check must not share their mistakes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias, cast

from theatre.engine.bundle_check.arithmetic import (
    COMPOSITE,
    adapter_type_of,
    exact,
    recorded_types,
    undeclared,
)
from theatre.engine.bundle_check.report import DefectError, render
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.models import SINGLE_CALL, EpisodeRunner

INVOCATION = "construct_invocation"
RoleMarkers: TypeAlias = Literal["break", "flag"]

_SANITISE_DEFAULTS: JsonObject = {"role_markers": "break", "raw_fields": []}
_ROLE_MARKERS: tuple[RoleMarkers, ...] = ("break", "flag")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")

RUBRIC = "hitl_rubric"
AGGREGATION = "aggregation"
_FILE_NAME = re.compile(r"[^/\x00-\x1f]{1,200}")
COMPUTATION = "deterministic_computation"

EPISODES = "episodes"
"""What a computation is over unless it names a dataset: the episodes that were run."""

FAIL = "FAIL"
"""The `escalation_path` of a step whose failure ends the theatre, like none."""

_KNOWN = frozenset({INVOCATION, AGGREGATION, COMPUTATION, RUBRIC})
_WITH_OUTPUT = frozenset({INVOCATION, COMPUTATION})
_COMPUTATION_DEFAULTS: JsonObject = {"over": EPISODES, "params": {}, "in_aggregate": False}


class CommittedHop(NamedTuple):
    """One construct of the chain: its pin, its limit in seconds, and what its output must fit.

    An empty `output_spec` lets any output pass.
    """

    construct_id: str
    version: str
    adapter_type: str
    timeout_seconds: float
    output_spec: JsonObject


class SanitisePolicy(NamedTuple):
    """How inputs are sanitised: `break` or `flag`, and pointers to what is left as it is."""

    role_markers: RoleMarkers
    raw_fields: tuple[str, ...]


def committed_hops(document: JsonObject, *, timeout_seconds: float) -> tuple[CommittedHop, ...]:
    """Return the chain; `timeout_seconds` is the limit where no step has its own.

    A single step stands for a whole chain: its limit is that of every call, its `output_spec`
    is about the last output. Raises DefectError for a chain that contradicts its steps, calls
    a construct twice, or leaves out the construct under test, and for a missing pin.
    """
    steps = _invocation_steps(document)
    constructs = _constructs(document, [step["construct_id"] for step in steps])
    version_pins = cast("Mapping[str, Mapping[str, str]]", document["version_pins"])
    pins = version_pins.get("constructs", {})
    for construct in constructs:
        if construct not in pins:
            raise DefectError(f"a version pin of {render(construct)}", "none")
    of_hops = steps if len(steps) > 1 else [steps[0]] * len(constructs)
    last = len(constructs) - 1
    return tuple(
        CommittedHop(
            construct_id=construct,
            version=pins[construct],
            adapter_type=adapter_type_of(document, construct),
            timeout_seconds=cast("float", step.get("timeout_seconds", timeout_seconds)),
            output_spec=cast("JsonObject", step.get("output_spec", {}))
            if len(steps) > 1 or hop == last
            else {},
        )
        for hop, (construct, step) in enumerate(zip(constructs, of_hops, strict=True))
    )


def committed_sanitising(document: JsonObject) -> SanitisePolicy:
    """Return how the first invocation step has inputs sanitised.

    Raises DefectError for a policy that no sanitiser understands.
    """
    spec = _invocation_steps(document)[0].get("input_spec", {})
    chosen = _SANITISE_DEFAULTS | cast("JsonObject", spec)
    markers, fields = chosen["role_markers"], chosen["raw_fields"]
    if markers not in _ROLE_MARKERS:
        raise DefectError(f"role_markers {' or '.join(_ROLE_MARKERS)}", render(markers))
    if not isinstance(fields, list) or not all(
        isinstance(one, str) and _POINTER.fullmatch(one) for one in fields
    ):
        raise DefectError("raw_fields as an array of JSON pointers", render(fields))
    return SanitisePolicy(role_markers=markers, raw_fields=tuple(cast("list[str]", fields)))


def _invocation_steps(document: JsonObject) -> Sequence[JsonObject]:
    programme = cast("list[JsonObject]", document["resolution_programme"])
    steps = [step for step in programme if step["type"] == INVOCATION]
    if not steps:
        raise DefectError(f"a {INVOCATION} step or more", "none")
    for step in steps:
        if "construct_id" not in step:
            raise DefectError("a construct_id in each step that calls one", render(step))
    return steps


def _constructs(document: JsonObject, invoked: Sequence[JsonValue]) -> Sequence[str]:
    config = cast("JsonObject", document["product_theatre_config"])
    under_test = config["construct_under_test"]
    chain = cast("Sequence[JsonValue]", config.get("construct_chain", invoked))
    if invoked != chain and not (len(invoked) == 1 and invoked[0] in chain):
        wanted = f"steps for the constructs of {render(list(chain))}, or one for all of them"
        raise DefectError(wanted, render(list(invoked)))
    ids = Counter(cast("Sequence[str]", chain))
    if len(ids) != len(chain):
        raise DefectError("each construct once in a chain", render(ids.most_common(1)[0][0]))
    ends = (chain[0], chain[-1]) if "construct_chain" in config else chain
    if under_test not in ends:
        wanted = f"a chain that begins or ends with the construct under test, {render(under_test)}"
        raise DefectError(wanted, render(list(chain)))
    return list(ids)


class CommittedRubric(NamedTuple):
    """One rating: a scale from `low` to `high`, how many items, and who is enough.

    `share` is that of the human part in the criterion's score, None where it moves none;
    `timeout_seconds` None where the document writes no limit. `in_aggregate` tells whether the
    step is before the first aggregation.
    """

    step_id: str
    low: Fraction
    high: Fraction
    minimum_scorers: int
    scorer_must_not_be_author: bool
    items: int
    criterion_id: str | None
    share: float | None
    timeout_seconds: float | None
    in_aggregate: bool

    @property
    def path(self) -> str:
        """Return where the bundle has the scores."""
        return f"hitl/{self.step_id}.jsonl"

    def scaled(self, score: float) -> Fraction:
        """Return where `score` lies between the ends of the scale: 0 at `low`, 1 at `high`."""
        return (exact(score) - self.low) / (self.high - self.low)


def committed_rubrics(document: JsonObject) -> Mapping[str, CommittedRubric]:
    """Return step_id → rubric, in the order of the programme.

    Raises DefectError for a rating without its step or the other way round, for a scale without
    length, and for a share that no arithmetic could take in.
    """
    entries = cast("list[JsonObject]", document.get("hitl_steps", []))
    by_id = {cast("str", entry["step_id"]): entry for entry in entries}
    programme = cast("list[JsonObject]", document["resolution_programme"])
    asked = [cast("str", step["step_id"]) for step in programme if step["type"] == RUBRIC]
    if len(by_id) != len(entries) or sorted(by_id) != sorted(asked):
        wanted = f"an entry in hitl_steps for each of the {RUBRIC} steps {render([*asked])}"
        raise DefectError(wanted, render([entry["step_id"] for entry in entries]))
    kinds = [step["type"] for step in programme]
    first = kinds.index(AGGREGATION) if AGGREGATION in kinds else len(kinds)
    rubrics = [
        _rubric(step, by_id[cast("str", step["step_id"])], in_aggregate=number < first)
        for number, step in enumerate(programme)
        if step["type"] == RUBRIC
    ]
    _require_countable(rubrics, document)
    return {rubric.step_id: rubric for rubric in rubrics}


def _rubric(step: JsonObject, entry: JsonObject, *, in_aggregate: bool) -> CommittedRubric:
    scale = cast("Mapping[str, float]", entry["scoring_scale"])
    identity = cast("JsonObject", entry.get("identity_separation", {}))
    step_id = cast("str", step["step_id"])
    low, high = exact(scale["min"]), exact(scale["max"])
    if low >= high:
        raise DefectError(f"a scale of {render(step_id)} with min below max", render({**scale}))
    if not _FILE_NAME.fullmatch(step_id) or step_id in {".", ".."}:
        raise DefectError(f"a step_id of a {RUBRIC} that is the name of a file", render(step_id))
    return CommittedRubric(
        step_id=step_id,
        low=low,
        high=high,
        minimum_scorers=int(cast("float", identity.get("minimum_scorers", 1))),
        scorer_must_not_be_author=identity.get("scorer_must_not_be_author", True) is True,
        items=int(cast("float", entry.get("items", 1))),
        criterion_id=cast("str | None", entry.get("criterion_id")),
        share=cast("float | None", entry.get("share")),
        timeout_seconds=cast("float | None", step.get("timeout_seconds")),
        in_aggregate=in_aggregate,
    )


def _require_countable(rubrics: Sequence[CommittedRubric], document: JsonObject) -> None:
    """Let a criterion have one human part at most, known when its score is made."""
    criteria = cast("list[str]", cast("JsonObject", document["criteria"])["criteria_ids"])
    for rubric in rubrics:
        if rubric.criterion_id is not None and rubric.criterion_id not in criteria:
            raise DefectError("a rating of a committed criterion", render(rubric.criterion_id))
        if rubric.criterion_id is not None and not rubric.in_aggregate:
            wanted = "a rating of a criterion before the first aggregation"
            raise DefectError(wanted, f"{render(rubric.step_id)} behind it")
    shared = Counter(one.criterion_id for one in rubrics if one.share is not None)
    for criterion, times in shared.items():
        if criterion is None or times > 1:
            raise DefectError("one step with a share in each criterion", render(criterion))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedComputation:
    """A computation by name; `over` is EPISODES or the name of a committed dataset.

    An empty `output_spec` lets any output pass. `in_aggregate` tells whether the output stands
    in `scores/aggregate.json`, too.
    """

    name: str
    over: str
    params: JsonObject
    output_spec: JsonObject = field(default_factory=dict)
    in_aggregate: bool = False


class CommittedStep(NamedTuple):
    """One step; `computation` is None for every type but `deterministic_computation`.

    `escalation` is the later step that a failure leads to, None where it ends the theatre.
    """

    step_id: str
    type: str
    computation: CommittedComputation | None = None
    escalation: str | None = None

    @property
    def walks_a_chain(self) -> bool:
        """Return whether the step says of a log if it is one intact chain (docs/scorers.md)."""
        return self.computation is not None and self.computation.name == "provenance_chain"

    @property
    def guards_integrity(self) -> bool:
        """Return whether the tier is capped where the step was not completed.

        Source: docs/contract/evidence.md §8.
        """
        named = self.computation
        return self.walks_a_chain or (named is not None and bool(named.output_spec))


def committed_steps(
    document: JsonObject, dataset_hashes: Mapping[str, str]
) -> tuple[CommittedStep, ...]:
    """Return the programme in committed order.

    Raises DefectError for a type that this version cannot check, for ids that repeat, for an
    escalation that does not lead forward, for a computation that does not say what is
    computed over what, and for one in the aggregate that comes too late for it.
    """
    steps = cast("list[JsonObject]", document["resolution_programme"])
    ids = Counter(cast("str", step["step_id"]) for step in steps)
    if len(ids) != len(steps):
        raise DefectError("step ids that are unique", render(ids.most_common(1)[0][0]))
    order, aggregated, read = list(ids), False, []
    for number, step in enumerate(steps):
        committed = _step(step, dataset_hashes, order[number + 1 :])
        aggregated = aggregated or committed.type == AGGREGATION
        named = committed.computation
        if aggregated and named is not None and named.in_aggregate:
            raise DefectError("a step in_aggregate before the first aggregation", committed.step_id)
        read.append(committed)
    return tuple(read)


def _step(
    step: JsonObject, dataset_hashes: Mapping[str, str], later: Sequence[str]
) -> CommittedStep:
    kind = cast("str", step["type"])
    if kind not in _KNOWN:
        names = ", ".join(sorted(_KNOWN))
        raise DefectError(f"a programme of {names} (all this version can check)", kind)
    output_spec = cast("JsonObject", step.get("output_spec", {}))
    if kind not in _WITH_OUTPUT and output_spec:
        wanted = f"an output_spec only in a step {' or '.join(sorted(_WITH_OUTPUT))}"
        raise DefectError(wanted, f"one in a step {kind}")
    escalation = cast("str | None", step.get("escalation_path"))
    if escalation is not None and escalation not in {FAIL, *later}:
        raise DefectError(f"an escalation_path to a later step or {FAIL}", render(escalation))
    computation = None
    if kind == COMPUTATION:
        spec = cast("JsonObject", step.get("input_spec", {}))
        computation = _computation(_COMPUTATION_DEFAULTS | spec, output_spec, dataset_hashes)
    return CommittedStep(
        step_id=cast("str", step["step_id"]),
        type=kind,
        computation=computation,
        escalation=None if escalation == FAIL else escalation,
    )


def _computation(
    spec: JsonObject, output_spec: JsonObject, dataset_hashes: Mapping[str, str]
) -> CommittedComputation:
    name, over, params = spec.get("computation"), spec["over"], spec["params"]
    in_aggregate = spec["in_aggregate"]
    if not isinstance(name, str) or not name:
        raise DefectError("the name of a computation", render(name))
    if spec.keys() != {"computation", *_COMPUTATION_DEFAULTS}:
        raise DefectError(
            "an input_spec of computation, over, params and in_aggregate", ", ".join(sorted(spec))
        )
    if not isinstance(over, str) or over not in {EPISODES, *dataset_hashes}:
        raise DefectError(f"a computation over {EPISODES} or a committed dataset", render(over))
    if not isinstance(params, dict):
        raise DefectError("the params of a computation as an object", render(params))
    if not isinstance(in_aggregate, bool) or (in_aggregate and over != EPISODES):
        wanted = f"in_aggregate true or false, and true over {EPISODES} only"
        raise DefectError(wanted, f"{render(in_aggregate)} over {over}")
    return CommittedComputation(
        name=name, over=over, params=params, output_spec=output_spec, in_aggregate=in_aggregate
    )


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


def _params(chosen: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return criterion → parameters of its scorer; DefectError for a path beyond all measure."""
    params = {name: cast("JsonObject", entry.get("params", {})) for name, entry in chosen.items()}
    for criterion, given in params.items():
        for name in ("field", "expected"):
            path = given.get(name)
            if isinstance(path, str) and len(path) > _MAX_PATH:
                expected = f"a path of at most {_MAX_PATH} characters at {criterion}/{name}"
                raise DefectError(expected, f"{len(path)} characters")
    return params


class CommittedPlan(NamedTuple):
    """One replay template, read.

    `hops` are the calls of a round, in order. `dataset_paths` maps names of datasets to paths
    in the bundle, `datasets` those to committed SHA-256. `failure_threshold` is None where the
    run continues whatever fails, `sanitising` where inputs are sent as they are, and
    `deterministic_sample` how many episodes are called a second time, `repeats` how often each
    is asked. `rubrics` are the
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
    repeats: int
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

    def withheld(self, episode_ids: Sequence[str]) -> frozenset[str] | None:
        """Return which episodes a published bundle keeps private; None where it keeps none.

        DefectError where one of them is no episode.
        """
        chosen = _object(self.document, "product_theatre_config").get("withheld")
        if not isinstance(chosen, dict):
            return None
        if "share" not in chosen:
            named = frozenset(cast("list[str]", chosen["episodes"]))
            if strangers := sorted(named - {*episode_ids}):
                raise DefectError("withheld episodes of the dataset", ", ".join(strangers[:5]))
            return named
        size = math.ceil(exact(cast("float", chosen["share"])) * len(episode_ids))

        def rank(episode_id: str) -> bytes:
            drawn = f"{self.commitment_hash}:withheld:{episode_id}"
            return hashlib.sha256(drawn.encode()).digest()

        return frozenset(sorted(episode_ids, key=rank)[:size])

    @property
    def recorded_answers(self) -> str | None:
        """Return the path of a finished log's answers; None where a construct is called."""
        config = _object(self.document, "product_theatre_config")
        if config["adapter_type"] != "imported":
            return None
        return self.dataset_paths.get(str(config.get("adapter_endpoint")), REPLAY_DATASET)

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
    _refuse_beyond_repeats(document, policy)
    construct_id = cast("str", config["construct_under_test"])
    hops = committed_hops(document, timeout_seconds=cast("float", policy["timeout_seconds"]))
    versions = {hop.construct_id: hop.version for hop in hops}
    hashes = cast("dict[str, str]", _object(document, "dataset_hashes"))
    threshold = exact(cast("float", policy["failure_threshold"]))
    if (named := config.get("episode_runner", SINGLE_CALL)) != SINGLE_CALL:
        _refuse_beyond_play(policy, hops, installed[cast("str", named)])
    named_dataset = config.get("replay_dataset_id")
    if not isinstance(named_dataset, str) or named_dataset not in hashes:
        raise DefectError("a dataset hash for replay_dataset_id", render(named_dataset))
    for construct in undeclared(document, canonical_sha256):
        raise DefectError(f"{construct} pinned by the hash of what it is asked", "another version")
    criteria, chosen = committed_criteria(document), _chosen(document)
    # Gold labels are named without a hash: a 2.0.1 template may do so, unused.
    unpinned = document["schema_version"] == "2.0.1" and "gold_label_set" in config
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
        criteria=criteria,
        scorers={name: cast("str", entry["scorer"]) for name, entry in chosen.items()},
        scorers_committed=bool(_object(document, "scoring").get("criteria_scorers")),
        params=_params(chosen),
        dataset_hashes=dict(hashes),
        replay_dataset_hash=hashes[named_dataset],
        dataset_paths=_dataset_paths(config, hashes),
        retry_policy=_RETRY_DEFAULTS | _object(policy, "retry_policy"),
        failure_threshold=threshold if policy["on_threshold"] == "settle" else None,
        max_refusal_rate=exact(cast("float", policy["max_refusal_rate"])),
        max_concurrency=int(cast("float", policy["max_concurrency"])),
        episode_runner=cast("str", config.get("episode_runner", SINGLE_CALL)),
        deterministic_sample=int(cast("float", policy["deterministic_sample"])),
        repeats=_repeats(policy),
        sanitising=committed_sanitising(document) if policy["sanitise_input"] else None,
        steps=committed_steps(document, hashes),
        rubrics=committed_rubrics(document),
        caps=(
            *(("gold-unpinned",) if unpinned and "gold_labels" not in hashes else ()),
            # No one else can compute again what a published bundle keeps private.
            *(("episodes-withheld",) if "withheld" in config else ()),
        ),
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
    if "mock" in _adapter_types(config):  # canned answers show nothing of a construct
        raise DefectError("an adapter_type that reaches a real construct", '"mock"')


def _adapter_types(config: JsonObject) -> set[str]:
    endpoints = cast("Mapping[str, JsonObject]", config.get("construct_endpoints", {}))
    return cast(
        "set[str]",
        {config["adapter_type"], *(one["adapter_type"] for one in endpoints.values())},
    )


def _refuse_beyond_repeats(document: JsonObject, policy: JsonObject) -> None:
    """Raise DefectError for what reads one answer, where episodes are asked more than once."""
    config = _object(document, "product_theatre_config")
    if _repeats(policy) > 1 and (
        policy["deterministic_sample"]
        or document.get("hitl_steps")
        or config.get("episode_runner", SINGLE_CALL) != SINGLE_CALL
        or recorded_types(document)
    ):
        raise DefectError(
            "repeats of single calls alone: no deterministic_sample, no ratings, no finished log",
            render(policy),
        )


def _repeats(policy: JsonObject) -> int:
    return int(cast("float", policy.get("repeats", 1)))


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
