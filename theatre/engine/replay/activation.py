"""What the audit trail says of the start of a run: everything that the evidence rests on."""

from __future__ import annotations

from collections.abc import Sequence

from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import InputSanitiser
from theatre.engine.replay.computations import PlannedComputation
from theatre.engine.replay.surroundings import Surroundings
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate


def activation_detail(
    template: ProductTheatreTemplate,
    provider: TheatreScoringProvider,
    computations: Sequence[PlannedComputation],
    sanitiser: InputSanitiser | None,
    around: Surroundings,
) -> JsonObject:
    """Return what `activated` says beside the number of episodes.

    `authors` only where people rate: who may not has to be known before anybody knows how the
    run went, and nobody's name stands in evidence that does not need it.
    """
    detail: JsonObject = {
        "adapters": {name: adapter.pin for name, adapter in around.adapters.items()},
        "scorers": dict(provider.scorer_pins),
        "computations": {
            planned.computation.name: planned.computation.version for planned in computations
        },
        "sanitiser": None if sanitiser is None else sanitiser.version,
        "environment": around.environment,
        "previous_environment": around.previous_environment,
    }
    if provider.ratings:
        names = (hop.construct_id for hop in template.hops)
        detail["authors"] = {name: around.authors.get(name) for name in names}
    return detail
