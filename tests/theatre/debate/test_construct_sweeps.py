"""Sweeps in which registered constructs debate: they hear what is varied, and may fail."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.construct_door import ConstructDoor, door_of, report_source
from tests.theatre.debate.scripted_runs import FIXTURES
from tests.theatre.echelon_process import Answer, processes_that_mention
from tests.theatre.forked_echelon import forked

CONSTRUCTS = FIXTURES.parent / "constructs" / "debate"
REGISTRY = """
[constructs.sampler]
argv = ["{python}", "-B", "-m", "theatre.construct_kit", %s, "--folder", "{folder}", "moody:answer"]
folder = "constructs"
files = ["case_reading.py", "moody.py", "sampler.py", "speech.py"]
network = true
serves_http = %s

[constructs.elsewhere]
url = "http://127.0.0.1:9/invoke"
"""
MOODY = """
import sampler


def answer(asked):
    if not report(seed=asked["settings"]["seed"], turn=asked["turn_index"]):
        return {"content": "", "final_answer": None}
    return sampler.sample(asked)
"""


class Stage:
    """A plan, the registry beside it, and a construct that fails where its door says so."""

    def __init__(self, folder: Path, *, way: str = '"--stdio"', **members: Any) -> None:  # noqa: ANN401 - members of the plan
        self.folder, self.out = folder, folder / "out"
        shutil.copytree(FIXTURES / "scenarios", folder / "scenarios")
        shutil.copytree(CONSTRUCTS, folder / "constructs")
        (folder / "constructs" / "moody.py").write_text(self.moody, encoding="utf-8")
        (folder / "constructs.toml").write_text(
            REGISTRY % (way, "true" if "port" in way else "false"), encoding="utf-8"
        )
        source: Any = json.loads((FIXTURES / "construct_sweep.json").read_bytes())
        source["seeds"]["count"] = 3
        for one in source["configurations"]:
            one["construct_id"] = "sampler"
        self.plan = folder / "plan.json"
        self.plan.write_text(json.dumps(source | members), encoding="utf-8")

    @property
    def door(self) -> ConstructDoor:
        return door_of(self.folder)

    @property
    def moody(self) -> str:
        return report_source(repr(str(self.folder))) + MOODY

    def sweep(self, *options: str) -> Answer:
        home = self.folder / "home"
        return forked("debate", "sweep", self.plan, "--out", self.out, *options, home=home)

    def artefacts(self) -> dict[str, dict[int, Any]]:
        """Return the artefacts by configuration and seed."""
        found: dict[str, dict[int, Any]] = defaultdict(dict)
        for path in (self.out / "runs").glob("*.json"):
            artefact = json.loads(path.read_bytes())
            metadata = artefact["run_metadata"]
            found[metadata["configuration"]][metadata["seed"]] = artefact
        return found


@pytest.mark.parametrize("way", ['"--stdio"', '"--port", "{port}"'])
def test_a_construct_hears_what_a_sweep_varies(tmp_path: Path, way: str) -> None:
    stage = Stage(tmp_path / "stage", way=way)
    answer = stage.sweep("--json")
    assert (answer.code, answer.document["new_runs"]) == (0, 12), answer.stderr
    runs = stage.artefacts()
    assert {name: set(seeds) for name, seeds in runs.items()} == {
        name: {0, 1, 2} for name in ("cool", "warm", "warm_in_loop", "warm_brief_in_loop")
    }
    for name, seeds in runs.items():
        metadata = seeds[0]["run_metadata"]
        assert metadata["temperature"] == (0 if name == "cool" else 1)
        assert metadata["prompt_bundle_version"] == ("1" if "brief" in name else "2")
        assert (metadata["generation_mode"], metadata["global_model_name"]) == ("live", "sampler")
        assert len(metadata["construct_version"]) == 64
    assert len({decisions(one) for one in runs["cool"].values()}) == 1
    assert len({decisions(one) for one in runs["warm"].values()}) > 1
    whole, brief = (runs[name][0] for name in ("warm_in_loop", "warm_brief_in_loop"))
    assert ("Falsifier:" in json.dumps(whole), "Falsifier:" in json.dumps(brief)) == (True, False)
    assert stage.sweep("--json").document["new_runs"] == 0
    assert processes_that_mention(stage.folder) == []


def decisions(artefact: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    return tuple(turn["recommendation"]["action"] for turn in artefact["turns"])


def test_a_run_whose_construct_fails_is_left_out_and_made_later(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "stage")
    stage.door.refuses = lambda call: (call["seed"], call["turn"]) == (1, 3)
    answer = stage.sweep("--json")
    assert (answer.code, answer.document["new_runs"]) == (8, 8)
    assert [one.partition(":")[0] for one in answer.document["failed_runs"]] == [
        f"{name}, seed 1" for name in ("cool", "warm", "warm_in_loop", "warm_brief_in_loop")
    ]
    assert [cell["runs"] for cell in answer.document["cells"]] == [2, 2, 2, 2]
    kept = {path: path.read_bytes() for path in (stage.out / "runs").iterdir()}
    assert len(kept) == 2 * 8
    told = stage.sweep()
    assert (told.code, "left out: cool, seed 1: expected content" in told.stderr) == (8, True)
    stage.door.refuses = lambda _: False
    assert stage.sweep("--json").document["new_runs"] == 4
    assert {path: path.read_bytes() for path in kept} == kept
    # Another version is another sweep.
    (stage.folder / "constructs" / "moody.py").write_text(
        f"{stage.moody}\n# changed\n", encoding="utf-8"
    )
    other = stage.sweep()
    assert (other.code, "of another" in other.stderr) == (5, True)


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        ({"pins": {"sampler": "0" * 64}}, 5, f"expected sampler at version {'0' * 64}"),
        (
            {"configurations": [{"name": "a", "control": True, "construct_id": "elsewhere"}]},
            5,
            "expected a version of elsewhere in pins",
        ),
        (
            {"configurations": [{"name": "a", "control": True, "construct_id": "nobody"}]},
            3,
            "expected construct nobody",
        ),
        (
            {
                "configurations": [
                    {"name": "a", "control": True, "construct_id": "sampler", "debaters": {}}
                ]
            },
            5,
            "expected a construct or scripted debaters, got both",
        ),
        (
            {
                "configurations": [{"name": "a", "control": True, "construct_id": "elsewhere"}],
                "pins": {"elsewhere": "v1"},
            },
            5,
            "name it in ECHELON_OUTBOUND_ALLOW",
        ),
    ],
)
def test_a_plan_that_reaches_nobody_is_refused(
    tmp_path: Path, members: dict[str, Any], code: int, said: str
) -> None:
    stage = Stage(tmp_path / "stage", **members)
    answer = stage.sweep()
    assert (answer.code, said in answer.stderr) == (code, True), answer.stderr
    assert list(stage.out.glob("runs/*")) == []
