"""`docs/models.md`: its figures are those of the sealed bundles, which the check recomputes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.models import CRITERION, DATASET, FOLDER, dataset, prompt, sealed, table
from tests.sealed_evidence import MODELS, ROOT, answers, unpacked
from theatre.api.checks import check_folder
from theatre.cli import cli
from theatre.engine.canonical_json import sha256_hex

PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_table_and_the_usage_are_those_of_the_certificates() -> None:
    certificates = sealed()
    assert f"{table(certificates)}\n" in PAGE
    usage = certificates["models_model"]["usage"]
    said = f"{usage['calls']} calls, {usage['input_tokens']} tokens in and {usage['output_tokens']}"
    assert said in PAGE
    assert all(f"{value} ms (" in PAGE for value in usage["latency_ms"].values())


def test_what_the_page_says_of_the_answers_is_in_the_bundle() -> None:
    said = [
        (asked["kind"], (answer or {}).get("kind")) for asked, answer in answers("models_model")
    ]
    right = Counter(asked for asked, answer in said if asked == answer)
    kinds = (f"{right[kind]} of 50 for {kind}" for kind in ("tests", "docs", "code"))
    assert ", ".join(kinds) in PAGE
    no_kind = sum(answer is not None and answer not in right for _, answer in said)
    assert f"{no_kind} answers are no kind at all" in PAGE


def test_the_differences_are_those_of_the_bundles(tmp_path: Path) -> None:
    bundles = [str(unpacked(name, tmp_path)) for name in MODELS]
    ended = CliRunner().invoke(cli, ["compare", *bundles, "--json"])
    assert ended.exit_code == 0, ended.output
    pairs = {
        one["first"]: one["measures"][CRITERION]
        for one in json.loads(ended.output)["pairs"]
        if one["second"] == "models.gemma3-270m"
    }
    for other, name in (("keywords", "rules"), ("constant", "constant")):
        found = pairs[other]["difference"]
        value, low, high = (-found[one] for one in ("value", "high", "low"))
        said = f"model minus {name} {value:+.3f} ({low:+.3f} … {high:+.3f})"
        assert said.replace("-", "\N{MINUS SIGN}") in PAGE
        assert pairs[other]["p_holm"] < 0.001


@pytest.mark.parametrize("name", sealed())
def test_a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed(
    tmp_path: Path, name: str
) -> None:
    bundle = unpacked(name, tmp_path)
    pinned = FOLDER / f"{name.split('_')[1]}.template.json"
    templates = [json.loads(one.read_bytes()) for one in (bundle / "template.json", pinned)]
    committed, wanted = templates if name in MODELS else map(but_for_the_model, templates)
    assert committed == wanted
    assert list(committed["dataset_hashes"].values()) == [sha256_hex(DATASET.read_bytes())]
    assert check_folder(bundle).consistent


def but_for_the_model(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template without what names a model and its place."""
    settings = template["product_theatre_config"]["adapter_settings"]
    kept = ("dataset_hashes", "criteria", "scoring", "scorer_pins")
    asked = {one: settings[one] for one in ("prompt", "parameters", "answer")}
    return {**{one: template[one] for one in kept}, "asked": asked}


def test_the_dataset_and_the_prompt_are_what_the_history_gives() -> None:
    settings = json.loads((FOLDER / "model.template.json").read_bytes())
    assert dataset() == DATASET.read_text(encoding="utf-8")
    asked = settings["product_theatre_config"]["adapter_settings"]
    assert asked["prompt"] == prompt()


@pytest.mark.parametrize("name", MODELS)
def test_a_draft_is_pinned_without_a_hash_that_a_person_typed(name: str) -> None:
    draft = FOLDER / f"{name.removeprefix('models_')}.yaml"
    ended = CliRunner().invoke(cli, ["pin", "--check", str(draft)])
    assert ended.exit_code == 0, ended.output
