"""Which versions of which scorers a commitment is about, and what these rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import (
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    TemplateView,
)


class ScorersInUse(NamedTuple):
    """Scorer → version, and scorer → kind, as written in the receipt."""

    pins: dict[str, str]
    kinds: dict[str, str]


def scorers_in_use(
    document: JsonObject, view: TemplateView, scorers: Mapping[str, Scorer]
) -> ScorersInUse:
    """Return what scores a replay; of a market, which nothing scores here, what was pinned."""
    if isinstance(view, ProductTheatreTemplate):
        provider = TheatreScoringProvider(document, scorers)
        return ScorersInUse(provider.scorer_pins, provider.scorer_kinds)
    return ScorersInUse(
        dict(view.scorer_pins) if isinstance(view, MarketTheatreTemplate) else {}, {}
    )
