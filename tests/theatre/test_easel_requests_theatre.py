"""PRODUCT_EASEL_REQUESTS_V1, run for real: what is committed, and the published result."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.easel_requests_runs import (
    EPISODES,
    NAME,
    TEMPLATE,
    asked,
    run_fake,
    run_requests,
)
from tests.theatre.easel_runs import CHAIN, FIXTURES
from tests.theatre.easel_runs import TEMPLATE as EASEL_TEMPLATE
from tests.theatre.fixtures.test_easel_inscribe import KINDS, expected_facts, expected_tokens
from tests.theatre.runs import Finished, checked
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.template_validator import TemplateValidator
from theatre.scorers import load_scorers

TEMPLATES = FIXTURES / "templates"
EXPECTED: dict[str, Any] = json.loads((TEMPLATES / f"{NAME}.expected.json").read_bytes())
COMMITMENT = (TEMPLATES / f"{NAME}.commitment.txt").read_bytes()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_requests(tmp_path_factory.mktemp("honest"))


def test_no_rule_warns_of_the_shipped_template() -> None:
    report = TemplateValidator(load_scorers()).validate(TEMPLATE)
    assert (report.errors, report.warnings) == ((), ())


def parts(template: JsonObject) -> dict[str, Any]:
    """Return what both templates of the chain commit to alike."""
    one = cast("dict[str, Any]", template)
    return {
        "calls": [s for s in one["resolution_programme"] if s["type"] == "construct_invocation"],
        "constructs": one["version_pins"]["constructs"],
        "policy": one["execution_policy"],
        "scorers": {
            name: one["scoring"]["criteria_scorers"][name]
            for name in (
                "vocabulary_adherence",
                "tdr_propagation_fidelity",
                "downstream_compliance",
            )
        },
    }


def test_it_asks_the_same_three_in_the_same_way_as_easels_own_theatre() -> None:
    assert parts(TEMPLATE) == parts(EASEL_TEMPLATE)


@pytest.mark.reproducibility
def test_a_run_gives_the_published_results_byte_for_byte(honest: Finished) -> None:
    certificate = honest.document("certificate.json")
    lines = (honest.bundle / "scores" / "per_episode.jsonl").read_bytes()
    assert {
        "results_hash": certificate["results_hash"],
        "per_episode_sha256": sha256_hex(lines),
        "scores": certificate["scores"],
    } == EXPECTED
    assert f"{certificate['commitment_hash']}\n".encode() == COMMITMENT


def test_the_independent_check_finds_the_bundle_sound(honest: Finished) -> None:
    report = checked(honest.bundle)
    assert (report.failed, report.consistent) == ((), True)


def test_every_hop_was_asked_each_episode_once_and_eight_of_them_again(honest: Finished) -> None:
    calls = [call for seq in range(1, EPISODES + 1) for call in honest.calls(seq)]
    counted = Counter((call["construct_id"], call["repeat"]) for call in calls)
    assert counted == {(name, repeat): (EPISODES, 8)[repeat] for name in CHAIN for repeat in (0, 1)}
    facts = cast("JsonObject", honest.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["version_mismatches"]) == (0, 0)


def test_whatever_artisan_directs_its_tokens_and_mints_sheet_follow_from_it(
    honest: Finished,
) -> None:
    for one in asked(honest):
        brief, artisan = one.episode["input_data"]["brief"], one.answers["artisan"]
        tokens = {name: v for name, v in artisan["tokens"].items() if name != "colours.on_accent"}
        assert tokens == expected_tokens(artisan, brief["medium"])
        ought = dict(artisan["tokens"])
        for number, kind in enumerate(brief["assets"], start=1):
            found = expected_facts(brief, artisan, KINDS[kind])
            ought |= {f"asset{number}.{fact}": value for fact, value in found.items()}
        assert one.answers["mint"]["carried"] == artisan["carried"]
        sheet = one.answers["mint"]["sheet"]
        assert {name: sheet.get(name) for name in ought} == ought


@pytest.mark.parametrize("mode", ["empty", "constant-plausible", "words-looked-up"])
def test_a_fake_lies_below_the_honest_chain_on_every_criterion(
    honest: Finished, tmp_path: Path, mode: str
) -> None:
    real = cast("dict[str, float]", honest.document("certificate.json")["scores"])
    fake = cast("dict[str, float]", run_fake(tmp_path, mode).document("certificate.json")["scores"])
    assert set(fake) == set(real)
    assert all(fake[name] < real[name] for name in real)
