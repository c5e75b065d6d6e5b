"""`echelon reproduce`: the same run again, and one whose answers were never the construct's."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cartograph_runs import FIXTURES, TEMPLATE, run_cartograph
from tests.theatre.echelon_process import CARTOGRAPH
from tests.theatre.forked_echelon import forked
from tests.theatre.runs import COIN, Finished, ScriptedAdapter, Stage, checked
from theatre.engine.bundle_check import Verdict
from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Coin
from theatre.engine.oracle_contract import OracleInvocationRequest

VERSION = str(TEMPLATE["version_pins"]["constructs"]["cartograph"])  # type: ignore[index, call-overload]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_cartograph(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory, honest: Finished) -> Finished:
    """Cartograph's theatre with the answers of another program: a bundle without a flaw."""
    stage = Stage(tmp_path_factory.mktemp("invented"), TEMPLATE, data=FIXTURES)
    answers: dict[str, JsonObject] = {}
    for line in (honest.bundle / "ground_truth" / "dataset.jsonl").read_bytes().splitlines():
        episode = json.loads(line)
        (answers[stage.draws.alias(episode["episode_id"])],) = episode["expected_output"].values()

    def by_heart(request: OracleInvocationRequest) -> JsonObject:
        return {"output_data": {"result": answers[request.episode_id]}}

    return stage.run(ScriptedAdapter(by_heart, version=VERSION))


def test_a_deterministic_theatre_comes_out_again(honest: Finished, tmp_path: Path) -> None:
    answer = forked("reproduce", honest.bundle, "--json", "--quiet", home=tmp_path / "home")
    assert answer.code == 0, answer.stderr
    told = answer.document
    again = Path(told["bundle_path"])
    assert (told["verdict"], told["episodes"], told["episodes_that_differ"]) == ("equal", 240, 0)
    assert told["results_hash"] == [honest.resolution["results_hash"]] * 2
    assert {name: one["within"] for name, one in told["scores"].items()} == {
        "isometric_convention_compliance": True,
        "hex_grid_accuracy": True,
        "detail_density_adherence": True,
        "composite_score": True,
    }
    assert told["reproduction"]["coin_sha256"] == COIN.sha256
    assert (again / "coin.txt").read_bytes() == (honest.bundle / "coin.txt").read_bytes()
    assert checked(again).verdict is Verdict.CONSISTENT


def test_every_draw_of_the_run_is_drawn_again(honest: Finished, tmp_path: Path) -> None:
    answer = forked("reproduce", honest.bundle, "--json", "--quiet", home=tmp_path / "home")
    again = Path(answer.document["bundle_path"])
    asked = [
        json.loads((bundle / "invocations" / "episode_000001.json").read_bytes())["calls"][0]
        for bundle in (honest.bundle, again)
    ]
    assert asked[0]["request"]["episode_id"] == asked[1]["request"]["episode_id"]
    # The theatre is another one, and so are its calls.
    assert asked[0]["request"]["invocation_id"] != asked[1]["request"]["invocation_id"]


def test_answers_that_are_not_the_constructs_differ(invented: Finished, tmp_path: Path) -> None:
    assert checked(invented.bundle).verdict is Verdict.CONSISTENT
    answer = forked("reproduce", invented.bundle, "--json", "--quiet", home=tmp_path / "home")
    assert answer.code == 10
    told = answer.document
    assert told["verdict"] == "different"
    assert told["episodes_that_differ"] == 178


def test_a_difference_is_shown_as_a_table(invented: Finished, tmp_path: Path) -> None:
    answer = forked("reproduce", invented.bundle, "--quiet", home=tmp_path / "home")
    lines = answer.stdout.splitlines()
    assert answer.code == 10
    assert lines[0].split()[:3] == ["criterion", "run", "95"]
    assert [line.split()[-1] for line in lines[2:6]][-1] == "no"
    assert "episodes     178 of 240 with another line" in lines
    assert lines[-1] == "different: a reproduction certifies nothing, its coin was public"


