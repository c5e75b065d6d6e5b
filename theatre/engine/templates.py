"""A template as a value: rules, commitment and runs read this. What is hashed is the document.

Source: docs/contract/template.md §2; the defaults here are the documented run-time defaults.

Past 400 lines: a class for each object that the schema names, and the two ways to read them.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticUseDefault

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ExecutionPathUnavailableError
from theatre.engine.models import ExecutionPath, TheatreCriteria
from theatre.engine.oracle_contract import RetryPolicy

SIMULATION = "1.0.0"
EXISTING = "2.0.1"
CURRENT = "2.1.0"
NEWEST = "2.2.0"
"""The schema versions: simulations, what existing tooling writes, what this release writes, and
that with a limit for closing, repeats and qualifications."""

PROVENANCE_CHAIN = "provenance_chain"
PLAIN_ADAPTERS = ("openai", "anthropic", "mcp", "command", "container")
"""Those that know no envelope: `adapter_settings` say what is asked and how it is answered."""

DEFAULT_CLOSE_WITHIN_DAYS = 30

DEFAULT_METHODOLOGY = "1.0.0"
GOLD_LABELS = "gold_labels"
"""The name under which a gold label set is in `dataset_hashes` unless the template says."""


_FAULTY = "faulty"
"""The context of a reading that takes of a document what fits, and is only for the rules."""


class _Part(BaseModel):
    """An object of a template.

    Read for a run, it raises where a member has another type, or a required one is not there. Of a
    faulty document such a member reads as its default, a required text as "". `model_fields_set`
    has the members that are written, whatever they hold.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: object, info: ValidationInfo) -> object:
        if info.context != _FAULTY:
            return value
        required = [name for name, member in cls.model_fields.items() if member.is_required()]
        return dict.fromkeys(required, "") | (value if isinstance(value, dict) else {})

    @field_validator("*", mode="wrap")
    @classmethod
    def _read(
        cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        try:
            return read(value)
        except ValidationError:
            # A run must never go on with a default in the place of what was committed.
            if info.context != _FAULTY:
                raise
            if cls.model_fields[info.field_name or ""].is_required():
                return ""
            raise PydanticUseDefault from None


def _read_text(value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    try:
        return read(value)
    except ValidationError:
        if info.context != _FAULTY:
            raise
        return ""


Text: TypeAlias = Annotated[str, WrapValidator(_read_text)]
"""A text among others: its place and its name stay where, in a faulty document, it is none."""


def _object_or_none(value: object, info: ValidationInfo) -> object:
    """Return what is written; of a faulty document nothing, where it is no object."""
    return None if info.context == _FAULTY and not isinstance(value, dict) else value


def _fitting_criteria(value: object, info: ValidationInfo) -> object:
    """Return what is written; of faulty criteria what fits, NaN for a weight that is no number."""
    if info.context != _FAULTY:
        return value
    written = value if isinstance(value, dict) else {}
    ids, weights = written.get("criteria_ids"), written.get("weights")
    return {
        "criteria_ids": [
            one if isinstance(one, str) else "" for one in (ids if isinstance(ids, list) else ())
        ],
        "weights": {
            criterion: weight if type(weight) in {int, float} else math.nan
            for criterion, weight in (weights.items() if isinstance(weights, dict) else ())
        },
    }


Number: TypeAlias = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
"""A number as it is written: 1 stays 1, and neither `true` nor "1" is one."""


class VersionPins(_Part):
    """Exact versions of everything a run depends on."""

    constructs: dict[str, Text] = {}
    scorer_version: str
    methodology_version: str = DEFAULT_METHODOLOGY
    adapter_version: str | None = None


class ResolutionStep(_Part):
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


class Scale(_Part):
    """The points that people may give; `labels` is a point as it is written → what it means."""

    min: Number | None = None
    max: Number | None = None
    labels: dict[str, Any] = {}


class HitlStep(_Part):
    """What a `hitl_rubric` step asks of people, and the share of it in a criterion's score."""

    step_id: str
    scoring_scale: Scale = Field(default_factory=Scale)
    criterion_id: str | None = None
    share: Any = None


MEETS, FALLS_SHORT = "meets", "falls_short"
"""The options of a fork that asks whether an answer meets the expectation."""

RESIDUAL_OPTIONS = frozenset(
    {
        "other",
        "any_other",
        "another",
        "otherwise",
        "none",
        "none_of_the_above",
        "none_of_these",
        "neither",
        "no_change",
        "unchanged",
        "no_event",
        "nothing",
        "status_quo",
        "residual",
    }
)
"""Ids or labels of an option that takes what the others leave over."""


class ForkOption(_Part):
    """One way in which a fork may turn out."""

    option_id: str
    label: str | None = None

    @property
    def is_residual(self) -> bool:
        """Return whether it takes what the others leave over."""
        names = [self.option_id, self.label or ""] if self.option_id else []
        words = [fold_case(name.replace("-", " ").replace("_", " ")) for name in names]
        return any(name.replace(" ", "_") in RESIDUAL_OPTIONS for name in words)


class Fork(_Part):
    """A question with options. A market trades them; an export tells answers apart by them."""

    fork_id: str
    options: tuple[ForkOption, ...] = ()
    exhaustive: Any = None
    mutually_exclusive: Any = None
    exhaustive_because: Any = None

    @property
    def option_ids(self) -> list[str]:
        """Return the ids of the options, in order."""
        return [option.option_id for option in self.options if option.option_id]

    @property
    def residual_option(self) -> str | None:
        """Return the id of the first option that takes what the others leave over."""
        return next((option.option_id for option in self.options if option.is_residual), None)

    @property
    def asks_for_judgement(self) -> bool:
        """Return whether it asks if an answer meets the expectation."""
        return {MEETS, FALLS_SHORT} <= set(self.option_ids)


_ID_LETTERS, _LONGEST_SLUG = 8, 200
"""With all around it, an id is at most 255 bytes."""
_AS_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def theatre_id_of(name: str, family: str = "product") -> str:
    """Return the theatre id of a name; that of another name is another one.

    Theatre ids have small letters and underscores alone. Where that loses something of the name,
    eight letters of its SHA-256 follow. `family` is the first word.
    """
    slug = re.sub(r"[^a-z]+", "_", name.lower())[:_LONGEST_SLUG].strip("_")
    if slug and slug == name:
        return f"{family}_{slug}_v1"
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    letters = digest[:_ID_LETTERS].translate(_AS_LETTERS)
    return f"{family}_{slug or 'theatre'}_{letters}_v1"


def construct_id_of(name: str) -> str:
    """Return the id of a construct that is called as a folder; that of another is another one.

    A log counts all runs of an id as those of one construct.
    """
    return theatre_id_of(name).removeprefix("product_").removesuffix("_v1")


def fold_case(text: str) -> str:
    """Return `text` as a reader takes it: without case and superfluous space."""
    return " ".join(text.casefold().split())


class ScorerChoice(_Part):
    """The scorer of a criterion."""

    scorer: str
    params: Any = Field(default_factory=dict)


class Scoring(_Part):
    """Which scorer stands for which criterion; `qualifications` is open before 2.2.0."""

    criteria_scorers: dict[str, ScorerChoice] = {}
    calibration_criterion: str | None = None
    qualifications: Any = None


class OsintSource(_Part):
    """A source of a market."""

    provider: str | None = None
    modality: str | None = None
    resolution_role: Any = None


class MarketTheatreConfig(_Part):
    """The sources of a market."""

    osint_sources: tuple[OsintSource, ...] = ()
    corroboration_minimum: Number | None = None


class InputPolicy(_Part):
    """How episodes' inputs are sanitised, from the `input_spec` of the first invocation step.

    `raw_fields` are JSON pointers into the input; what lies there is sent as it is.
    """

    role_markers: Literal["break", "flag"] = "break"
    raw_fields: tuple[str, ...] = ()


class Budget(_Part):
    """What one start of a run may use at most; None for no limit."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None


class ExecutionPolicy(_Part):
    """How a run behaves; every value is committed or the documented default."""

    max_concurrency: int = 1
    failure_threshold: float = 0.2
    on_threshold: Literal["settle", "continue"] = "settle"
    max_refusal_rate: float = 0.5
    timeout_seconds: float = 30
    retry_policy: RetryPolicy = RetryPolicy()
    deterministic_sample: int = 0
    sanitise_input: bool = True
    repeats: int = 1
    budget: Budget | None = None


class ConstructEndpoint(_Part):
    """Where one construct of a chain is reached, in its own way."""

    adapter_type: str
    endpoint: str
    adapter_settings: dict[str, Any] = {}


class Withheld(_Part):
    """Which episodes a published bundle keeps private: these, or a share of all."""

    episodes: tuple[Text, ...] = ()
    share: float | None = None


class ProductTheatreConfig(_Part):
    """Where a replay theatre finds its construct and its ground truth."""

    ground_truth_source: str
    construct_under_test: str
    adapter_type: str
    harness: str | None = None
    construct_chain: tuple[Text, ...] = ()
    replay_data_path: str = ""
    replay_dataset_id: str = ""
    gold_label_set: str | None = None
    gold_label_dataset_id: str = GOLD_LABELS
    adapter_endpoint: str | None = None
    adapter_settings: dict[str, Any] = {}
    construct_endpoints: dict[str, ConstructEndpoint] = {}
    dataset_paths: dict[str, Text] = {}
    disclosure: Literal["public", "hashes", "withheld"] = "public"
    withheld: Withheld | None = None
    episode_runner: str = "single_call"

    def data_paths(self) -> dict[str, str]:
        """Return dataset name → committed path, for every dataset that the template names."""
        paths = {self.replay_dataset_id: self.replay_data_path, **self.dataset_paths}
        if self.gold_label_set is not None:
            paths[self.gold_label_dataset_id] = self.gold_label_set
        return paths

    @property
    def adapter_types(self) -> frozenset[str]:
        """Return how its constructs are reached."""
        own = (endpoint.adapter_type for endpoint in self.construct_endpoints.values())
        return frozenset({self.adapter_type, *own})


class TheatreTemplate(_Part):
    """What both execution paths share; what only one of them has is empty in the other."""

    schema_version: str
    theatre_id: str
    template_family: str
    execution_path: ExecutionPath
    display_name: str
    criteria: Annotated[TheatreCriteria, BeforeValidator(_fitting_criteria)]
    version_pins: VersionPins
    scorer_pins: dict[str, Text] = {}
    dataset_hashes: dict[str, Text] = {}
    resolution_programme: tuple[ResolutionStep, ...] = ()
    hitl_steps: tuple[HitlStep, ...] = ()
    fork_definitions: tuple[Fork, ...] = ()
    scoring: Scoring = Field(default_factory=Scoring)
    execution_policy: ExecutionPolicy = Field(default_factory=ExecutionPolicy)
    product_theatre_config: Annotated[
        ProductTheatreConfig | None, BeforeValidator(_object_or_none)
    ] = None
    market_theatre_config: Annotated[
        MarketTheatreConfig | None, BeforeValidator(_object_or_none)
    ] = None
    rlmf_export_config: Any = None

    @property
    def replays(self) -> bool:
        """Return whether it puts a real construct to the test."""
        return self.execution_path == "replay"

    @property
    def trades(self) -> bool:
        """Return whether it is a market."""
        return self.execution_path == "market"

    def steps(self, kind: str) -> Iterator[tuple[int, ResolutionStep]]:
        """Yield the steps of one type, with their places in the programme."""
        return (
            (at, step) for at, step in enumerate(self.resolution_programme) if step.type == kind
        )

    @property
    def judged_fork(self) -> Fork | None:
        """Return the first fork that asks whether an answer meets the expectation."""
        return next((fork for fork in self.fork_definitions if fork.asks_for_judgement), None)

    @property
    def export_mapping(self) -> JsonObject:
        """Return what `rlmf_export_config` says of fork and paths; empty before 2.1.0."""
        config = self.rlmf_export_config
        if self.schema_version not in (CURRENT, NEWEST) or not isinstance(config, dict):
            return {}
        return {
            name: config[name]
            for name in ("fork_id", "output_path", "truth_path")
            if name in config
        }

    @property
    def gold_is_unpinned(self) -> bool:
        """Return whether a 2.0.1 template names gold labels and commits no hash of them.

        They are not used then, and the tier is capped. Source: docs/contract/template.md §3.
        """
        config = self.product_theatre_config
        return (
            self.schema_version == EXISTING
            and config is not None
            and "gold_label_set" in config.model_fields_set
            and GOLD_LABELS not in self.dataset_hashes
        )


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


class SimulationTemplate(_Part):
    """A template of version 1.0.0: committed and readable, no execution."""

    schema_version: Literal["1.0.0"]
    theatre_id: str
    template_family: str
    display_name: str
    description: str = ""


TemplateView: TypeAlias = ProductTheatreTemplate | MarketTheatreTemplate | SimulationTemplate


def read_template(document: JsonObject) -> TemplateView:
    """Return the value of a document as it is written, for its rules.

    Raises pydantic's ValidationError for a document that the schema of its version refuses.
    """
    if document.get("schema_version") == SIMULATION:
        return SimulationTemplate.model_validate(document)
    if document.get("execution_path") == "market":
        return MarketTheatreTemplate.model_validate(document)
    return ProductTheatreTemplate.model_validate(document)


def read_faulty_template(document: JsonObject) -> TheatreTemplate:
    """Return what fits of any document whatever: only to say what else is wrong with it."""
    return TheatreTemplate.model_validate(document, context=_FAULTY)


def view_template(document: JsonObject) -> TemplateView:
    """Return the value of a document that the validator accepted, as a run obeys it."""
    return as_run(read_template(document))


def as_run(view: TemplateView) -> TemplateView:
    """Return a template as a run obeys it: without gold labels that are not pinned."""
    if not (isinstance(view, ProductTheatreTemplate) and view.gold_is_unpinned):
        return view
    config = view.product_theatre_config.model_copy(update={"gold_label_set": None})
    return view.model_copy(update={"product_theatre_config": config})


def product_template(document: JsonObject) -> ProductTheatreTemplate:
    """Return the value of a replay template for a run.

    Raises ExecutionPathUnavailableError for any other.
    """
    view = view_template(document)
    if isinstance(view, ProductTheatreTemplate):
        return view
    kind = "market" if isinstance(view, MarketTheatreTemplate) else f"{SIMULATION} simulation"
    raise ExecutionPathUnavailableError(
        f"expected a replay template, got the {kind} template {view.theatre_id}: it can be "
        "validated, hashed and committed, not run"
    )
