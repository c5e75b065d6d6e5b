"""What the audit trail says of the start of a run: everything that the evidence rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import IsolationLostError
from theatre.engine.oracle_contract import InputSanitiser, Isolation
from theatre.engine.replay.computations import PlannedComputation
from theatre.engine.replay.surroundings import RunContext
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate


def activation_detail(
    template: ProductTheatreTemplate,
    provider: TheatreScoringProvider,
    computations: Sequence[PlannedComputation],
    sanitiser: InputSanitiser | None,
    context: RunContext,
    tried: Mapping[str, Isolation],
) -> JsonObject:
    """Return what `activated` says in addition to the number of episodes; `tried` is by construct.

    `authors` only where people rate: who may not rate must be known before the result is, and
    evidence holds no person's name that it does not need.
    """
    detail: JsonObject = {
        "adapters": {name: adapter.pin for name, adapter in context.adapters.items()},
        "scorers": dict(provider.scorer_pins),
        "computations": {
            planned.computation.name: planned.computation.version for planned in computations
        },
        "sanitiser": None if sanitiser is None else sanitiser.version,
        "environment": context.environment,
        "previous_environment": context.previous_environment,
        "isolation": {name: one.as_document() for name, one in tried.items()},
    }
    if provider.ratings:
        names = (hop.construct_id for hop in template.hops)
        detail["authors"] = {name: context.authors.get(name) for name in names}
    return detail


async def probe_isolation(
    template: ProductTheatreTemplate, closed: Sequence[Path], context: RunContext
) -> dict[str, Isolation]:
    """Try what each construct of an episode can reach now; `closed` are places with answers."""
    return {
        hop.construct_id: await context.adapters[hop.construct_id].probe_isolation(closed)
        for hop in template.hops
    }


def read_isolation(activated: JsonObject) -> dict[str, Isolation]:
    """Return what `activated` says of each construct's isolation."""
    documents = cast("dict[str, dict[str, Any]]", activated["isolation"])
    return {name: Isolation(**document) for name, document in documents.items()}


def refuse_weaker(tried: Mapping[str, Isolation], begun: Mapping[str, Isolation]) -> None:
    """Raise IsolationLostError where a construct could reach more than when the run began."""
    for name, one in tried.items():
        if not one.covers(begun[name]):
            raise IsolationLostError(
                f"expected {name} isolated as when the run began "
                f"({_words(begun[name])}), got {_words(one)}"
            )


def _words(one: Isolation) -> str:
    closed = [name for name in ("files", "processes", "network") if getattr(one, name)]
    return f"{', '.join(closed) or 'nothing'} closed, by {one.by}"
