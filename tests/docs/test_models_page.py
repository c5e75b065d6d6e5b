"""`docs/models.md`: its figures are those sealed, of the model as construct, judge and in roles."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.model_judge import CLAIMS, MEASURES, row, write_labelled
from tests.model_judge import table as table_of_judges
from tests.model_roles import ROLES, Asked, archives, role_of, summary, template_of
from tests.model_roles import table as table_of_roles
from tests.models import CRITERION, DATASET, FOLDER, dataset, prompt, sealed, table
from tests.sealed_evidence import JUDGE, MODELS, ROOT, answers, unpacked
from theatre.api.checks import check_folder
from theatre.api.qualifications import check_qualification, read_labelled_files
from theatre.cli import cli
from theatre.engine.bundle_check import CheckStatus
from theatre.engine.canonical_json import sha256_hex
from theatre.scorers import load_scorers

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


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(JUDGE, tmp_path_factory.mktemp("judge"))


def test_the_table_is_that_of_the_qualifications(kept: Path) -> None:
    documents = [json.loads((kept / f"{one}.json").read_bytes()) for one in MEASURES]
    assert f"{table_of_judges()}\n" in PAGE
    assert "".join(map(row, documents)) in table_of_judges()
    assert [one["labelled_set"]["claims"] for one in documents] == [CLAIMS, CLAIMS]


def test_the_claims_are_the_drawn_ones_of_the_shipped_set(kept: Path, tmp_path: Path) -> None:
    write_labelled(tmp_path / "labelled", CLAIMS)
    for name in ("claims", "changes"):
        drawn = (tmp_path / "labelled" / f"{name}.jsonl").read_bytes()
        assert (kept / "labelled" / f"{name}.jsonl").read_bytes() == drawn


@pytest.mark.parametrize("measure", MEASURES)
def test_each_figure_is_counted_again_from_the_recorded_answers(kept: Path, measure: str) -> None:
    labelled = read_labelled_files([kept / "labelled"])
    report = check_qualification(kept / f"{measure}.json", load_scorers(), labelled=labelled)
    found = {one.id: one.status for one in report.checks}
    assert (found["figures"], found["labelled-set"]) == (CheckStatus.PASS, CheckStatus.PASS)
    # Answers are read again by the version that asked for them; a later one does not.
    said = json.loads((kept / f"{measure}.json").read_bytes())["measure"]["version"]
    is_installed = load_scorers()[measure].version == said
    wanted = CheckStatus.PASS if is_installed else CheckStatus.UNANCHORED
    assert found["measured"] == wanted


SAID = " ".join(PAGE.split())
NOT_COMPARED = {"version_pins", "scorer_pins"}
"""A later version of a shipped program or scorer makes nothing untrue of what was run."""


def test_each_role_has_a_table_of_its_certificates() -> None:
    assert summary() in PAGE
    assert {role_of(one) for one in archives()} == set(ROLES)
    tables = {one: f"<!-- {one} -->\n{table_of_roles(one)}" for one in archives()}
    assert [one for one, found in tables.items() if found not in PAGE] == []


def test_what_the_page_says_of_the_summaries_is_in_the_bundle() -> None:
    said = [answer or {} for _, answer in answers("models_summariser", Asked().construct_id)]
    assert {one["follow_up_response"] for one in said} == {"1 line."}
    copied = sum(one["key_claims"] == ["Changes `README.md`."] for one in said)
    port = sum(one["summary"].endswith("the port is named.") for one in said)
    assert f"the claims of {copied} of the 12" in SAID
    assert f"and {port} summaries" in SAID


def test_what_the_page_says_of_the_debates_is_in_the_bundle(tmp_path: Path) -> None:
    bundle = unpacked("models_debater", tmp_path) / Asked().construct_id
    records = [json.loads(one.read_bytes()) for one in bundle.glob("invocations/*.json")]
    said = [
        call["attempts"][-1]["response"]["output_data"] for one in records for call in one["calls"]
    ]
    assert {one["final_answer"] for one in said} == {"SELL"}
    assert f"All {len(said)} attempts say SELL" in SAID


def test_what_the_page_says_of_the_steps_is_in_the_bundle(tmp_path: Path) -> None:
    bundle = unpacked("models_axion", tmp_path) / Asked().construct_id
    records = [json.loads(one.read_bytes()) for one in bundle.glob("invocations/*.json")]
    said = [
        call["attempts"][-1]["response"]["output_data"] for one in records for call in one["calls"]
    ]
    east = {"op": "move", "args": {"direction": "E"}}
    steps = [
        one["step"] if "step" in one else one["proposal"]["payload"]["plan"]["steps"][0]
        for one in said
    ]
    assert [one for one in steps if one != east] == []
    assert f"To all {len(steps)} questions of four worlds" in SAID


@pytest.mark.parametrize("archive", archives())
def test_the_bundles_of_a_role_are_of_its_few_episodes_and_are_recomputed(
    tmp_path: Path, archive: str
) -> None:
    bundles = sorted(unpacked(archive, tmp_path).iterdir())
    name = role_of(archive)
    (model,) = {one.name for one in bundles} - set(ROLES[name].programs)
    assert len(bundles) == len(ROLES[name].programs) + 1
    for bundle in bundles:
        committed = json.loads((bundle / "template.json").read_bytes())
        config = committed["product_theatre_config"]
        settings = config.get("adapter_settings", {})
        settings.pop("key_env", None)
        asked = Asked(config["adapter_endpoint"], settings["model"]) if settings else Asked()
        wanted = template_of(name, bundle.name, asked)
        differing = {one for one in wanted if committed[one] != wanted[one]}
        assert differing <= NOT_COMPARED
        assert check_folder(bundle).consistent, bundle.name
    assert model.startswith("models.")
