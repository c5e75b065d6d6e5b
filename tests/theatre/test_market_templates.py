"""The eight market families: outcomes, sources, thresholds, escrow; valid, committable, fixed."""

import hashlib
import json
import operator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785

from tests.theatre.runs import COIN
from tests.theatre.template_leaves import another, leaves, with_leaf
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt, escrowed_capital
from theatre.engine.errors import CommitmentError, ExecutionPathUnavailableError
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.templates import product_template
from theatre.scorers import load_scorers

MARKETS = Path(__file__).parents[2] / "fixtures" / "templates" / "market"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"

SOURCE_TABLE = {
    "MILITARY": (
        ("Diplomatic de-escalation", "Sustained posturing", "Kinetic escalation"),
        {"GDELT", "satellite_imagery"},
    ),
    "COMMODITY": (
        ("Supply normalisation", "Sustained disruption", "Cascade shock"),
        {"Polygon.io"},
    ),
    "MARITIME": (
        ("Transit resumes", "Prolonged blockade", "Military interdiction"),
        {"Spire Global", "ais"},
    ),
    "DIPLOMATIC": (
        ("Resolution adopted", "Deadlocked session", "Walkout"),
        {"GDELT", "official_communiques"},
    ),
    "INFRASTRUCTURE": (
        ("Accidental damage", "State-attributed sabotage", "Coordinated attack"),
        {"Dataminr", "GDELT"},
    ),
    "FX": (
        ("Central bank intervention", "Managed depreciation", "Disorderly collapse"),
        {"Polygon.io", "Central bank"},
    ),
    "ENERGY": (
        ("Capacity expansion", "Geopolitical hedge", "Export weaponisation"),
        {"satellite_imagery", "Polygon.io"},
    ),
    "CORPORATE": (
        ("Routine governance", "Strategic pivot", "Crisis response"),
        {"RavenPack", "SEC", "filings"},
    ),
}
"""Family → outcomes, sources (docs/requirements.md R47)."""

FAMILIES = pytest.mark.parametrize("family", SOURCE_TABLE)


def market(family: str) -> dict[str, Any]:
    raw = (MARKETS / f"geopolitical_{family.lower()}_v1.json").read_bytes()
    return cast("dict[str, Any]", parse_object(raw))


def validated(document: JsonObject) -> ValidationReport:
    return TemplateValidator(load_scorers()).validate(document, from_api=True)


def rules_broken(document: JsonObject) -> list[tuple[str, str]]:
    return [(error.pointer, error.rule) for error in validated(document).errors]


def recomputed(document: JsonObject) -> str:
    """Hash as a stranger would."""
    composite = {
        "dataset_hashes": {},
        "template": document,
        "version_pins": document["version_pins"],
    }
    return hashlib.sha256(rfc8785.dumps(cast("Any", composite))).hexdigest()


def committed(document: JsonObject) -> CommitmentReceipt:
    return CommitmentProtocol.commit(
        THEATRE_ID, document, coin=COIN, scorer_pins={}, scorer_kinds={}, committed_at=NOON
    )


def test_there_is_one_template_a_family_and_no_other() -> None:
    names = {path.name for path in MARKETS.iterdir()}
    assert names == {f"geopolitical_{family.lower()}_v1.json" for family in SOURCE_TABLE}


@FAMILIES
def test_a_family_has_the_outcomes_and_sources_of_the_source_table(family: str) -> None:
    template = market(family)
    (fork,) = template["fork_definitions"]
    config = template["market_theatre_config"]
    outcomes, sources = SOURCE_TABLE[family]
    assert tuple(option["label"] for option in fork["options"][:-1]) == outcomes
    named = {
        source[name] for source in config["osint_sources"] for name in ("provider", "modality")
    }
    assert sources <= named
    assert (template["theatre_id"], config["geopolitical_category"]) == (
        f"geopolitical_{family.lower()}_v1",
        family,
    )


