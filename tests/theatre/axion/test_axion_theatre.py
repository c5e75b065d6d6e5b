"""PRODUCT_AXION_V1: agents in processes of their own, kernel and probes on the engine's side."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.axion.answering import answer
from tests.theatre.axion.axion_theatres import FIXTURES, NAMES, published_of, run_axion, template_of
from tests.theatre.forged_bundle import (
    check,
    failed_ids,
    load,
    store,
)
from tests.theatre.record_edits import Edit, forged, of_record
from tests.theatre.runs import Finished, ScriptedAdapter
from tests.theatre.thinned import thinned
from theatre.axion.harness.pair_runner import RUNNER as PAIR_RUNNER
from theatre.axion.harness.probes import Probe, schedule
from theatre.axion.harness.records import REVISITS
from theatre.axion.harness.theatre_runner import RUNNER, STEPS, play
from theatre.axion.kernel.capability import kernel_secret
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.scorers import load_episode_runners

ECHELON = Path(sys.executable).with_name("echelon")


@pytest.fixture(scope="module", params=["honest", "pseudo"])
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_axion(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("thinned")
    template = thinned(template_of("pseudo"), folder / "data", step=13)
    return run_axion(folder, "pseudo", template=template, data=folder / "data")


def failed(bundle: Path) -> set[str]:
    return failed_ids(check(bundle, runners=load_episode_runners()))


def test_the_runners_are_installed_under_their_names() -> None:
    installed = load_episode_runners()
    assert (installed["axion"], installed["axion_pair"]) == (RUNNER, PAIR_RUNNER)


@pytest.mark.parametrize("target", ["product_axion_v1.jsonl", "product_axion_pair_v1.jsonl"])
def test_the_data_are_what_the_generator_writes(target: str) -> None:
    folder = FIXTURES / "ground_truth"
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import generate as g; "
        "sys.stdout.buffer.write(g.dataset(sys.argv[2]))"
    )
    written = subprocess.run(
        [sys.executable, "-c", program, str(folder / "axion"), target],
        capture_output=True,
        check=True,
    ).stdout
    assert written == (folder / target).read_bytes()


def test_a_run_gives_the_published_results_and_says_which_agent_it_was(shipped: Finished) -> None:
    certificate = shipped.document("certificate.json")
    (theatre,) = [name for name in NAMES if NAMES[name] == certificate["template_id"]]
    lines = (shipped.bundle / "scores" / "per_episode.jsonl").read_bytes()
    assert published_of(theatre) == {
        "per_episode_sha256": sha256_hex(lines),
        "results_hash": certificate["results_hash"],
        "scores": certificate["scores"],
    }
    assert certificate["verification_tier"] == "BACKTESTED"


def test_both_agents_stand_apart_where_the_probes_look() -> None:
    honest, pseudo = published_of("honest")["scores"], published_of("pseudo")["scores"]
    for criterion in (
        "p3_audit_integrity",
        "p4_bypass_refusal",
        "p5_causal_consistency",
        "p6_token_discipline",
    ):
        assert (honest[criterion], pseudo[criterion] < 0.5) == (1, True)
    # What a liar has in common with an honest agent is not held against it.
    assert honest["act_binding"] == pseudo["act_binding"] == 1
    assert honest["object_collected"] == 1


def test_no_construct_is_sent_the_seed_of_its_challenges(small: Finished) -> None:
    commitment = str(small.document("certificate.json")["commitment_hash"])
    for call in small.calls(1):
        sent: Any = call["request"]
        assert set(sent["input_data"]) <= {
            *("protocol", "agent_seed", "interface", "env", "ask", "offers", "own"),
        }
        assert commitment not in json.dumps(sent)
    assert STEPS - 3 <= len(small.calls(1)) <= RUNNER.max_calls


@pytest.mark.parametrize(
    "edit",
    [
        of_record("episode_result", "criteria", "P6", to="PASS"),
        of_record("episode_result", "criteria", "P5_all", to="PASS"),
        of_record("episode_result", "episode", "claims_false", to=0),
        of_record("episode_result", "episode", "worlds_false", to=0),
        of_record("episode_result", "audit_head_hash", to="0" * 64),
        of_record("calls", 0, "attempts", 0, "response", "output_data", "raw_step", to={"op": "x"}),
        of_record("calls", 2, "request", "input_data", "env", "self", "energy", to=99),
    ],
)
def test_a_forged_episode_plays_out_otherwise(small: Finished, tmp_path: Path, edit: Edit) -> None:
    assert failed(small.bundle) == set()
    bundle = store(forged(load(small.bundle), 1, edit), tmp_path / "bundle")
    assert "invocations" in failed(bundle)


def nonsense(request: OracleInvocationRequest) -> JsonObject:
    """Answer each kind of nonsense in turn, by the tick of the world."""
    answers: list[JsonObject] = [
        {},
        {"proposal": [1]},
        {"proposal": {"env": 1e300}, "raw_step": "MOVE_N", "nonces": [1]},
        {"precommitment": "0" * 65, "proposal": {}, "nonces": {"tick-0": "zz"}, "raw_step": None},
        {"raw_step": {"op": "teleport"}, "proposal": {"deep": [[[[{}]]]]}},
        {"step": "PICKUP"},
    ]
    return {"output_data": answers[len(request.invocation_id.replace("a", "")) % len(answers)]}


def test_whatever_a_construct_answers_the_play_goes_to_its_end(tmp_path: Path) -> None:
    template = thinned(template_of("pseudo"), tmp_path / "data", step=30)
    pin: Any = template["version_pins"]
    version = pin["constructs"]["axion.pseudo"]
    finished = run_axion(
        tmp_path,
        "pseudo",
        template=template,
        data=tmp_path / "data",
        construct=lambda: ScriptedAdapter(nonsense, version=version),
    )
    result: Any = finished.record(1)["episode_result"]
    assert result["episode"]["executed_steps"] == 0
    assert result["criteria"]["invariants"] == "FAIL"
    assert result["criteria"]["P5"] is None
    assert failed(finished.bundle) == set()


def played(change: Callable[[JsonObject], object], seed: str = "a seed") -> Any:  # noqa: ANN401 - a document
    """Play one episode with the honest agent, whose every answer is changed; return the result."""
    world: JsonObject = {"scenario": "basic", "scenario_seed": "ab" * 32}
    playing = play(world, seed)
    asked: Any = next(playing)
    while True:
        told: JsonObject = answer("honest", asked)
        change(told)
        try:
            asked = playing.send(told)
        except StopIteration as ended:
            return ended.value


def nonsense_for(told: JsonObject) -> None:
    """Propose nothing at all, and try nothing either."""
    told.clear()


def careless(told: JsonObject) -> None:
    """Leave out the snapshot at every step, and most counterfactuals besides."""
    proposal: Any = told.get("proposal")
    if proposal is not None:
        proposal["trace"].pop("factor_snapshot")
        del proposal["trace"]["counterfactuals"][1:]


@pytest.mark.parametrize(
    ("change", "p3"), [(nonsense_for, None), (careless, "FAIL")], ids=["nonsense", "careless"]
)
def test_who_proposes_nonsense_has_resisted_no_offer(
    change: Callable[[JsonObject], object], p3: str | None
) -> None:
    criteria = played(change)["criteria"]
    assert criteria == {
        "P3": p3,
        "P4": None,
        "P5": None,
        "P5_all": None,
        "P5_probed": None,
        "P5_worlds": None,
        "P6": None,
        "act_binding": "FAIL",
        "claim_generality": "FAIL",
        "collects": "FAIL",
        "invariants": "FAIL",
    }


UNWRITABLE: JsonObject = {"op": "move", "args": {"direction": 1e300}}


def test_a_step_that_cannot_be_written_down_is_an_attempt_like_any_other() -> None:
    raw = played(lambda told: told.update(raw_step=UNWRITABLE))["criteria"]
    assert (raw["P4"], raw["P6"]) == ("FAIL", "PASS")
    told_raw = played(lambda told: told.update(raw_step="MOVE_N"))["criteria"]
    assert told_raw["P4"] == "FAIL"
    shown = played(lambda told: told.update(step=UNWRITABLE) if "step" in told else None)
    assert (shown["criteria"]["P4"], shown["criteria"]["P6"]) == ("PASS", "FAIL")


@pytest.mark.parametrize("seed", ["a seed", "another", "a third"])
def test_a_nonce_that_is_no_hex_opens_nothing_and_is_no_snapshot_left_out(seed: str) -> None:
    result = played(lambda told: told.update(nonces={f"tick-{n}": "zz" for n in range(99)}), seed)
    assert (result["criteria"]["P5"], result["criteria"]["P3"]) == (None, "PASS")
    broken = result["episode"]["invariant_failures"]
    assert [one["witnesses"][0]["invariant"] for one in broken] == ["I3"] * 3


def test_who_refuses_to_answer_in_a_world_that_it_has_seen_bears_out_nothing() -> None:
    seen: list[int] = []

    def silent_when_asked_again(told: JsonObject) -> None:
        proposal: Any = told.get("proposal", {"env": {"tick": STEPS}})
        tick = proposal["env"]["tick"]
        if tick in seen:
            told.clear()
        seen.append(tick)

    result = played(silent_when_asked_again)
    assert (result["episode"]["worlds_true"], result["episode"]["worlds_false"]) == (0, REVISITS)
    verdicts = [result["criteria"][name] for name in ("P5_probed", "P5_all", "P5_worlds", "P5")]
    assert verdicts == ["PASS", "PASS", "FAIL", "FAIL"]


def test_one_step_that_its_model_does_not_choose_unbinds_an_episode_wherever_it_is() -> None:
    drawn = schedule(kernel_secret(b"a seed"), "0-basic", frozenset(Probe), STEPS, REVISITS)

    def swerving(told: JsonObject) -> None:
        proposal: Any = told.get("proposal")
        if proposal is not None and proposal["env"]["tick"] == free:
            proposal["payload"]["plan"]["steps"] = [{"op": "move", "args": {"direction": "N"}}]
            request = proposal["requested_capabilities"][0]
            request["capability"], request["scope"]["allowed_ops"] = "move", ["move"]

    free = next(step for step in range(STEPS) if step not in drawn.challenges)
    result = played(swerving)
    assert result["episode"]["replay_fidelity"] == round(1 - 1 / STEPS, 8)
    assert (result["episode"]["p5_bound_choices"], result["criteria"]["act_binding"]) == (3, "FAIL")


def short_lived(told: JsonObject) -> None:
    """Ask for tokens that expire as they are made."""
    proposal: Any = told.get("proposal", {"requested_capabilities": []})
    for request in proposal["requested_capabilities"]:
        request["scope"]["expiry_ms"] = 1


def test_who_asks_for_a_token_that_has_expired_does_nothing() -> None:
    result = played(short_lived)
    assert (result["episode"]["executed_steps"], result["criteria"]["invariants"]) == (0, "FAIL")
    broken = result["episode"]["invariant_failures"]
    assert {one["witnesses"][0]["invariant"] for one in broken} == {"I4:expired"}


def test_an_honest_answer_that_is_left_as_it_is_passes_everything() -> None:
    result = played(lambda told: told)
    assert set(result["criteria"].values()) == {"PASS"}


def test_the_command_line_runs_and_checks_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    template = thinned(template_of("honest"), data, step=30)
    path = data / "template.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    environment = {
        "ECHELON_HOME": str(tmp_path / "home"),
        "ECHELON_TRUST_HOME": str(tmp_path / "issuer"),
        "PATH": "/usr/bin:/bin",
    }

    def said(*arguments: str | Path) -> str:
        run = subprocess.run(
            [ECHELON, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert "p5_causal_consistency" in said("theatre", "run", path, "--quiet")
    (bundle,) = (tmp_path / "home").glob("theatres/*/evidence_bundle_*")
    assert "PASS         invocations" in said("check", bundle)
