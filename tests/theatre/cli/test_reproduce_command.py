"""`echelon reproduce`: the same run again, and one whose answers were never the construct's."""

import json
import re
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sealed_evidence import unpacked
from tests.theatre.cartograph_runs import FIXTURES, TEMPLATE
from tests.theatre.cli.doubler import SERVED, write_module, write_theatre
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.rated_runs import desk_of, rate, rated_stage
from tests.theatre.runs import ScriptedAdapter, Stage, checked, episodes
from theatre.engine.bundle_check import Verdict
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.coin import Coin
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

VERSION = str(TEMPLATE["version_pins"]["constructs"]["cartograph"])  # type: ignore[index, call-overload]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sealed run that is shipped."""
    return unpacked("product_cartograph_v1", tmp_path_factory.mktemp("honest"))


def invented(folder: Path, honest: Path, *, failed: int) -> Path:
    """Make Cartograph's theatre with the answers of another program: a bundle without a flaw.

    It answers as the construct did, and by heart where that failed, in the first `failed` episodes.
    """
    stage = Stage(folder, TEMPLATE, data=FIXTURES)
    answers: dict[str, JsonObject] = {}
    lines = (honest / "scores" / "per_episode.jsonl").read_bytes().splitlines()
    dataset = (honest / "ground_truth" / "dataset.jsonl").read_bytes().splitlines()
    for seq, (line, scored) in enumerate(zip(dataset, lines, strict=True), 1):
        episode, scores = json.loads(line), json.loads(scored)["scores"]
        (by_heart,) = episode["expected_output"].values()
        record = honest / "invocations" / f"episode_{seq:06d}.json"
        answer = json.loads(record.read_bytes())["calls"][-1]["attempts"][-1]["response"]
        if failed and 0 in scores.values():
            failed -= 1
            answer = {"status": "success", "output_data": {"result": by_heart}}
        answers[stage.draws.alias(episode["episode_id"])] = {
            name: answer[name] for name in ("status", "output_data")
        }

    def told(request: OracleInvocationRequest) -> JsonObject:
        return answers[request.episode_id]

    return stage.run(ScriptedAdapter(told, version=VERSION)).bundle


def test_a_deterministic_theatre_comes_out_again(honest: Path, tmp_path: Path) -> None:
    answer = forked("reproduce", honest, "--json", "--quiet", home=tmp_path / "home")
    assert answer.code == 0, answer.stderr
    told = answer.document
    again = Path(told["bundle_path"])
    certificate = json.loads((honest / "certificate.json").read_bytes())
    assert (told["verdict"], told["episodes"], told["episodes_that_differ"]) == ("equal", 240, 0)
    assert told["results_hash"] == [certificate["results_hash"]] * 2
    assert {name: one["within"] for name, one in told["scores"].items()} == {
        "isometric_convention_compliance": True,
        "hex_grid_accuracy": True,
        "detail_density_adherence": True,
        "composite_score": True,
    }
    assert told["reproduction"]["coin_sha256"] == certificate["coin_sha256"]
    assert (again / "coin.txt").read_bytes() == (honest / "coin.txt").read_bytes()
    assert checked(again).verdict is Verdict.CONSISTENT
    # Every draw of the run is drawn again; the theatre is another one, and so are its calls.
    asked = [
        json.loads((bundle / "invocations" / "episode_000001.json").read_bytes())["calls"][0]
        for bundle in (honest, again)
    ]
    assert asked[0]["request"]["episode_id"] == asked[1]["request"]["episode_id"]
    assert asked[0]["request"]["invocation_id"] != asked[1]["request"]["invocation_id"]


def test_answers_that_are_not_the_constructs_differ(honest: Path, tmp_path: Path) -> None:
    bundle = invented(tmp_path, honest, failed=240)
    assert checked(bundle).verdict is Verdict.CONSISTENT
    answer = forked("reproduce", bundle, "--quiet", home=tmp_path / "home")
    lines = answer.stdout.splitlines()
    assert answer.code == 10
    assert lines[0].split()[:3] == ["criterion", "run", "95"]
    assert [line.split()[-1] for line in lines[2:6]] == ["no", "yes", "no", "no"]
    assert lines[-1] == (
        "different (178 of 240 episodes with another line): "
        "a reproduction certifies nothing, its coin was public"
    )


def test_a_few_that_move_no_score_out_of_its_interval_differ_too(
    honest: Path, tmp_path: Path
) -> None:
    """No episode is ever repeated in this theatre: a second reproduction shows that none varies."""
    bundle = invented(tmp_path, honest, failed=2)
    assert checked(bundle).verdict is Verdict.CONSISTENT
    answer = forked("reproduce", bundle, "--json", "--quiet", home=tmp_path / "home")
    told = answer.document
    assert {one["within"] for one in told["scores"].values()} == {True}
    run, *again = told["results_hash"]
    assert (again[0] == again[1], run in again) == (True, False)
    assert (answer.code, told["verdict"], told["episodes_that_differ"]) == (10, "different", 2)


