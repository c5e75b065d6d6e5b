"""The constraint yielding gate: `full` unless exactly two tiers and five words say otherwise."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.constraint_gate import (
    ConstraintYieldingGate,
    DomainReview,
    effective_review,
    gate_expertise,
)
from theatre.engine.errors import ExpertiseError
from theatre.engine.tier_assigner import VerificationTier

REVIEWS = ("skip", "visual", "textual", "both", "full")
TRUSTED = ("BACKTESTED", "PROVEN")
ROOT = Path(__file__).parents[2]

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.sampled_from([*TRUSTED, *REVIEWS])),
    st.dictionaries(st.sampled_from(TRUSTED), st.sampled_from(REVIEWS)),
)


@pytest.mark.parametrize("tier", TRUSTED)
@pytest.mark.parametrize("declared", REVIEWS)
def test_backtested_and_proven_get_what_they_declare(tier: str, declared: str) -> None:
    assert effective_review(tier, declared) == declared
    assert ConstraintYieldingGate.resolve_review_preference(tier, declared) == declared


@pytest.mark.parametrize("tier", TRUSTED)
@pytest.mark.parametrize(
    "declared", [None, "", "SKIP", "Skip", " skip", "skip ", "skip\n", "none", "off", "\uff53kip"]
)
def test_any_other_spelling_of_a_preference_is_full(tier: str, declared: str | None) -> None:
    assert effective_review(tier, declared) == "full"


@pytest.mark.parametrize("declared", [*REVIEWS, None, "SKIP"])
@pytest.mark.parametrize(
    "tier",
    [
        None,
        "",
        "UNVERIFIED",
        "EXPIRED",
        "expired",
        "proven",
        "Proven",
        "backtested",
        " PROVEN",
        "PROVEN ",
        "PROVEN\n",
        "PROVEN\x00",
        "PROVEN,BACKTESTED",
        "\u0420ROVEN",  # a Cyrillic letter
    ],
)
def test_every_other_tier_is_full_whatever_is_declared(
    tier: str | None, declared: str | None
) -> None:
    assert effective_review(tier, declared) == "full"
    assert ConstraintYieldingGate.resolve_review_preference(tier, declared) == "full"


@given(tier=anything.filter(lambda value: value not in TRUSTED), declared=st.sampled_from(REVIEWS))
def test_no_value_but_two_exact_texts_opens_the_gate(tier: str, declared: str) -> None:
    assert effective_review(tier, declared) == "full"


@given(tier=st.sampled_from(TRUSTED), declared=anything.filter(lambda value: value not in REVIEWS))
def test_no_value_but_five_exact_texts_is_a_preference(tier: str, declared: str) -> None:
    assert effective_review(tier, declared) == "full"


def test_the_gate_opens_for_exactly_the_tiers_above_the_lowest() -> None:
    opened = [tier.value for tier in VerificationTier if effective_review(tier, "skip") == "skip"]
    assert opened == [tier.value for tier in list(VerificationTier)[1:]]


def domain(tier: object, review: object = None, name: str = "maps") -> dict[str, object]:
    return {"name": name, "depth": 5, "review": review, "verified": {"tier": tier}}


@pytest.mark.parametrize(
    ("tier", "declared", "shown", "effective", "overridden", "reason"),
    [
        ("UNVERIFIED", "skip", ("UNVERIFIED", "skip"), "full", True, "tier-unverified"),
        ("UNVERIFIED", "full", ("UNVERIFIED", "full"), "full", False, "tier-unverified"),
        ("UNVERIFIED", None, ("UNVERIFIED", None), "full", False, "tier-unverified"),
        ("BACKTESTED", "skip", ("BACKTESTED", "skip"), "skip", False, "honoured"),
        ("PROVEN", "visual", ("PROVEN", "visual"), "visual", False, "honoured"),
        ("PROVEN", None, ("PROVEN", None), "full", False, "review-missing"),
        ("PROVEN", "SKIP", ("PROVEN", "SKIP"), "full", True, "review-unknown"),
        ("PROVEN", False, ("PROVEN", "False"), "full", True, "review-unknown"),
        ("PROVEN", ["skip"], ("PROVEN", "['skip']"), "full", True, "review-unknown"),
        ("proven", "skip", ("proven", "skip"), "full", True, "tier-unknown"),
        (["PROVEN"], "skip", ("['PROVEN']", "skip"), "full", True, "tier-unknown"),
        (3, "both", ("3", "both"), "full", True, "tier-unknown"),
        (None, "skip", (None, "skip"), "full", True, "tier-missing"),
    ],
)
def test_a_domain_shows_what_was_declared_what_applies_and_why(
    tier: object,
    declared: object,
    shown: tuple[str | None, str | None],
    effective: str,
    overridden: bool,  # noqa: FBT001 - a column of the table
    reason: str,
) -> None:
    (review,) = gate_expertise({"domains": [domain(tier, declared)]})
    assert (review.tier, review.declared) == shown
    assert (review.name, review.effective) == ("maps", effective)
    assert (review.overridden, review.reason) == (overridden, reason)


@pytest.mark.parametrize("verified", [{}, {"verified": None}, {"verified": {}}])
def test_a_domain_without_a_verified_tier_is_full(verified: dict[str, object]) -> None:
    (review,) = gate_expertise({"domains": [{"name": "maps", "review": "skip", **verified}]})
    assert review == DomainReview(
        name="maps",
        tier=None,
        declared="skip",
        effective="full",
        overridden=True,
        reason="tier-missing",
    )


def test_the_document_speaks_for_the_domains_that_declare_nothing() -> None:
    reviews = gate_expertise(
        {
            "review": "visual",
            "domains": [
                domain("PROVEN", name="one"),
                domain("PROVEN", "skip", name="two"),
                domain("UNVERIFIED", name="three"),
            ],
        }
    )
    assert [(review.name, review.declared, review.effective) for review in reviews] == [
        ("one", "visual", "visual"),
        ("two", "skip", "skip"),
        ("three", "visual", "full"),
    ]


def test_a_document_without_domains_to_gate_gates_nothing() -> None:
    assert gate_expertise({"domains": []}) == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "the document: expected a mapping, got null"),
        ([], "the document: expected a mapping, got array"),
        ({}, "expected domains as a list, got null"),
        ({"domains": {"maps": {}}}, "expected domains as a list, got object"),
        ({"domains": "maps"}, "expected domains as a list, got string"),
        ({"domains": ["maps"]}, "domains[0]: expected a mapping, got string"),
        ({"domains": [{}]}, "domains[0].name: expected a text that is not empty, got null"),
        (
            {"domains": [domain("PROVEN"), domain("PROVEN", name="")]},
            "domains[1].name: expected a text that is not empty, got string",
        ),
        (
            {"domains": [{"name": "maps", "verified": "PROVEN"}]},
            "domains[0].verified: expected a mapping, got string",
        ),
        (
            {"domains": [domain("UNVERIFIED", name="a"), domain("PROVEN"), domain("PROVEN")]},
            "domains[2].name: expected a name of its own, got 'maps' again",
        ),
    ],
)
def test_a_malformed_document_is_refused_with_the_place(document: object, message: str) -> None:
    with pytest.raises(ExpertiseError) as refused:
        gate_expertise(document)
    assert str(refused.value) == message


def test_the_cartograph_cannot_skip_a_review_on_its_own_word() -> None:
    path = ROOT / "fixtures" / "constructs" / "cartograph" / "expertise.yaml"
    reviews = gate_expertise(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert [(review.declared, review.effective, review.overridden) for review in reviews] == [
        ("skip", "full", True)
    ] * 4
