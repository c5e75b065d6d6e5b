"""The constraint yielding gate: who may skip a quality gate, and who may not.

Source: docs/contract/scoring.md §8. A hard rule: no override, no exception.
Everything that is not exactly a tier of trust, and exactly a known preference, is `full`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from theatre.engine.canonical_json import json_type
from theatre.engine.errors import ExpertiseError

Review = Literal["skip", "visual", "textual", "both", "full"]
Reason = Literal[
    "honoured",
    "tier-missing",
    "tier-unverified",
    "tier-unknown",
    "review-missing",
    "review-unknown",
]

_YIELDING_TIERS = ("BACKTESTED", "PROVEN")
_REVIEWS: dict[str, Review] = {review: review for review in get_args(Review)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReview:
    """The gate's word on one domain of an `expertise.yaml`.

    `tier` and `declared` are as written, None where nothing was. `overridden` says that
    something was declared and does not apply; `reason` is a stable code.
    """

    name: str
    tier: str | None
    declared: str | None
    effective: Review
    overridden: bool
    reason: Reason


class ConstraintYieldingGate:
    """Enforces the rule under the name that the design gives it."""

    @staticmethod
    def resolve_review_preference(tier: str | None, declared: str | None) -> Review:
        """Return the review that applies; see `effective_review`."""
        return effective_review(tier, declared)


def effective_review(tier: str | None, declared: str | None) -> Review:
    """Return the review that applies to a construct of effective `tier`.

    `declared` counts for exactly BACKTESTED and PROVEN, and only in one of its five exact
    spellings; everything else, whatever its type, is `full`. Never raises.
    """
    return _decide(tier, declared)[0]


def gate_expertise(document: object) -> tuple[DomainReview, ...]:
    """Return the gate's word on each domain of a parsed `expertise.yaml`, in order.

    The tier is `domains[].verified.tier`; the preference `domains[].review`, else the
    document's `review`. A tier or a preference of a wrong type is an unknown one, hence
    `full`. Raises ExpertiseError where `domains` is not a list of mappings with a `name`
    each, `verified` is no mapping, or a name comes twice: a reader who looks a domain up by
    name would get the tier of only one of them.
    """
    root = _mapping(document, "the document")
    domains = root.get("domains")
    if not isinstance(domains, list):
        raise ExpertiseError(f"expected domains as a list, got {json_type(domains)}")
    reviews = tuple(
        _review_domain(_mapping(domain, f"domains[{index}]"), index, root.get("review"))
        for index, domain in enumerate(domains)
    )
    names = [review.name for review in reviews]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ExpertiseError(
                f"domains[{index}].name: expected a name of its own, got {name[:80]!r} again"
            )
    return reviews


def _review_domain(domain: Mapping[object, object], index: int, common: object) -> DomainReview:
    name = domain.get("name")
    if not isinstance(name, str) or not name:
        raise ExpertiseError(
            f"domains[{index}].name: expected a text that is not empty, got {json_type(name)}"
        )
    verified = domain.get("verified")
    tier = None
    if verified is not None:
        tier = _mapping(verified, f"domains[{index}].verified").get("tier")
    declared = common if domain.get("review") is None else domain["review"]
    effective, reason = _decide(tier, declared)
    return DomainReview(
        name=name,
        tier=None if tier is None else str(tier),
        declared=None if declared is None else str(declared),
        effective=effective,
        overridden=declared is not None and declared != effective,
        reason=reason,
    )


def _decide(tier: object, declared: object) -> tuple[Review, Reason]:
    """Return the review and why. Both values are untrusted and may be of any type."""
    if tier is None:
        return "full", "tier-missing"
    if tier == "UNVERIFIED":
        return "full", "tier-unverified"
    if not isinstance(tier, str) or tier not in _YIELDING_TIERS:
        return "full", "tier-unknown"
    if declared is None:
        return "full", "review-missing"
    if not isinstance(declared, str) or declared not in _REVIEWS:
        return "full", "review-unknown"
    return _REVIEWS[declared], "honoured"


def _mapping(value: object, where: str) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise ExpertiseError(f"{where}: expected a mapping, got {json_type(value)}")
    return value
