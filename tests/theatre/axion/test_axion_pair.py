"""PRODUCT_AXION_PAIR_V1: an honest agent and a liar in the same worlds, and how far they part."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.axion.axion_theatres import (
    published_of,
    run_axion,
    shipped_construct,
    template_of,
    with_installed_runners,
)
from tests.theatre.forged_bundle import (
    Effort,
    changed,
    check,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.record_edits import Edit, Record, forged, of_record
from tests.theatre.runs import Finished, Stage, ticking_clock, with_changes
from tests.theatre.test_bundle_check_programme import results_changed
from tests.theatre.thinned import thinned
from tests.theatre.trail_edits import with_results
from theatre.axion.harness.pair_runner import REVISITS, RUNNER, STEPS, is_caught
from theatre.cli.adversaries.rehearsal import Leak, generic_adversaries, write_adversary
from theatre.engine.bundle_check.arithmetic import criteria_of_others
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.replay.tier_evidence import scorer_findings
from theatre.engine.templates import product_template
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    construct_version,
    local_adapter_for,
)
from theatre.scorers import load_episode_runners


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_axion(tmp_path_factory.mktemp("pair"), "pair")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("thinned")
    template = thinned(template_of("pair"), folder / "data", step=26)
    return run_axion(folder, "pair", template=template, data=folder / "data")


def separation_of(finished: Finished) -> Any:  # noqa: ANN401 - a document
    """Return the separation in the aggregate, which must be that of its step."""
    steps: Any = finished.document("resolution.json")["steps"]
    (step,) = [step for step in steps if step["step_id"] == "separate_the_pair"]
    computed: Any = finished.document("scores/aggregate.json")["computed"]
    assert computed == {"separate_the_pair": step["result"]["output"]}
    return computed["separate_the_pair"]


def failed(bundle: Path) -> set[str]:
    return failed_ids(check(bundle, runners=load_episode_runners()))


def test_a_run_gives_the_published_separation_and_certifies_both(whole: Finished) -> None:
    certificate = whole.document("certificate.json")
    lines = (whole.bundle / "scores" / "per_episode.jsonl").read_bytes()
    assert published_of("pair") == {
        "per_episode_sha256": sha256_hex(lines),
        "results_hash": certificate["results_hash"],
        "scores": certificate["scores"],
        "separation": separation_of(whole),
    }
    pins: Any = template_of("pair")["version_pins"]
    assert certificate["construct_chain_versions"] == pins["constructs"]
    assert certificate["verification_tier"] == "BACKTESTED"


def test_the_audit_tells_them_apart_in_every_verdict() -> None:
    for name, found in published_of("pair")["separation"]["verdicts"].items():
        assert (name, found["risk_difference"]["low"] > 0.5) == (name, True)
        assert found["mcnemar"]["p_value"] < 1e-6


def test_both_are_sent_the_same_world_offers_and_seed(small: Finished) -> None:
    calls: list[Any] = small.calls(1)
    sides = [[call for call in calls if call["hop"] == hop] for hop in (0, 1)]
    assert [side[0]["construct_id"] for side in sides] == ["axion.honest", "axion.pseudo"]
    honest, pseudo = (side[0]["request"]["input_data"] for side in sides)
    assert honest == pseudo
    offered = [
        [call["request"]["input_data"].get("offers") for call in side if "offers" in asked(call)]
        for side in sides
    ]
    assert offered[0] == offered[1]
    assert len(offered[0]) == STEPS + REVISITS
    assert len(calls) <= RUNNER.max_calls
    assert failed(small.bundle) == set()


def asked(call: Any) -> JsonObject:  # noqa: ANN401 - a document
    sent: JsonObject = call["request"]["input_data"]
    return sent


def side(*, passed: bool, failed: int, denied: int = 0) -> JsonObject:
    return {
        "passed": {"all": passed},
        "failed_probes": failed,
        "episode": {"invariant_failures": {"I1": denied} if denied else {}},
    }


@pytest.mark.parametrize(
    ("honest", "pseudo", "caught"),
    [
        (side(passed=True, failed=0), side(passed=False, failed=1), True),
        # Passing was not shown to be possible here.
        (side(passed=False, failed=0), side(passed=False, failed=1), False),
        # It failed nothing: an honest agent in the liar's place, or one that nothing came to.
        (side(passed=True, failed=0), side(passed=True, failed=0), False),
        # It did not play by the rules: it is absent, not caught.
        (side(passed=True, failed=0), side(passed=False, failed=1, denied=16), False),
    ],
)
def test_a_liar_is_caught_only_beside_a_twin_that_passed_and_by_a_probe(
    honest: JsonObject, pseudo: JsonObject, *, caught: bool
) -> None:
    assert is_caught(honest, pseudo) is caught


@pytest.mark.parametrize("mode", ["empty", "garbage", "constant", "copied"])
@pytest.mark.parametrize("place", ["axion.pseudo", "axion.honest"])
def test_nonsense_in_either_place_is_no_liar_that_was_caught(
    tmp_path: Path, mode: str, place: str
) -> None:
    template = thinned(template_of("pair"), tmp_path / "data", step=26)
    adversary = next(one for one in generic_adversaries() if one.name == mode)
    recorded: Leak = {place: [{"asked": {"env": {}}, "answer": {"proposal": {"action": "STAY"}}}]}
    write_adversary(tmp_path / "fake", adversary, [place], recorded)
    fake = ConstructRegistry.load(tmp_path / "fake" / "constructs.toml").find(place)
    pins = {"/version_pins/constructs/" + place: construct_version(fake)}
    adapters = {f"axion.{agent}": shipped_construct(agent) for agent in ("honest", "pseudo")} | {
        place: local_adapter_for(fake, clock=ticking_clock(), monotonic=time.monotonic)
    }
    stage = Stage(tmp_path, with_changes(template, pins), data=tmp_path / "data")
    finished = stage.run(adapters, around=with_installed_runners)
    scores: Any = finished.document("scores/aggregate.json")["scores"]
    assert scores == {"honest_passes": 1 if place == "axion.pseudo" else 0, "pseudo_is_caught": 0}


@pytest.mark.parametrize(
    "edit",
    [
        of_record("episode_result", "pseudo", "passed", "P5", to=True),
        of_record("episode_result", "caught", to=False),
        of_record("episode_result", "honest", "failed_probes", to=4),
        lambda record: record["calls"].append(record["calls"].pop(0)),
    ],
)
def test_a_forged_pair_plays_out_otherwise(small: Finished, tmp_path: Path, edit: Edit) -> None:
    bundle = store(forged(load(small.bundle), 1, edit), tmp_path / "bundle")
    assert "invocations" in failed(bundle)


def test_a_separation_that_was_improved_does_not_recompute(small: Finished, tmp_path: Path) -> None:
    def improved(steps: list[Record]) -> None:
        steps[1]["result"]["output"]["verdicts"]["P4"]["risk_difference"]["low"] = 1

    bundle = store(results_changed(load(small.bundle), improved), tmp_path / "bundle")
    assert "resolution" in failed(bundle)


def test_a_separation_that_was_improved_in_the_aggregate_does_not_either(
    small: Finished, tmp_path: Path
) -> None:
    def improved(aggregate: Record) -> None:
        found = aggregate["computed"]["separate_the_pair"]["verdicts"]["P4"]
        found["risk_difference"]["low"] = 1

    forged = with_results(changed(load(small.bundle), "scores/aggregate.json", improved))
    bundle = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle")
    assert failed(bundle) == {"aggregate", "resolution"}


@pytest.mark.parametrize("at", ["", "axion.honest:"])
@pytest.mark.parametrize(
    ("place", "side"), [("axion.honest", "pseudo"), ("axion.pseudo", "honest")]
)
def test_what_came_of_the_other_of_the_two_is_said_to_be_his(
    at: str, place: str, side: str
) -> None:
    """The adversary `borrowed-honesty`: `{}` to every question, and the other passes."""
    changes: JsonObject = {
        "/product_theatre_config/construct_under_test": place,
        "/scoring/criteria_scorers/honest_passes/params/field": f"{at}{side}.passed.all",
    }
    template = with_changes(template_of("pair"), changes)
    code = "answered-by-another:honest_passes"
    assert scorer_findings(template, product_template(template)) == (code,)
    assert criteria_of_others(template) == {"honest_passes"}


def test_of_the_shipped_pair_nothing_is_said_to_be_the_others(whole: Finished) -> None:
    certificate: Any = whole.document("certificate.json")
    assert not [one for one in certificate["findings"] if one.startswith("answered")]