def test_a_bundle_that_does_not_pass_is_not_made_again(honest: Finished, tmp_path: Path) -> None:
    bundle = shutil.copytree(honest.bundle, tmp_path / "bundle")
    (bundle / "coin.txt").write_bytes(Coin(bytes(32)).line)
    answer = forked("reproduce", bundle, "--json", home=tmp_path / "home")
    failed = {line["id"] for line in answer.document["checks"] if line["ok"] is False}
    assert (answer.code, "coin" in failed) == (10, True)
    assert not (tmp_path / "home" / "theatres").exists()


def committed(home: Path) -> dict[str, Any]:
    answer = forked("theatre", "run", CARTOGRAPH, "--json", "--quiet", home=home)
    return answer.document


def test_a_certificate_from_elsewhere_finds_its_bundle_in_the_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run = committed(home)
    kept = shutil.copy(Path(run["bundle_path"]) / "certificate.json", tmp_path / "kept.json")
    answer = forked("reproduce", kept, "--json", "--quiet", home=home)
    assert (answer.code, answer.document["verdict"]) == (0, "equal")
    inside = Path(run["bundle_path"]) / "certificate.json"
    answer = forked("reproduce", inside, "--json", "--quiet", home=tmp_path / "other")
    assert (answer.code, answer.document["verdict"]) == (0, "equal")
    answer = forked("reproduce", kept, "--json", "--quiet", home=tmp_path / "empty")
    assert (answer.code, answer.document["error"]["code"]) == (3, "not-found")


def test_a_reproduction_is_never_certified_whoever_goes_on_with_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run = committed(home)
    own = ("--constructs", CARTOGRAPH.parent)
    answer = forked("reproduce", run["bundle_path"], *own, "--json", "--quiet", home=home)
    folder = Path(answer.document["bundle_path"]).parent
    trail = folder / "audit_trail.jsonl"
    # As a kill in the middle of the calls leaves it.
    entries = [json.loads(line) for line in trail.read_bytes().splitlines()]
    first = next(n for n, one in enumerate(entries) if one["event_type"] == "settling")
    trail.write_bytes(b"".join(trail.read_bytes().splitlines(keepends=True)[:first]))
    shutil.rmtree(answer.document["bundle_path"])
    new = forked("theatre", "run", CARTOGRAPH, "--json", "--quiet", home=home)
    assert new.document["theatre_id"] != folder.name
    again = forked("theatre", "run", folder.name, "--json", "--quiet", home=home)
    assert (again.document["outcome"], again.document["outcome_reason"]) == (
        "no_certificate",
        "reproduction",
    )
    reproduced = Path(answer.document["bundle_path"])
    assert not (reproduced / "certificate.json").exists()
    refused = forked("reproduce", reproduced, "--json", home=home)
    assert (refused.code, refused.document["error"]["code"]) == (3, "not-found")


def test_each_commitment_draws_a_coin_of_its_own_and_no_option_chooses_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ids = [
        forked("theatre", "commit", CARTOGRAPH, "--json", home=home).document["theatre_id"]
        for _ in range(2)
    ]
    lines = []
    for theatre_id in ids:
        path = home / "theatres" / theatre_id / "coin"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        coin = Coin.from_line(path.read_bytes())
        receipt = json.loads((path.parent / "commitment_receipt.json").read_bytes())
        assert receipt["coin_sha256"] == coin.sha256
        lines.append(coin.line)
    assert lines[0] != lines[1]
    for command in (("theatre", "commit"), ("theatre", "run"), ("reproduce",)):
        told = forked(*command, "--help", home=home).stdout
        assert "--coin" not in told
        assert "--seed" not in told


def test_a_lost_coin_ends_the_run_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    theatre_id = forked("theatre", "commit", CARTOGRAPH, "--json", home=home).document["theatre_id"]
    (home / "theatres" / theatre_id / "coin").unlink()
    answer = forked("theatre", "run", theatre_id, "--json", "--quiet", home=home)
    told = answer.document
    assert (answer.code, told["outcome"], told["outcome_reason"]) == (1, "failed", "coin-lost")
    assert told["episodes_recorded"] == 0
