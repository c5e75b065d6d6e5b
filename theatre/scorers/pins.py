"""Which versions of which scorers a commitment is about."""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import (
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    TemplateView,
)


def scorers_in_use(
    document: JsonObject, view: TemplateView, scorers: Mapping[str, Scorer]
) -> dict[str, str]:
    """Return scorer → version for the receipt: what scores a replay, else what was pinned."""
    if isinstance(view, ProductTheatreTemplate):
        return TheatreScoringProvider(document, scorers).scorer_pins
    return dict(view.scorer_pins) if isinstance(view, MarketTheatreTemplate) else {}
