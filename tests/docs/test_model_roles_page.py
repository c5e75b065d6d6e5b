"""`docs/models.md` on the model in its roles: tables, templates and scores are those sealed."""

import json
from pathlib import Path

import pytest

from tests.model_roles import ROLES, Asked, archives, role_of, summary, table, template_of
from tests.models import PAGE
from tests.sealed_evidence import answers, unpacked
from theatre.api.checks import check_folder

SAID = " ".join(PAGE.read_text(encoding="utf-8").split())
NOT_COMPARED = {"version_pins", "scorer_pins"}
"""A later version of a shipped program or scorer makes nothing untrue of what was run."""


def test_each_role_has_a_table_of_its_certificates() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert summary() in page
    assert {role_of(one) for one in archives()} == set(ROLES)
    tables = {one: f"<!-- {one} -->\n{table(one)}" for one in archives()}
    assert [one for one, found in tables.items() if found not in page] == []


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
