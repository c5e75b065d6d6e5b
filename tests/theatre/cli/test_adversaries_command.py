"""`echelon adversaries` on a template of one's own, with the data in a folder of one's own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.conftest import CONSTRUCT, TEMPLATE
from tests.theatre.echelon_process import Answer, ended, started, until
from tests.theatre.forked_echelon import forked
from tests.theatre.runs import with_changes
from theatre.cli.adversaries.rehearsal import generic_adversaries
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, sha256_hex
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

REGISTRY = """
[constructs.sums]
argv = ["{python}", "{folder}/sums.py"]
folder = "."
files = ["sums.py"]
"""
ADDITION: JsonObject = {"scorer": "exact_match", "params": {"field": "sum", "expected": "sum"}}
FIRST = ("empty", "garbage", "constant", "copied", "memorised")


def own_theatre(folder: Path, numbers: Callable[[int], list[int]], **asked: JsonValue) -> Path:
    """Write template, construct and registry, and 60 sums into a folder beside them."""
    (folder / "mine" / "sums").mkdir(parents=True)
    (folder / "mine" / "sums.py").write_text(CONSTRUCT, encoding="utf-8")
    registry = folder / "mine" / "constructs.toml"
    registry.write_text(REGISTRY, encoding="utf-8")
    rows = b"".join(
        canonical_line(
            {
                "episode_id": f"sum-{seq}",
                "input_data": {"numbers": [*numbers(seq)], **asked},
                "expected_output": {"sum": sum(numbers(seq))},
            }
        )
        for seq in range(1, 61)
    )
    (folder / "data").mkdir()
    (folder / "data" / "sums.jsonl").write_bytes(rows)
    version = construct_version(ConstructRegistry.load(registry).find("sums"))
    template: Any = with_changes(
        TEMPLATE,
        {
            "/version_pins/constructs": {"sums": version},
            "/dataset_hashes": {"sums": sha256_hex(rows)},
            "/criteria/criteria_ids": ["addition"],
            "/scoring/criteria_scorers": {"addition": ADDITION},
            "/scorer_pins": {"exact_match": "1"},
        },
    )
    # One criterion needs no weight.
    del template["criteria"]["weights"]
    del template["product_theatre_config"]["gold_label_set"]
    path = folder / "mine" / "template.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    return path


def tried(folder: Path, template: Path, *options: str) -> Answer:
    answer = forked(
        "adversaries", template, "--data", folder / "data", *options, home=folder / "home"
    )
    # Neither a store nor a temporary one is left, and no certificate of anybody.
    assert not (folder / "home").exists()
    assert not list((folder / "temporary files").iterdir())
    assert not list(folder.rglob("certificate.json"))
    return answer


def test_a_measurement_that_tells_its_construct_from_guesses_ends_well(tmp_path: Path) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, seq * seq])
    answer = tried(tmp_path, template, "--json", "--quiet")
    assert (answer.code, answer.stderr) == (0, "")
    found = answer.document
    assert found["construct"] == {
        "tier": "BACKTESTED",
        "caps": found["construct"]["caps"],
        "scores": {
            "addition": {"value": 1, "low": 0.939828, "high": 1},
            "composite_score": {"value": 1, "low": None, "high": None},
        },
    }
    rows = {one["name"]: one for one in found["adversaries"]}
    assert list(rows) == [one.name for one in generic_adversaries()]
    # It knows a tenth by heart.
    assert rows["memorised"]["scores"]["addition"]["value"] == 0.1
    assert {name: rows[name]["tier"] for name in FIRST} == dict.fromkeys(FIRST, "BACKTESTED")
    assert [one["meets"] for one in found["adversaries"]] == [[]] * len(rows)
    assert found["get_through"] == []


def test_a_measurement_with_one_answer_to_everything_pays_who_knows_it(tmp_path: Path) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, -seq])
    answer = tried(tmp_path, template, "--quiet")
    assert answer.code == 10
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert lines[0] == ["who", "tier", "criterion", "weight", "score", "95", "%", "interval"]
    assert lines[4] == ["empty", "BACKTESTED", "addition", "1", "0.000", "0.000", "…", "0.060"]
    assert (
        (answer.stdout.splitlines()[-1])
        == "like the construct: constant, memorised, usual, drawn, salad"
    )


def test_what_leaks_is_right_even_where_the_construct_is_not(tmp_path: Path) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, seq * seq], do="wrong")
    answer = tried(tmp_path, template, "--json", "--quiet")
    rows = {one["name"]: one for one in answer.document["adversaries"]}
    assert answer.document["construct"]["scores"]["addition"]["value"] == 0
    assert rows["memorised"]["scores"]["addition"]["value"] == 0.1
    assert rows["memorised"]["meets"] == ["addition"]
    assert (answer.code, "memorised" in answer.document["get_through"]) == (10, True)


@pytest.mark.parametrize(
    ("edit", "code"), [("scoring", "template-invalid"), ("dataset_hashes", "dataset-mismatch")]
)
def test_what_cannot_be_committed_is_not_tried(tmp_path: Path, edit: str, code: str) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, seq])
    document: JsonObject = json.loads(template.read_bytes())
    document[edit] = {"criteria_scorers": {}} if edit == "scoring" else {"sums": "0" * 64}
    template.write_text(json.dumps(document), encoding="utf-8")
    answer = tried(tmp_path, template, "--json", "--quiet")
    assert (answer.code, answer.document["error"]["code"]) == (5, code)


def test_without_the_construct_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, seq])
    (tmp_path / "mine" / "constructs.toml").unlink()
    answer = tried(tmp_path, template, "--json", "--quiet")
    assert (answer.code, answer.document["error"]["code"]) == (3, "construct-unknown")


def test_a_command_that_is_killed_leaves_no_certificate(tmp_path: Path) -> None:
    template = own_theatre(tmp_path, lambda seq: [seq, seq])
    command = ("adversaries", template, "--data", tmp_path / "data", "--quiet")
    with started(*command, home=tmp_path / "home") as process:
        temporary = tmp_path / "temporary files"
        until(lambda: list(temporary.glob("*/echo/constructs.toml")), "the seventh program")
        process.kill()
        ended(process)
    assert list(temporary.glob("*/theatres/*/journal.jsonl"))
    assert not list(tmp_path.rglob("certificate.json"))