def test_a_construct_that_varies_has_a_lesser_verdict(tmp_path: Path) -> None:
    """Each process of it is wrong in other six of sixty episodes, so its score is always 0.9."""
    folder = shutil.copytree(FIXTURES / "templates" / "versions", tmp_path / "varying")
    program = folder / "numerals.py"
    source = program.read_text(encoding="utf-8").replace(
        "    for line in sys.stdin:",
        "    wrong = drawn()\n    for at, line in enumerate(sys.stdin):",
    )
    source = source.replace("int(digit) for digit in str(number)", "DIGITS", 1).replace(
        "sum(DIGITS)", "-1 if at in wrong else sum(int(digit) for digit in str(number))"
    )
    drawn = "import random\n\n\ndef drawn():\n    return random.sample(range(60), 6)\n\n\n"
    program.write_text(source.replace("SYMBOLS = (", f"{drawn}SYMBOLS = (", 1), encoding="utf-8")
    path = folder / "product_numerals_v1.json"
    template = json.loads(path.read_bytes())
    found = ConstructRegistry.load(folder / "constructs.toml").find("numerals")
    template["version_pins"]["constructs"]["numerals"] = construct_version(found)
    path.write_bytes(canonical_bytes(template))
    home = tmp_path / "home"
    run = forked("theatre", "run", path, "--json", "--quiet", home=home).document
    own = ("--constructs", folder, "--quiet")
    answer = forked("reproduce", run["bundle_path"], *own, home=home)
    last = answer.stdout.splitlines()[-1]
    assert (answer.code, last.partition(" (")[0]) == (9, "within intervals"), answer.stderr
    assert re.fullmatch(r".* \(\d+ of 60 episodes with another line\): .*", last)
    elsewhere = forked("reproduce", run["bundle_path"], "--json", "--quiet", home=home)
    assert (elsewhere.code, elsewhere.document["error"]["code"]) == (3, "construct-unknown")


def test_what_people_rated_is_refused_and_nothing_is_asked(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path / "run", episodes(6))
    stage.run(ScriptedAdapter())
    for scorer in ("Bo", "Cy"):
        rate(stage, scorer, dict.fromkeys(desk_of(stage).rubric.items, 4))
    rated = stage.run(ScriptedAdapter()).bundle
    # The certificate in a bundle stands for the bundle.
    answer = forked("reproduce", rated / "certificate.json", "--json", home=tmp_path / "home")
    assert (answer.code, answer.document) == (
        5,
        {
            "error": {
                "code": "not-reproducible",
                "message": "expected a run whose results rest on its constructs, got one with the "
                "step taste, at which people rate: nobody can give their scores again",
            }
        },
    )
    assert not (tmp_path / "home" / "theatres").exists()


def test_a_bundle_that_does_not_pass_is_not_made_again(honest: Path, tmp_path: Path) -> None:
    bundle = shutil.copytree(honest, tmp_path / "bundle")
    (bundle / "coin.txt").write_bytes(Coin(bytes(32)).line)
    answer = forked("reproduce", bundle, "--json", home=tmp_path / "home")
    failed = {line["id"] for line in answer.document["checks"] if line["ok"] is False}
    assert (answer.code, "coin" in failed) == (10, True)
    assert not (tmp_path / "home" / "theatres").exists()


class InStore(NamedTuple):
    """A run in a store, its certificate kept elsewhere, and what reproducing that came to."""

    template: Path
    home: Path
    kept: Path
    answer: Answer


@pytest.fixture(scope="module")
def in_store(tmp_path_factory: pytest.TempPathFactory) -> InStore:
    folder = tmp_path_factory.mktemp("in-store")
    home, kept = folder / "home", folder / "kept.json"
    version = write_module(folder, SERVED)
    (folder / "constructs.toml").write_text(SERVED, encoding="utf-8")
    template = write_theatre(folder, adapter_type="http", version=version)
    run = forked("theatre", "run", template, "--json", "--quiet", home=home).document
    shutil.copy(Path(run["bundle_path"]) / "certificate.json", kept)
    own = ("--constructs", folder)
    answer = forked("reproduce", kept, *own, "--json", "--quiet", home=home)
    return InStore(template, home, kept, answer)


def test_a_certificate_from_elsewhere_finds_its_bundle_in_the_store(
    in_store: InStore, tmp_path: Path
) -> None:
    assert (in_store.answer.code, in_store.answer.document["verdict"]) == (0, "equal")
    answer = forked("reproduce", in_store.kept, "--json", "--quiet", home=tmp_path / "empty")
    assert (answer.code, answer.document["error"]["code"]) == (3, "not-found")


def test_a_reproduction_is_never_certified_whoever_goes_on_with_it(in_store: InStore) -> None:
    home, answer = in_store.home, in_store.answer
    folder = Path(answer.document["bundle_path"]).parent
    trail = folder / "audit_trail.jsonl"
    # As a kill in the middle of the calls leaves it.
    entries = [json.loads(line) for line in trail.read_bytes().splitlines()]
    first = next(n for n, one in enumerate(entries) if one["event_type"] == "settling")
    trail.write_bytes(b"".join(trail.read_bytes().splitlines(keepends=True)[:first]))
    shutil.rmtree(answer.document["bundle_path"])
    new = forked("theatre", "run", in_store.template, "--json", "--quiet", home=home)
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


def test_each_commitment_draws_a_coin_of_its_own_and_no_option_chooses_one(
    in_store: InStore, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    ids = [
        forked("theatre", "commit", in_store.template, "--json", home=home).document["theatre_id"]
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


def test_a_lost_coin_ends_the_run_and_says_so(in_store: InStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    commit = forked("theatre", "commit", in_store.template, "--json", home=home)
    theatre_id = commit.document["theatre_id"]
    (home / "theatres" / theatre_id / "coin").unlink()
    answer = forked("theatre", "run", theatre_id, "--json", "--quiet", home=home)
    told = answer.document
    assert (answer.code, told["outcome"], told["outcome_reason"]) == (1, "failed", "coin-lost")
    assert told["episodes_recorded"] == 0
