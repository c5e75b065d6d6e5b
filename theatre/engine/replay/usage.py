"""What the calls of a run took: time, and the tokens and money of constructs without a wrapper.

Source: docs/certificate.md. The certificate has it where an adapter is one of `PLAIN_ADAPTERS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

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
    """Adds up what records took; `prices` are dollars a million tokens by construct.

    `counted_by` has for each construct how many attempts had their tokens counted, and the tokens
    of input and of output.
    """

    prices: Mapping[str, tuple[Fraction, Fraction]]
    counted_by: dict[str, list[int]] = field(default_factory=dict)
    latencies: Counter[int] = field(default_factory=Counter)

    @classmethod
    def from_sums(
        cls, prices: Mapping[str, tuple[Fraction, Fraction]], sums: Mapping[str, Any] | None
    ) -> UsageTally:
        """Return the tally that `as_sums` was made of; an empty one for None."""
        if sums is None:
            return cls(prices)
        latencies = Counter({int(one): count for one, count in sums["latencies"].items()})
        return cls(prices, {name: [*one] for name, one in sums["counted"].items()}, latencies)

    def as_sums(self) -> JsonObject | None:
        """Return what a later `from_sums` goes on from, as JSON; None where nothing was noted."""
        if not self.latencies:
            return None
        latencies: JsonObject = {str(one): self.latencies[one] for one in sorted(self.latencies)}
        return {
            "counted": {name: [*one] for name, one in self.counted_by.items()},
            "latencies": latencies,
        }

    def note(self, found: Mapping[str, JsonValue]) -> None:
        """Take what one record took."""
        for construct, listed in found.items():
            for latency, *counts in cast("list[list[int]]", listed):
                self.latencies[latency] += 1
                if counts:
                    sums = self.counted_by.get(construct, (0, 0, 0))
                    self.counted_by[construct] = [
                        one + more for one, more in zip(sums, (1, *counts), strict=True)
                    ]

    @property
    def counted(self) -> int:
        """Return how many attempts had their tokens counted."""
        return sum(one[0] for one in self.counted_by.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Return the tokens that were counted: of input, of output."""
        sums = self.counted_by.values()
        return sum(one[1] for one in sums), sum(one[2] for one in sums)

    @property
    def cost_usd(self) -> float | None:
        """Return the dollars so far; None where nothing was counted, or a call has no price."""
        if not self.counted_by or not self.counted_by.keys() <= self.prices.keys():
            return None
        spent = Fraction(0)
        for construct, (_, *counts) in self.counted_by.items():
            pairs = zip(self.prices[construct], counts, strict=True)
            spent += sum((price * count for price, count in pairs), Fraction(0))
        return float(round(spent / _MILLION, 9))

    def as_document(self) -> JsonObject | None:
        """Return the certificate's `usage`; None for a run that has none.

        Quantiles are nearest ranks. The cost is null where a call that was counted has no price.
        """
        if not self.latencies:
            return None
        sent, got = self.tokens
        return {
            "calls": self.latencies.total(),
            "calls_counted": self.counted,
            "input_tokens": sent,
            "output_tokens": got,
            "cost_usd": self.cost_usd,
            "latency_ms": {name: self._quantile(share) for name, share in _QUANTILES.items()},
        }

    def _quantile(self, percent: int) -> int:
        rank = -(-self.latencies.total() * percent // 100)
        for latency in sorted(self.latencies):
            rank -= self.latencies[latency]
            if rank <= 0:
                return latency
        return 0


def tally_of(template: JsonObject, sums: Mapping[str, Any] | None = None) -> UsageTally | None:
    """Return the tally of a template's run so far; None where no construct's calls are counted.

    `sums` are what `UsageTally.as_sums` returned; without them it is empty.
    """
    view = view_template(template)
    if not isinstance(view, ProductTheatreTemplate):
        return None
    config = view.product_theatre_config
    own = (one.adapter_type for one in config.construct_endpoints.values())
    is_counted = any(kind in PLAIN_ADAPTERS for kind in (config.adapter_type, *own))
    return UsageTally.from_sums(committed_prices(view), sums) if is_counted else None


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
