"""`docs/models.md`: its figures are those of the sealed bundles, which the check recomputes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.models import DATASET, FOLDER, dataset, prompt, table
from tests.sealed_evidence import MODELS, ROOT, sealed_document, unpacked
from theatre.api.checks import check_folder
from theatre.cli import cli
from theatre.engine.canonical_json import sha256_hex

PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_table_and_the_usage_are_those_of_the_certificates() -> None:
    certificates = {name: sealed_document(name, "certificate.json") for name in MODELS}
    assert table(certificates) in PAGE
    usage = certificates["models_model"]["usage"]
    said = f"{usage['calls']} calls, {usage['input_tokens']} tokens in and {usage['output_tokens']}"
    assert said in PAGE
    assert all(f"{value} ms (" in PAGE for value in usage["latency_ms"].values())


@pytest.mark.parametrize("name", MODELS)
def test_a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed(
    tmp_path: Path, name: str
) -> None:
    bundle = unpacked(name, tmp_path)
    pinned = FOLDER / f"{name.removeprefix('models_')}.template.json"
    template = json.loads((bundle / "template.json").read_bytes())
    assert template == json.loads(pinned.read_bytes())
    assert list(template["dataset_hashes"].values()) == [sha256_hex(DATASET.read_bytes())]
    assert check_folder(bundle).consistent


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
