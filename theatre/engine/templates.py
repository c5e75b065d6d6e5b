"""Typed views of a validated template. What is hashed is the document, never such a view.

Source: contract/template.md, "Fields"; the defaults here are the documented run-time defaults.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.models import ExecutionPath, TheatreCriteria
from theatre.engine.oracle_contract import RetryPolicy

DEFAULT_METHODOLOGY = "1.0.0"
GOLD_LABELS = "gold_labels"
"""The name under which a gold label set stands in `dataset_hashes` unless the template says."""


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
    adapter_type: Literal["http", "local", "mock", "python"]
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
    def replay_dataset_hash(self) -> str:
        """Return the committed SHA-256 of the replay dataset."""
        return self.dataset_hashes[self.product_theatre_config.replay_dataset_id]

    def timeout_of(self, step: ResolutionStep) -> float:
        """Return a call's time limit in seconds: the step's if written, else the policy's."""
        return step.timeout_seconds or self.execution_policy.timeout_seconds


class MarketTheatreTemplate(TheatreTemplate):
    """A market theatre: schema and commitment only, no execution."""

    execution_path: Literal["market"]


def view_template(document: JsonObject) -> ProductTheatreTemplate | MarketTheatreTemplate:
    """Return the typed view of a document that the validator accepted."""
    if document.get("execution_path") == "market":
        return MarketTheatreTemplate.model_validate(document)
    return ProductTheatreTemplate.model_validate(document)


def product_template(document: JsonObject) -> ProductTheatreTemplate:
    """Return the view of a replay template; InvalidTemplateError for a market one."""
    view = view_template(document)
    if not isinstance(view, ProductTheatreTemplate):
        raise InvalidTemplateError(
            f"expected a replay template, got the market template {view.theatre_id}: "
            "market templates can be validated and hashed, not run"
        )
    return view