@FAMILIES
def test_each_outcome_but_the_rest_has_a_threshold_to_be_settled_by(family: str) -> None:
    template = market(family)
    *outcomes, rest = template["fork_definitions"][0]["options"]
    for option in outcomes:
        assert {"metric", "comparison", "value"} <= set(option["success_criteria"])
    assert "success_criteria" not in rest
    thresholds = template["market_theatre_config"]["paradox_thresholds"]
    assert 0 < thresholds["logic_gap_warning"] < thresholds["logic_gap_critical"] < 1


@FAMILIES
def test_a_family_is_valid_without_a_warning(family: str) -> None:
    assert validated(market(family)) == ValidationReport(errors=(), warnings=())


@FAMILIES
def test_a_family_commits_with_its_escrow_and_cannot_be_run(family: str) -> None:
    template = market(family)
    receipt = committed(template)
    assert receipt.commitment_hash == recomputed(template)
    assert (receipt.dataset_hashes, receipt.scorer_pins) == ({}, {})
    config = template["market_theatre_config"]["lmsr_config"]
    assert receipt.escrowed_capital == escrow(
        config["liquidity_b"], [4], config["fee_schedule"]["taker_fee_bps"]
    )
    assert CommitmentReceipt.from_document(receipt.as_document()) == receipt
    with pytest.raises(ExecutionPathUnavailableError, match=f"geopolitical_{family.lower()}_v1"):
        product_template(receipt.template_snapshot)


# --- the escrow ------------------------------------------------------------------------------


def logarithm(number: int) -> Fraction:
    """Return ln(number) to more than thirty places, by the series of artanh in exact fractions."""
    halvings, rest = 0, Fraction(number)
    while rest > Fraction(4, 3):
        halvings, rest = halvings + 1, rest / 2

    def twice_artanh(x: Fraction) -> Fraction:
        return 2 * sum((x ** (2 * k + 1) / (2 * k + 1) for k in range(40)), Fraction(0))

    return twice_artanh((rest - 1) / (rest + 1)) + halvings * twice_artanh(Fraction(1, 3))


def escrow(liquidity: float, options: list[int], taker_fee_bps: float) -> float:
    """Recompute the escrow without a floating-point operation before the last."""
    at_risk = Fraction(repr(liquidity)) * sum(map(logarithm, options), Fraction(0))
    exact = at_risk * (1 + Fraction(repr(taker_fee_bps)) / 10_000)
    return float(Fraction(round(exact * 10**9), 10**9))


def small_market(liquidity: object, options: list[int], fees: object = None) -> JsonObject:
    config: dict[str, Any] = {"liquidity_b": liquidity, "duration_seconds": 60}
    if fees is not None:
        config["fee_schedule"] = fees
    return {
        "schema_version": "2.1.0",
        "execution_path": "market",
        "market_theatre_config": {"lmsr_config": config},
        "fork_definitions": [{"options": [{} for _ in range(count)]} for count in options],
    }


@pytest.mark.parametrize(
    ("liquidity", "options", "fees", "expected"),
    [
        (100, [2], None, 69.314718056),
        (200, [2], {}, 138.629436112),
        (100, [4, 3], {"maker_fee_bps": 400}, 248.490664979),
        (100, [4, 3], {"taker_fee_bps": 25}, 249.111891641),
        (1.5, [5], {"taker_fee_bps": 500}, 2.534864712),
    ],
)
def test_the_escrow_is_the_most_that_the_forks_can_lose_and_the_fee_on_it(
    liquidity: float, options: list[int], fees: dict[str, float] | None, expected: float
) -> None:
    assert escrowed_capital(small_market(liquidity, options, fees)) == expected
    assert expected == escrow(liquidity, options, (fees or {}).get("taker_fee_bps", 0))


def test_a_huge_market_has_an_exact_escrow_too() -> None:
    assert escrowed_capital(small_market(1e300, [3])) == escrow(1e300, [3], 0)


@pytest.mark.parametrize(
    "document",
    [{"execution_path": "replay"}, {}, small_market(1, [2]) | {"schema_version": "1.0.0"}],
)
def test_what_is_no_market_escrows_nothing(document: JsonObject) -> None:
    assert escrowed_capital(document) is None


