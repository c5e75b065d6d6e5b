"""Every product theatre commits a holdout, and a run reports train, holdout and gap."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.observer_runs import FIXTURES
from tests.theatre.runs import Finished, ScriptedAdapter, Stage
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.scoring import COMPOSITE

TEMPLATES = FIXTURES / "templates"
PRODUCTS = (
    "product_cartograph_v1",
    "product_observer_v1",
    "product_easel_v1",
    "product_easel_requests_v1",
)


def document(name: str) -> dict[str, Any]:
    template: dict[str, Any] = parse_object((TEMPLATES / f"{name}.json").read_bytes())
    return template


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_fifth_of_its_episodes_is_held_out(name: str) -> None:
    assert document(name)["scoring"]["holdout_split"] == 0.2


def run_of(folder: Path, name: str) -> Finished:
    """Run a shipped product template with a construct that answers nothing in particular."""
    template = document(name)
    construct_id = template["product_theatre_config"]["construct_under_test"]
    adapter = ScriptedAdapter(
        lambda _: {"output_data": {}},
        pin=template["version_pins"]["adapter_version"],
        version=template["version_pins"]["constructs"][construct_id],
    )
    return Stage(folder, cast("JsonObject", template), data=FIXTURES).run(adapter)


@pytest.mark.parametrize("name", ["product_cartograph_v1", "product_observer_v1"])
def test_the_certificate_has_both_parts_and_the_gap_of_every_score(
    tmp_path: Path, name: str
) -> None:
    finished = run_of(tmp_path, name)
    certificate: dict[str, Any] = finished.document("certificate.json")
    held_out = [
        line["episode_id"] for line in finished.lines("scores/per_episode.jsonl") if line["holdout"]
    ]
    total = certificate["episode_counts"]["total"]
    parts = certificate["holdout_scores"]
    criteria = certificate["criteria"]["criteria_ids"]
    assert (parts["holdout"]["episodes"], parts["train"]["episodes"]) == (
        len(held_out),
        total - len(held_out),
    )
    assert 0.1 < len(held_out) / total < 0.3
    for part in ("train", "holdout"):
        assert sorted(parts[part]["scores"]) == sorted(criteria)
        assert parts[part][COMPOSITE] is not None
    assert sorted(parts["gap"]) == sorted([*criteria, COMPOSITE])
    assert parts == finished.document("scores/aggregate.json")["holdout_scores"]
