"""The independent check of a theatre of version 2.0.1, which commits less than later ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.forked_echelon import forked

VERSIONS = REPOSITORY / "fixtures" / "templates" / "versions"
NAME = "product_numerals_v1.json"


def run(folder: Path, **config: object) -> Files:
    """Run the shipped example in a folder of its own, with more in its product config."""
    template = shutil.copytree(VERSIONS, folder / "versions") / NAME
    committed: Any = json.loads(template.read_bytes())
    committed["product_theatre_config"] |= config
    template.write_text(json.dumps(committed), encoding="utf-8")
    report = forked("theatre", "run", template, "--json", home=folder / "home").document
    return load(Path(report["bundle_path"]))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return run(tmp_path_factory.mktemp("numerals"))


def test_a_bundle_of_version_2_0_1_passes_by_the_documented_defaults(
    files: Files, tmp_path: Path
) -> None:
    report = check(store(files, tmp_path / "bundle"))
    assert [line.as_document() for line in report.failed] == []
    assert report.consistent
    told = {line.id: line.actual for line in report.checks}
    assert told["scorers"] == "exact_match@1"
    assert told["sanitised-input"] == '60 inputs by "theatre-sanitise/1.0.0"'


def test_gold_labels_without_a_hash_are_no_evidence_and_the_cap_for_them_is_recomputed(
    tmp_path: Path,
) -> None:
    files = run(tmp_path / "run", gold_label_set="never_there.jsonl")
    assert check(store(files, tmp_path / "bundle")).consistent
    facts: Any = document(files, "tier.json")["facts"]
    assert facts["extra_caps"] == ["gold-unpinned"]

    def uncap(tier: Any) -> None:  # noqa: ANN401  # a document at will
        tier["facts"]["extra_caps"] = []

    uncapped = resealed(changed(files, "tier.json", uncap), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(uncapped, tmp_path / "uncapped"))) == {"tier"}


def test_a_template_without_scorers_cannot_claim_to_have_committed_them(
    files: Files, tmp_path: Path
) -> None:
    def claim(tier: Any) -> None:  # noqa: ANN401  # a document at will
        tier["facts"]["scorers_committed"] = True

    claimed = resealed(changed(files, "tier.json", claim), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(claimed, tmp_path / "bundle"))) == {"tier"}


@pytest.mark.parametrize("version", ["2.9.0", "1.0.0", None, 2, "2.1.0", "2.2.0"])
def test_a_template_of_a_version_that_does_not_run_is_named(
    files: Files, tmp_path: Path, version: object
) -> None:
    """Nor does one pass whose document does not fit the version that it names."""
    forged = dict(files)
    for name, place in (("template.json", None), ("commitment_receipt.json", "template_snapshot")):
        whole: Any = document(files, name)
        (whole if place is None else whole[place])["schema_version"] = version
        forged[name] = json.dumps(whole).encode()
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    without = version in {"2.1.0", "2.2.0"}
    wanted = "a scorer for criterion" if without else "schema_version 2.0.1 or 2.1.0 or 2.2.0"
    assert told["template"].startswith(wanted)
