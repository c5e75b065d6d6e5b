"""A Python callable as the construct: from its version to a certificate that checks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.theatre.echelon_process import echelon

MODULE = '''
"""Doubles a number; prints, which must not disturb the protocol."""

from theatre.construct_kit import construct


@construct(id="doubler")
def double(input_data: dict) -> dict:
    print("thinking")
    return {"result": 2 * input_data["number"]}
'''
EPISODES = [
    {"episode_id": f"e{n}", "input_data": {"number": n}, "expected_output": {"double": 2 * n}}
    for n in range(1, 9)
]


def template(version: str, dataset: bytes) -> dict[str, Any]:
    return {
        "schema_version": "2.1.0",
        "theatre_id": "product_doubler_v1",
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": "Doubler",
        "criteria": {"criteria_ids": ["right"], "criteria_human": "Twice the number."},
        "version_pins": {
            "constructs": {"doubler": version},
            "scorer_version": "exact_match@1",
            "adapter_version": "python@1",
        },
        "scorer_pins": {"exact_match": "1"},
        "dataset_hashes": {"numbers": hashlib.sha256(dataset).hexdigest()},
        "resolution_programme": [
            {"step_id": "call", "type": "construct_invocation", "construct_id": "doubler"},
            {"step_id": "sum", "type": "aggregation"},
        ],
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "meets", "label": "Right"},
                    {"option_id": "falls_short", "label": "Wrong"},
                ],
            }
        ],
        "scoring": {
            "criteria_scorers": {
                "right": {
                    "scorer": "exact_match",
                    "params": {"field": "result", "expected": "double"},
                }
            }
        },
        "execution_policy": {"sanitise_input": False},
        "product_theatre_config": {
            "ground_truth_source": "CUSTOM",
            "construct_under_test": "doubler",
            "adapter_type": "python",
            "adapter_endpoint": "doubling:double",
            "replay_dataset_id": "numbers",
            "replay_data_path": "numbers.jsonl",
        },
    }


def test_a_callable_is_pinned_certified_and_checked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "doubling.py").write_text(MODULE, encoding="utf-8")
    dataset = "".join(json.dumps(episode) + "\n" for episode in EPISODES).encode()
    (tmp_path / "numbers.jsonl").write_bytes(dataset)
    folder = ["--folder", str(tmp_path)]
    version = echelon("construct", "version", "doubling:double", *folder, "--json", home=home)
    pin = json.loads(version.stdout)["construct_version"]
    path = tmp_path / "template.json"
    path.write_text(json.dumps(template(pin, dataset)), encoding="utf-8")

    run = json.loads(echelon("theatre", "run", str(path), "--json", home=home).stdout)
    assert (run["outcome"], run["scores"], run["verification_tier"]) == (
        "certified",
        {"right": 1},
        "UNVERIFIED",
    )
    assert run["caps"] == ["replays-below-50", "criterion-n-below-30:right"]
    check = echelon("check", run["bundle_path"], "--json", home=home)
    assert (check.code, json.loads(check.stdout)["valid"]) == (0, True)

    (tmp_path / "doubling.py").write_text(MODULE.replace("2 *", "3 *"), encoding="utf-8")
    edited = echelon("theatre", "run", str(path), "--json", home=home)
    assert (edited.code, json.loads(edited.stdout)["error"]["code"]) == (5, "pin-mismatch")