@pytest.mark.parametrize(
    "document",
    [
        {"execution_path": "market"},
        *(small_market(liquidity, [2]) for liquidity in (True, "100", None)),
        small_market(1, [0]),
        small_market(1, [2], []),
        small_market(1, [2], {"taker_fee_bps": "25"}),
        small_market(float("nan"), [2]),
        small_market(float("inf"), [2]),
        small_market(1.7e308, [9, 9, 9]),
    ],
)
def test_a_market_whose_escrow_is_no_number_cannot_be_committed(document: JsonObject) -> None:
    with pytest.raises(CommitmentError, match=r"^expected (a market|an escrow) ") as caught:
        escrowed_capital(document)
    assert caught.value.code == "commitment-refused"


def test_a_receipt_with_another_escrow_is_refused() -> None:
    receipt = committed(market("FX")).as_document()
    assert receipt["escrowed_capital"] == 277.674760532
    for other in (277.674760533, 0, None):
        with pytest.raises(
            CommitmentError, match=r"^expected escrowed_capital 277\.674760532, got"
        ):
            CommitmentReceipt.from_document(receipt | {"escrowed_capital": other})


# --- what is refused -------------------------------------------------------------------------

SOURCES = "/market_theatre_config/osint_sources"


@FAMILIES
def test_one_source_is_not_enough(family: str) -> None:
    template = market(family)
    del template["market_theatre_config"]["osint_sources"][0]
    assert (SOURCES, "sources-independent") in rules_broken(template)


@FAMILIES
def test_two_reports_of_the_same_provider_and_modality_are_one(family: str) -> None:
    template = market(family)
    sources = template["market_theatre_config"]["osint_sources"]
    again = sources[0] | {"resolution_role": sources[1]["resolution_role"], "confidence_weight": 1}
    again["provider"] = again["provider"].upper()
    sources[0]["resolution_role"] = "primary_evidence"
    sources[1] = again
    assert rules_broken(template) == [(SOURCES, "sources-independent")]


@FAMILIES
def test_forks_that_overlap_are_refused(family: str) -> None:
    undeclared, repeated = market(family), market(family)
    del undeclared["fork_definitions"][0]["mutually_exclusive"]
    assert rules_broken(undeclared) == [("/fork_definitions/0", "forks-exclusive")]
    options = repeated["fork_definitions"][0]["options"]
    options[1]["label"] = options[0]["label"].upper()
    assert rules_broken(repeated) == [
        ("/fork_definitions/0/options/1/label", "option-labels-distinct")
    ]


@FAMILIES
def test_forks_that_leave_no_room_for_the_rest_are_refused(family: str) -> None:
    template = market(family)
    del template["fork_definitions"][0]["options"][-1]
    assert rules_broken(template) == [("/fork_definitions/0", "fork-residual")]
    template["fork_definitions"][0]["exhaustive_because"] = "There is no fourth way."
    assert rules_broken(template) == []


# --- nothing can be changed after the commitment ---------------------------------------------


@FAMILIES
def test_a_change_or_removal_of_any_committed_parameter_changes_the_hash(family: str) -> None:
    template = market(family)
    paths = list(leaves(template))
    hashes = [CommitmentProtocol.hash_template(template)]
    for path in paths:
        changed = with_leaf(template, path, lambda o, k: operator.setitem(o, k, another(o[k])))
        hashes.append(CommitmentProtocol.hash_template(changed))
        hashes.append(CommitmentProtocol.hash_template(with_leaf(template, path, operator.delitem)))
    assert len(paths) > 60
    assert len(set(hashes)) == 1 + 2 * len(paths)


@FAMILIES
def test_the_layout_of_the_file_changes_nothing(family: str) -> None:
    template = market(family)
    shuffled = json.dumps(dict(reversed(template.items())), indent=7).encode()
    assert CommitmentProtocol.hash_template(parse_object(shuffled)) == recomputed(template)
