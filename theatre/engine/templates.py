"""Typed views of a validated template. What is hashed is the document, never such a view.

Source: docs/contract/template.md §2; the defaults here are the documented run-time defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ExecutionPathUnavailableError, ProgrammeError
from theatre.engine.models import ExecutionPath, TheatreCriteria
from theatre.engine.oracle_contract import RetryPolicy

SIMULATION = "1.0.0"
EXISTING = "2.0.1"
CURRENT = "2.1.0"
NEWEST = "2.2.0"
"""The schema versions: simulations, what existing tooling writes, what this release writes, and
that with a limit for closing and with members that are reserved (`reserved_members`)."""

PROVENANCE_CHAIN = "provenance_chain"
RESERVED_ADAPTERS = ("openai", "anthropic", "mcp", "command")
DEFAULT_CLOSE_WITHIN_DAYS = 30

DEFAULT_METHODOLOGY = "1.0.0"
GOLD_LABELS = "gold_labels"
"""The name under which a gold label set is in `dataset_hashes` unless the template says."""


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class VersionPins(_View):
    """Exact versions of everything a run depends on."""

    constructs: dict[str, str] = {}
    scorer_version: str
    methodology_version: str = DEFAULT_METHODOLOGY
    adapter_version: str | None = None


class ResolutionStep(_View):
    """One step of the committed programme."""

    step_id: str
    type: Literal["construct_invocation", "deterministic_computation", "hitl_rubric", "aggregation"]
    construct_id: str | None = None
    input_spec: dict[str, Any] = {}
    output_spec: dict[str, Any] = {}
    escalation_path: str | None = None
    timeout_seconds: float | None = None

    @property
    def walks_a_chain(self) -> bool:
        """Return whether the step says if a log is one intact chain."""
        computes = self.type == "deterministic_computation"
        return computes and self.input_spec.get("computation") == PROVENANCE_CHAIN

    @property
    def guards_integrity(self) -> bool:
        """Return whether the evidence cannot be relied on where this step was not completed.

        So with a computation whose output was committed to fit a schema, and with
        `provenance_chain`, which says whether the ground truth is one intact log.
        """
        computes = self.type == "deterministic_computation"
        return self.walks_a_chain or (computes and bool(self.output_spec))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One construct's turn in every episode. `number` counts from 0, the limit is in seconds.

    `output_spec` is the JSON Schema that its `output_data` must fit; empty where none is
    committed.
    """

    number: int
    construct_id: str
    construct_version: str
    timeout_seconds: float
    output_spec: Mapping[str, Any]


class InputPolicy(_View):
    """How episodes' inputs are sanitised, from the `input_spec` of the first invocation step.

    `raw_fields` are JSON pointers into the input; what lies there is sent as it is.
    """

    role_markers: Literal["break", "flag"] = "break"
    raw_fields: tuple[str, ...] = ()


class ExecutionPolicy(_View):
    """How a run behaves; every value is committed or the documented default."""

    max_concurrency: int = 1
    failure_threshold: float = 0.2
    on_threshold: Literal["settle", "continue"] = "settle"
    max_refusal_rate: float = 0.5
    timeout_seconds: float = 30
    retry_policy: RetryPolicy = RetryPolicy()
    deterministic_sample: int = 0
    sanitise_input: bool = True


class ProductTheatreConfig(_View):
    """Where a replay theatre finds its construct and its ground truth."""

    ground_truth_source: str
    construct_under_test: str
    adapter_type: Literal[
        "http", "local", "mock", "python", "openai", "anthropic", "mcp", "command"
    ]
    construct_chain: tuple[str, ...] = ()
    replay_data_path: str
    replay_dataset_id: str
    gold_label_set: str | None = None
    gold_label_dataset_id: str = GOLD_LABELS
    adapter_endpoint: str | None = None
    construct_endpoints: dict[str, Any] = {}
    dataset_paths: dict[str, str] = {}
    disclosure: Literal["public", "hashes"] = "public"
    episode_runner: str = "single_call"

    def data_paths(self) -> dict[str, str]:
        """Return dataset name → committed path, for every dataset that the template names."""
        paths = {self.replay_dataset_id: self.replay_data_path, **self.dataset_paths}
        if self.gold_label_set is not None:
            paths[self.gold_label_dataset_id] = self.gold_label_set
        return paths


class TheatreTemplate(_View):
    """What both execution paths share."""

    schema_version: str
    theatre_id: str
    template_family: str
    execution_path: ExecutionPath
    display_name: str
    criteria: TheatreCriteria
    version_pins: VersionPins
    scorer_pins: dict[str, str] = {}
    dataset_hashes: dict[str, str] = {}
    resolution_programme: tuple[ResolutionStep, ...] = ()
    execution_policy: ExecutionPolicy = Field(default_factory=ExecutionPolicy)


