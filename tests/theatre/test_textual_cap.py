"""Text without a judge carries no tier, whoever scores it and whatever is written afterwards."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.consequences import with_tier
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    document,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.runs import LATE, Finished, ScriptedAdapter, episodes, pilot_stage
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.bundle_check.measures import unqualified_measures
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.models import Scorer, ScorerKind
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.tier_assigner import TierAssigner, TierFacts, TierHistory
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_scorers

TEMPLATES = Path(__file__).parents[2] / "fixtures" / "templates"
RECEIPT, TIER = "commitment_receipt.json", "tier.json"
SHIPPED = load_scorers()
MINE = replace(SHIPPED["contains_terms"], name="mine")
FAIR = replace(MINE, name="fair", kind=ScorerKind.EXACT, score=lambda _: 1.0)
CAP, OWN = "measure-unqualified:colour", "own-scorer:colour"


def scored_by(name: str, **changes: JsonValue) -> dict[str, JsonValue]:
    """Return changes by which a scorer of words decides `colour`."""
    params: JsonObject = {"field": "colour", "terms": ["red"]}
    return {
        "/scoring/criteria_scorers/colour": {"scorer": name, "params": params},
        "/scorer_pins": {name: "1", "numeric_tolerance": "1"},
        **changes,
    }


def run_of(folder: Path, changes: Mapping[str, JsonValue]) -> Finished:
    stage = pilot_stage(folder, episodes(60), changes=changes)
    return stage.run(ScriptedAdapter(), scorers={**SHIPPED, "mine": MINE, "fair": FAIR})


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_of(tmp_path_factory.mktemp("shipped"), scored_by("contains_terms")).bundle)


@pytest.fixture(scope="module")
def of_a_third_party(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_of(tmp_path_factory.mktemp("third"), scored_by("mine")).bundle)


def checked(bundle: Path, *scorers: Scorer) -> CheckReport:
    return check_bundle(
        bundle,
        {**SHIPPED, **{scorer.name: scorer for scorer in scorers}},
        registry=SchemaRegistry(),
        computations=load_computations(),
        sanitiser=TextSanitiser(),
        now=LATE,
    )


def failing(bundle: Path, *scorers: Scorer) -> tuple[set[str], set[str]]:
    """Return the failing lines of the check, and of `verify_bundle.py`."""
    of_check = {line.id for line in checked(bundle, *scorers).failed}
    alone = verify(bundle, now=LATE).problems
    return of_check, {name for name, found in alone.items() if found}


def test_a_criterion_that_words_decide_caps_the_tier_and_its_score_stands(
    shipped: Files, tmp_path: Path
) -> None:
    certificate, tier = document(shipped, "certificate.json"), document(shipped, TIER)
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", [CAP])
    assert certificate["scores"] == {"colour": 1, "recall": 1}
    facts = cast("JsonObject", tier["facts"])
    assert facts["unqualified_measures"] == {"colour": "contains_terms is textual"}
    unmet = cast("list[JsonObject]", cast("JsonObject", tier["assessment"])["unmet"])
    assert unmet[0] == {"code": CAP, "seen": "contains_terms is textual", "tier": "BACKTESTED"}
    assert document(shipped, RECEIPT)["scorer_kinds"] == {
        "contains_terms": "textual",
        "numeric_tolerance": "exact",
    }
    assert failing(store(shipped, tmp_path / "bundle")) == (set(), set())


def test_two_shipped_templates_fall_by_it_and_the_page_names_them() -> None:
    fallen = {}
    for path in sorted(TEMPLATES.glob("product_*_v1.json")):
        document = parse_object(path.read_bytes())
        fallen[path.stem] = set(unqualified_measures(document, {}, {}, {}, {}))
    by_words = {"schema_conformance", "crit_gamma", "crit_theta", "trace_consistency", "t3_rung"}
    assert {name: ids for name, ids in fallen.items() if ids} == {
        "product_debate_herd_v1": by_words,
        "product_debate_team_v1": by_words,
    }
    assert len(fallen) == 18
    page = (TEMPLATES.parents[1] / "docs" / "scorers.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| `product_debate_team_v1`")]
    assert set(re.findall("`([a-z0-9_]+)`", row)) == {
        *("product_debate_team_v1", "product_debate_herd_v1", "debate_quality"),
        *by_words,
    }


def test_without_a_weight_words_cost_no_tier(tmp_path: Path) -> None:
    weights: JsonObject = {"colour": 0, "recall": 1}
    finished = run_of(tmp_path, scored_by("contains_terms", **{"/criteria/weights": weights}))
    assert finished.document("certificate.json")["verification_tier"] == "BACKTESTED"
    assert failing(finished.bundle) == (set(), set())


def as_exact(files: Files, name: str) -> Files:
    """Return a bundle that says of a scorer that it is exact, and all that follows from that."""
    forged = changed(
        files, RECEIPT, lambda it: cast("JsonObject", it["scorer_kinds"]).update({name: "exact"})
    )
    return lifted(forged)


def lifted(files: Files) -> Files:
    """Return the files as if no criterion were decided by words, every hash made anew."""
    tier = document(files, TIER)
    facts = cast("JsonObject", tier["facts"]) | {"unqualified_measures": {}}
    resolved_at = cast("str", document(files, "certificate.json")["theatre_resolved_at"])
    assessment = TierAssigner.assign(
        TierFacts.from_document(facts),
        TierHistory.from_document(cast("JsonObject", tier["history"])),
        resolved_at=parse_rfc3339(resolved_at),
    )
    assert assessment.tier == "BACKTESTED"
    told = tier | {"facts": facts, "assessment": assessment.as_document()}
    return resealed(with_tier(with_document(files, TIER, told)), Effort.CHAIN)


def test_no_receipt_can_call_a_shipped_scorer_exact(shipped: Files, tmp_path: Path) -> None:
    bundle = store(as_exact(shipped, "contains_terms"), tmp_path / "bundle")
    of_check, alone = failing(bundle)
    assert of_check >= {"commitment", "tier"}
    assert alone == {"commitment", "tier"}


def test_no_tier_can_be_written_past_the_kinds_in_the_receipt(
    shipped: Files, of_a_third_party: Files, tmp_path: Path
) -> None:
    assert failing(store(lifted(shipped), tmp_path / "shipped")) == ({"tier"}, {"tier"})
    third = store(lifted(of_a_third_party), tmp_path / "third")
    assert failing(third, MINE) == ({"tier"}, {"tier"})


def test_a_scorer_of_ones_own_that_calls_itself_exact_is_named_and_stays_so(tmp_path: Path) -> None:
    weights: JsonObject = {"colour": 0, "recall": 1}
    idle = run_of(tmp_path / "idle", scored_by("fair", **{"/criteria/weights": weights}))
    assert OWN in cast("list[str]", idle.document("certificate.json")["findings"])
    paid = run_of(tmp_path / "paid", scored_by("fair"))
    certificate = paid.document("certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    assert OWN in cast("list[str]", certificate["findings"])
    unnamed = changed(
        load(paid.bundle),
        "certificate.json",
        lambda it: cast("list[str]", it["findings"]).remove(OWN),
    )
    forged = store(resealed(unnamed, Effort.CHAIN), tmp_path / "forged")
    bundles = [idle.bundle, paid.bundle, forged]
    assert [failing(one, FAIR) for one in bundles] == [
        *((set(), set()),) * 2,
        ({"certificate-fields"}, {"certificate-fields"}),
    ]


def test_what_a_third_party_stated_holds_where_its_scorer_is_installed(
    of_a_third_party: Files, tmp_path: Path
) -> None:
    certificate = document(of_a_third_party, "certificate.json")
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", [CAP])
    honest = store(of_a_third_party, tmp_path / "honest")
    assert failing(honest, MINE) == (set(), set())
    forged = store(as_exact(of_a_third_party, "mine"), tmp_path / "forged")
    of_check, alone = failing(forged, MINE)
    # Who has not the scorer has the receipt's word for it, as for all its scores.
    assert (of_check >= {"commitment"}, alone) == (True, set())


@pytest.mark.parametrize("stated", [None, "true", "TEXTUAL", 1])
def test_a_kind_that_is_none_counts_as_textual(
    of_a_third_party: Files, tmp_path: Path, stated: JsonValue
) -> None:
    forged = changed(
        of_a_third_party,
        RECEIPT,
        lambda it: cast("JsonObject", it["scorer_kinds"]).update(mine=stated),
    )
    of_check, alone = failing(store(lifted(forged), tmp_path / "bundle"))
    assert of_check >= {"commitment", "tier"}
    assert alone == {"commitment", "tier"}


@pytest.mark.parametrize("kind", [ScorerKind.EXACT, ScorerKind.TEXTUAL])
def test_only_a_scorer_that_asks_a_judge_is_judged(kind: ScorerKind) -> None:
    with pytest.raises(ValueError, match="expected kind judged exactly with a judgement, got"):
        replace(SHIPPED["llm_judge"], kind=kind)
    with pytest.raises(ValueError, match="expected kind judged exactly with a judgement, got"):
        replace(MINE, kind=ScorerKind.JUDGED)
    with pytest.raises(ValueError, match="is not a valid ScorerKind"):
        replace(MINE, kind="opinion")  # type: ignore[arg-type]
