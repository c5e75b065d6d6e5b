"""One scenario, many seeds and configurations: each run with its own id, one row a cell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, Self
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from theatre.debate.blind import blind
from theatre.debate.errors import SweepError
from theatre.debate.evaluators import crit, raudit
from theatre.debate.evaluators.raudit import Transitions, estimate
from theatre.debate.evaluators.results import mean
from theatre.debate.models import Debate, parse_action
from theatre.debate.runner import RunPlan
from theatre.debate.scripted import Disposition, Scenario, labels_of
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import first_mistake

NO_CONSTRUCTS: Mapping[str, str] = MappingProxyType({})


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Configuration(_Closed):
    """One row of the sweep's table: what is varied, and who debates.

    A registered `construct` hears temperature, version of the prompts and seed with each question;
    scripted debaters, which there are without one, do not.
    """

    name: Annotated[str, Field(pattern="^[a-z0-9_]{1,40}$")]
    control: bool
    temperature: Annotated[float, Field(ge=0)] = 0.0
    prompt_bundle_version: str = "1"
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    debaters: Disposition = Disposition()
    construct_id: Annotated[str, Field(min_length=1, max_length=255)] | None = None

    @model_validator(mode="after")
    def _one_kind_of_debaters(self) -> Self:
        if self.construct_id is not None and "debaters" in self.model_fields_set:
            raise ValueError("expected a construct or scripted debaters, got both")
        return self


class Agent(_Closed):
    """A participant."""

    agent_id: str
    role: str


class Seeds(_Closed):
    """The seeds `first` … `first + count - 1`."""

    first: Annotated[int, Field(ge=0)] = 0
    count: Annotated[int, Field(ge=1, le=100_000)]


class SweepPlan(_Closed):
    """What a sweep runs. `scenario` is a file next to the plan."""

    sweep_version: Literal["1"]
    scenario: str
    agents: Annotated[list[Agent], Field(min_length=1)]
    rounds: Annotated[int, Field(ge=1, le=100)]
    seeds: Seeds
    configurations: Annotated[list[Configuration], Field(min_length=1)]
    pins: dict[str, str] = {}
    """construct_id → version: needed for one behind a URL, checked for one that is run here."""

    @property
    def constructs(self) -> list[str]:
        """Return the ids of the constructs that debate."""
        ids = {one.construct_id for one in self.configurations}
        return sorted(one for one in ids if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run of a sweep: its plan, and who debates."""

    configuration: Configuration
    seed: int
    plan: RunPlan


def read_plan(document: JsonObject) -> SweepPlan:
    """Return the plan in `document`. Raises SweepError for another shape."""
    try:
        plan = SweepPlan.model_validate(document)
    except ValidationError as error:
        raise SweepError(f"expected a sweep plan, got at {first_mistake(error)}") from error
    names = [one.name for one in plan.configurations]
    if len(set(names)) < len(names):
        raise SweepError(f"expected each configuration once, got {names}")
    return plan


def runs_of(
    plan: SweepPlan, scenario: Scenario, versions: Mapping[str, str] = NO_CONSTRUCTS
) -> Iterator[SweepRun]:
    """Yield every run, seed by seed. Its run_id follows from debate, configuration and seed.

    `versions` has that of each construct in the plan.
    """
    for seed in range(plan.seeds.first, plan.seeds.first + plan.seeds.count):
        for configuration in plan.configurations:
            yield SweepRun(
                configuration=configuration,
                seed=seed,
                plan=_run_plan(plan, scenario, configuration, seed, versions),
            )


def table(
    debates: Iterable[tuple[str, Debate]], scenario: Scenario, names: Sequence[str]
) -> list[JsonObject]:
    """Return one row a configuration, in the order of `names`, over all its debates."""
    cells = {name: _Cell() for name in names}
    labels = labels_of(scenario)
    for name, debate in debates:
        cells[name].add(debate, labels["*"])
    return [{"configuration": name, **cell.row()} for name, cell in cells.items()]


class _Cell:
    def __init__(self) -> None:
        self._runs = self._turns = self._attempts = self._true = 0
        self._retries = Transitions()
        self._endpoints = Transitions()
        self._gammas: list[float] = []

    def add(self, debate: Debate, truth: str) -> None:
        self._runs += 1
        for turn in debate.turns:
            self._turns += 1
            self._attempts += max(len(turn.attempts or ()), 1)
            answer = turn.rca_trace.final_answer if turn.rca_trace else None
            self._true += parse_action(answer) == truth
            answers = [parse_action(one.final_answer) == truth for one in turn.attempts or ()]
            self._retries += raudit.transitions(answers)
            if len(answers) > 1:
                self._endpoints += raudit.transitions([answers[0], answers[-1]])
        figures = crit.evaluate(blind(debate)).summary["gamma_mean"]
        self._gammas += [figures] if isinstance(figures, float) else []

    def row(self) -> JsonObject:
        return {
            "runs": self._runs,
            "turns": self._turns,
            "attempts_per_turn": self._attempts / self._turns if self._turns else None,
            "final_answers_true": estimate(self._true, self._turns),
            "per_retry": self._retries.as_document(),
            "endpoints": self._endpoints.as_document(),
            "gamma_mean": mean(self._gammas),
        }


def _run_plan(
    plan: SweepPlan,
    scenario: Scenario,
    configuration: Configuration,
    seed: int,
    versions: Mapping[str, str],
) -> RunPlan:
    name = f"urn:echelon:debate-run:{scenario.debate_id}/{configuration.name}/{seed}"
    settings: JsonObject = {
        "temperature": configuration.temperature,
        "seed": seed,
        "prompt_bundle_version": configuration.prompt_bundle_version,
    }
    construct = configuration.construct_id
    who: JsonObject = {"generation_mode": "mock", "global_model_name": "scripted"}
    if construct is not None:
        who = {
            "generation_mode": "live",
            "global_model_name": construct,
            "construct_version": versions[construct],
        }
    metadata: JsonObject = {**who, **settings, "configuration": configuration.name}
    return RunPlan(
        debate_id=scenario.debate_id,
        run_id=str(uuid5(NAMESPACE_URL, name)),
        scenario=scenario.public(),
        participants=[(agent.agent_id, agent.role) for agent in plan.agents],
        rounds=plan.rounds,
        mode="in_loop" if configuration.control else "posthoc",
        run_metadata=metadata,
        max_retries=configuration.max_retries,
        settings=None if construct is None else settings,
    )