class ProductTheatreTemplate(TheatreTemplate):
    """A replay theatre: a real construct against ground truth."""

    execution_path: Literal["replay"]
    product_theatre_config: ProductTheatreConfig

    @property
    def programme(self) -> tuple[ResolutionStep, ...]:
        """Return the committed programme; without one, call the construct and aggregate."""
        return self.resolution_programme or (
            ResolutionStep(
                step_id="invoke",
                type="construct_invocation",
                construct_id=self.product_theatre_config.construct_under_test,
            ),
            ResolutionStep(step_id="aggregate", type="aggregation"),
        )

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Return the constructs of an episode in call order: the chain, or those of the steps.

        A single `construct_invocation` step stands for the whole chain; its `output_spec` is
        about the last construct's output. Source: docs/contract/evidence.md §7.
        """
        config, invocations = self.product_theatre_config, self._invocations
        invoked = tuple(step.construct_id or config.construct_under_test for step in invocations)
        chain = config.construct_chain or invoked
        whole = len(invocations) == 1
        steps = invocations * len(chain) if whole else invocations
        return tuple(
            Hop(
                number=number,
                construct_id=construct_id,
                construct_version=self.version_pins.constructs[construct_id],
                timeout_seconds=self._timeout_of(step),
                output_spec={} if whole and construct_id != chain[-1] else step.output_spec,
            )
            for number, (construct_id, step) in enumerate(zip(chain, steps, strict=True))
        )

    @property
    def input_policy(self) -> InputPolicy:
        """Return how inputs are sanitised, where the execution policy says that they are."""
        return InputPolicy.model_validate(self._invocations[0].input_spec)

    @property
    def _invocations(self) -> tuple[ResolutionStep, ...]:
        return tuple(step for step in self.programme if step.type == "construct_invocation")

    @property
    def replay_dataset_hash(self) -> str:
        """Return the committed SHA-256 of the replay dataset."""
        return self.dataset_hashes[self.product_theatre_config.replay_dataset_id]

    def _timeout_of(self, step: ResolutionStep) -> float:
        """Return a call's time limit in seconds: the step's if written, else the policy's."""
        return step.timeout_seconds or self.execution_policy.timeout_seconds


class MarketTheatreTemplate(TheatreTemplate):
    """A market theatre: schema and commitment only, no execution."""

    execution_path: Literal["market"]


class SimulationTemplate(_View):
    """A template of version 1.0.0: committed and readable, no execution."""

    schema_version: Literal["1.0.0"]
    theatre_id: str
    template_family: str
    display_name: str
    description: str = ""


TemplateView: TypeAlias = ProductTheatreTemplate | MarketTheatreTemplate | SimulationTemplate


def view_template(document: JsonObject) -> TemplateView:
    """Return the typed view of a document that the validator accepted."""
    if document.get("schema_version") == SIMULATION:
        return SimulationTemplate.model_validate(document)
    if document.get("execution_path") == "market":
        return MarketTheatreTemplate.model_validate(document)
    view = ProductTheatreTemplate.model_validate(document)
    return _without_gold(view) if gold_is_unpinned(document) else view


def product_template(document: JsonObject) -> ProductTheatreTemplate:
    """Return the view of a replay template for a run.

    Raises ExecutionPathUnavailableError for any other, and ProgrammeError for one that commits to
    what is reserved: a run that ignored it would not be the committed one.
    """
    view = view_template(document)
    if isinstance(view, ProductTheatreTemplate):
        reserved = reserved_members(document)
        if reserved:
            raise ProgrammeError(
                f"this version cannot run {', '.join(reserved)}: reserved in {NEWEST}, to be "
                "validated, hashed and committed; leave it out to run the template"
            )
        return view
    kind = "market" if isinstance(view, MarketTheatreTemplate) else f"{SIMULATION} simulation"
    raise ExecutionPathUnavailableError(
        f"expected a replay template, got the {kind} template {view.theatre_id}: it can be "
        "validated, hashed and committed, not run"
    )


def reserved_members(document: JsonObject) -> tuple[str, ...]:
    """Return by name what a valid 2.2.0 template commits to and this version cannot run yet."""
    if document.get("schema_version") != NEWEST:
        return ()
    named = (("execution_policy", "repeats"), ("execution_policy", "budget"))
    found = [
        f"{holder}.{name}"
        for holder, name in (*named, ("scoring", "qualifications"))
        if name in cast("JsonObject", document.get(holder, {}))
    ]
    config = cast("JsonObject", document.get("product_theatre_config", {}))
    own = cast("Mapping[str, JsonObject]", config.get("construct_endpoints", {}))
    types = {config.get("adapter_type"), *(one["adapter_type"] for one in own.values())}
    return (*found, *(f"adapter_type {name}" for name in RESERVED_ADAPTERS if name in types))


def gold_is_unpinned(document: JsonObject) -> bool:
    """Return whether a 2.0.1 template names gold labels and commits no hash of them.

    They are not used then, and the tier is capped. Source: docs/contract/template.md §3.
    """
    config, hashes = document.get("product_theatre_config"), document.get("dataset_hashes")
    return (
        document.get("schema_version") == EXISTING
        and isinstance(config, dict)
        and "gold_label_set" in config
        and not (isinstance(hashes, dict) and GOLD_LABELS in hashes)
    )


def _without_gold(view: ProductTheatreTemplate) -> ProductTheatreTemplate:
    config = view.product_theatre_config.model_copy(update={"gold_label_set": None})
    return view.model_copy(update={"product_theatre_config": config})
