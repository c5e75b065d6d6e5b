"""What a run is given by its caller: constructs, data, scorers, time, and how to be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from theatre.engine.clock import Clock, Sleep
from theatre.engine.models import InvocationStatus, Scorer
from theatre.engine.oracle_contract import Invoker, OracleAdapter
from theatre.engine.replay.journal import DatasetSource
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.tier_assigner import TierHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is. `status` and `latency_ms` are those of the newest answer, if any."""

    done: int
    total: int
    status: InvocationStatus | None = None
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a run is carried out; none of it shows in a result."""

    output_dir: Path
    issuer: str = "local"
    certificate_run: bool = True
    batch_size: int = 100
    batch_seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run reaches through its caller: constructs, data, scorers, time."""

    adapters: Mapping[str, OracleAdapter]
    invoke: Invoker
    datasets: DatasetSource
    scorers: Mapping[str, Scorer]
    registry: SchemaRegistry
    clock: Clock
    sleep: Sleep
    history: TierHistory = field(default_factory=TierHistory)
    on_progress: Callable[[Progress], None] = lambda _: None
