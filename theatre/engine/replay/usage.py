"""What the calls of a run took: time, and the tokens and money of constructs without a wrapper.

Source: docs/certificate.md. The certificate has it where an adapter is one of `PLAIN_ADAPTERS`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.templates import PLAIN_ADAPTERS, ProductTheatreTemplate, view_template

_MILLION = 1_000_000
_QUANTILES = {"p50": 50, "p95": 95, "p99": 99}


def usage_of(calls: list[JsonObject]) -> JsonObject:
    """Return what a record's calls took, by construct; the journal keeps it with the record."""
    found: dict[str, JsonValue] = {}
    for call in calls:
        if cast("str", call["adapter"]).partition("@")[0] not in PLAIN_ADAPTERS:
            continue
        attempts = cast("list[JsonObject]", call["attempts"])
        listed = cast("list[JsonValue]", found.setdefault(cast("str", call["construct_id"]), []))
        for attempt in attempts:
            latency = cast("JsonObject", attempt["response"])["latency_ms"]
            usage = cast("JsonObject | None", attempt.get("usage"))
            counts = [] if usage is None else [usage["input_tokens"], usage["output_tokens"]]
            listed.append([latency, *counts])
    return found


@dataclass(slots=True)
class UsageTally:
    """Adds up what records took; `prices` are dollars a million tokens by construct."""

    prices: dict[str, tuple[Fraction, Fraction]]
    attempts: int = 0
    counted: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    cost: Fraction = Fraction(0)
    unpriced: bool = False
    latencies: Counter[int] = field(default_factory=Counter)

    def note(self, found: JsonObject) -> None:
        """Take what one record took."""
        for construct, listed in found.items():
            price = self.prices.get(construct)
            for latency, *counts in cast("list[list[int]]", listed):
                self.attempts += 1
                self.latencies[latency] += 1
                if not counts:
                    continue
                self.counted += 1
                self.tokens = [a + b for a, b in zip(self.tokens, counts, strict=True)]
                if price is None:
                    self.unpriced = True
                    continue
                pairs = zip(price, counts, strict=True)
                self.cost += sum((one * count for one, count in pairs), Fraction(0)) / _MILLION

    @property
    def cost_usd(self) -> float | None:
        """Return the dollars so far; None where nothing was counted, or a call has no price."""
        return float(round(self.cost, 9)) if self.counted and not self.unpriced else None

    def as_document(self) -> JsonObject | None:
        """Return the certificate's `usage`; None for a run that has none.

        Quantiles are nearest ranks. The cost is null where a call that was counted has no price.
        """
        if not self.attempts:
            return None
        return {
            "calls": self.attempts,
            "calls_counted": self.counted,
            "input_tokens": self.tokens[0],
            "output_tokens": self.tokens[1],
            "cost_usd": self.cost_usd,
            "latency_ms": {name: self._quantile(share) for name, share in _QUANTILES.items()},
        }

    def _quantile(self, percent: int) -> int:
        rank = -(-self.attempts * percent // 100)
        for latency in sorted(self.latencies):
            rank -= self.latencies[latency]
            if rank <= 0:
                return latency
        return 0


def tally_of(template: JsonObject) -> UsageTally | None:
    """Return the empty tally of a template's runs; None where no construct's calls are counted."""
    view = view_template(template)
    if not isinstance(view, ProductTheatreTemplate):
        return None
    config = view.product_theatre_config
    own = (one.adapter_type for one in config.construct_endpoints.values())
    is_counted = any(kind in PLAIN_ADAPTERS for kind in (config.adapter_type, *own))
    return UsageTally(committed_prices(view)) if is_counted else None


def committed_prices(template: ProductTheatreTemplate) -> dict[str, tuple[Fraction, Fraction]]:
    """Return construct → dollars for a million tokens of input and of output, where committed."""
    config = template.product_theatre_config
    settings = {config.construct_under_test: config.adapter_settings}
    settings |= {name: own.adapter_settings for name, own in config.construct_endpoints.items()}
    return {
        name: (Fraction(str(one["prices"]["input"])), Fraction(str(one["prices"]["output"])))
        for name, one in settings.items()
        if "prices" in one
    }
