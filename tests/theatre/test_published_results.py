"""What is published of each shipped theatre is what anybody gets who runs it, byte for byte."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.cartograph_runs import FIXTURES, run_cartograph
from tests.theatre.easel_runs import run_easel
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import Finished, ScriptedAdapter, Stage
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.scoring import COMPOSITE

TEMPLATES = FIXTURES / "templates"
SHIPPED: dict[str, Callable[[Path], Finished]] = {
    "product_cartograph_v1": run_cartograph,
    "product_observer_v1": run_observer,
    "product_easel_v1": run_easel,
}


def published_commitment(name: str) -> bytes:
    return (TEMPLATES / f"{name}.commitment.txt").read_bytes()


@pytest.mark.reproducibility
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_gives_the_published_results_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Two runs need no comparison of their own: each is held to the same published bytes."""
    finished = SHIPPED[name](tmp_path / "run")
    certificate = finished.document("certificate.json")
    assert {
        "results_hash": certificate["results_hash"],
        "per_episode_sha256": sha256_hex(
            (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
        ),
        "scores": certificate["scores"],
    } == json.loads((TEMPLATES / f"{name}.expected.json").read_bytes())
    assert f"{certificate['commitment_hash']}\n".encode() == published_commitment(name)


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("product_*.commitment.txt")))
def test_a_shipped_template_has_the_published_commitment(path: Path) -> None:
    name = path.name.removesuffix(".commitment.txt")
    template = parse_object((TEMPLATES / f"{name}.json").read_bytes())
    assert f"{CommitmentProtocol.hash_template(template)}\n".encode() == path.read_bytes()


def test_the_result_shows_one_real_skill_and_three_stubs(tmp_path: Path) -> None:
    finished = run_cartograph(tmp_path)
    certificate = finished.document("certificate.json")
    scores = cast("dict[str, float]", certificate["scores"])
    assert scores["hex_grid_accuracy"] > 0.95
    assert scores["isometric_convention_compliance"] < 0.05
    assert scores["detail_density_adherence"] < 0.05
    assert certificate["verification_tier"] == "UNVERIFIED"
    assert certificate["caps"] == ["failure-rate-above-20"]
    assert finished.resolution["outcome"] == "certified"


def test_two_stubs_fail_and_one_answers_a_placeholder(tmp_path: Path) -> None:
    finished = run_cartograph(tmp_path)
    answers: dict[str, set[tuple[str, str | None]]] = {}
    for path in sorted((finished.bundle / "invocations").iterdir()):
        record = parse_object(path.read_bytes())
        (call,) = cast("list[dict[str, Any]]", record["calls"])
        (attempt,) = call["attempts"]
        response = attempt["response"]
        skill = call["request"]["input_data"]["skill"]
        answers.setdefault(skill, set()).add((response["status"], response["error_detail"]))
    failed = ("error", "not implemented")
    assert sorted(answers) == [
        *("detail_density", "hex_geometry", "isometric_projection", "style_guide")
    ]
    assert answers.pop("hex_geometry") == {("success", None)}
    assert sorted(answers.values(), key=str) == [{failed}, {failed}, {("success", None)}]


def test_every_skill_is_asked_at_least_fifty_times() -> None:
    dataset = FIXTURES / "ground_truth" / "product_cartograph_v1.jsonl"
    asked: dict[str, int] = {}
    for line in dataset.read_bytes().splitlines():
        skill = cast("JsonObject", parse_object(line)["input_data"])["skill"]
        asked[str(skill)] = asked.get(str(skill), 0) + 1
    assert len(asked) == 4
    assert min(asked.values()) >= 50


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
