"""What a run is given by its caller: constructs, data, scorers, time, and how to be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, Sleep
from theatre.engine.coin import Coin
from theatre.engine.models import Computation, EpisodeRunner, Judge, Scorer
from theatre.engine.oracle_contract import InputSanitiser, Invoker, OracleAdapter
from theatre.engine.replay.journal import DatasetSource
from theatre.engine.replay.progress import Progress
from theatre.engine.replay.sealed_run import Rehearsal
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import ProductTheatreTemplate
from theatre.engine.tier_assigner import TierHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a run is carried out; none of it shows in a result.

    A bundle that the own check refuses is moved from `output_dir` to `drafts_dir`.
    `concurrency_limit` is the most calls at a time, where that is less than was committed. Where
    several processes may run one theatre after another, each has its own number `attempt`.
    """

    output_dir: Path
    drafts_dir: Path
    issuer: str = "local"
    certificate_run: bool = True
    batch_size: int = 100
    batch_seconds: float = 1.0
    concurrency_limit: int | None = None
    attempt: int = 0

    def concurrency(self, committed: int) -> int:
        """Return how many calls to make at a time."""
        return (
            committed if self.concurrency_limit is None else min(committed, self.concurrency_limit)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a run reaches through its caller: constructs, data, scorers, time, and its coin.

    `coin` is the one that the commitment names; None where it is lost, which ends the run.
    `adapters` holds one for every construct of an episode, by id, and `authors` who wrote it, where
    that is known; `environment` is what they can import here, as in a receipt, and
    `previous_environment` that of the newest certificate of the same construct and version, if one
    is known; `closed` are places with answers, apart from the run's own folder, that none of them
    may read; `judge` is for templates with judged criteria, and `sanitiser` may be None for those
    that commit `sanitise_input` as false.
    Once `is_stopping` returns true, no further episode is called. `on_rehearsed` is given what a
    rehearsal came to.
    """

    coin: Coin | None
    adapters: Mapping[str, OracleAdapter]
    authors: Mapping[str, str | None] = field(default_factory=dict)
    environment: JsonObject | None = None
    previous_environment: JsonObject | None = None
    closed: Sequence[Path] = ()
    invoke: Invoker
    datasets: DatasetSource
    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation] = field(default_factory=dict)
    runners: Mapping[str, EpisodeRunner] = field(default_factory=dict)
    judge: Judge | None = None
    sanitiser: InputSanitiser | None = None
    registry: SchemaRegistry
    clock: Clock
    sleep: Sleep
    history: TierHistory = field(default_factory=TierHistory)
    on_progress: Callable[[Progress], None] = lambda _: None
    on_rehearsed: Callable[[Rehearsal], None] = lambda _: None
    is_stopping: Callable[[], bool] = lambda: False

    def sanitiser_for(self, template: ProductTheatreTemplate) -> InputSanitiser | None:
        """Return the sanitiser where the template commits to one, else None."""
        return self.sanitiser if template.execution_policy.sanitise_input else None

    def runner_for(self, template: ProductTheatreTemplate) -> EpisodeRunner | None:
        """Return the runner of interactive episodes; None where each is a single call."""
        return self.runners.get(template.product_theatre_config.episode_runner)
