"""PRODUCT_CARTOGRAPH_V1, run for real: the published result, twice, byte for byte."""

from pathlib import Path
from typing import Any, cast

from tests.theatre.cartograph_runs import FIXTURES, run_cartograph
from theatre.engine.canonical_json import JsonObject, parse_object


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
        *("detail_density", "hex_geometry", "isometric_projection", "style_guide"),
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
