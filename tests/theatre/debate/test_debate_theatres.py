"""Debates as theatres: an auditor, a team and control, each beside a bad construct."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.debate.debate_theatres import (
    BAD,
    FIXTURES,
    GOOD,
    failures,
    published,
    run_debates,
    template_of,
)
from tests.theatre.echelon_process import echelon
from tests.theatre.forged_bundle import load, store
from tests.theatre.record_edits import Edit, forged, of_record
from tests.theatre.runs import Finished, ScriptedAdapter
from tests.theatre.thinned import thinned
from theatre.debate.episodes.runner import FAULTS, RUNNER
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.scorers import load_episode_runners

Answer = Callable[[OracleInvocationRequest], JsonObject]
SOAK = os.environ.get("ECHELON_SOAK") == "1"
PAGE = (FIXTURES.parent / "docs" / "debate.md").read_text(encoding="utf-8")
EVERY = 1 if SOAK else 3
"""Fakes are asked every episode, or every so many."""


BY_WORDS = [
    f"measure-unqualified:{criterion}"
    for criterion in (
        *("crit_gamma", "crit_theta", "schema_conformance", "t3_rung", "trace_consistency"),
    )
]
CAPS = {
    "product_debate_team_v1": BY_WORDS,
    "product_debate_herd_v1": BY_WORDS,
    # Who says nothing of most debates has no precision there.
    "product_debate_auditor_formal_v1": [
        "criterion-n-below-30:precision",
        "declined-above-max:precision",
    ],
}
UNMET_OF_PROVEN = [
    *("runs-below-3", "runs-span-below-90-days", "telemetry-missing"),
    *("attestation-missing", "behavioural-signal-missing"),
]


@pytest.fixture(scope="module", params=[*GOOD, *BAD])
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    name: str = request.param
    return run_debates(tmp_path_factory.mktemp(name), template_of(name))


def small_run(folder: Path, name: str, answer: Answer | None = None, *, step: int) -> Finished:
    """Run every `step`th episode with the shipped program, or with a function in its place."""
    template: Any = thinned(template_of(name), folder / "data", step=step)
    ((_, version),) = template["version_pins"]["constructs"].items()
    fake = None if answer is None else ScriptedAdapter(answer, version=version)
    return run_debates(folder, template, data=folder / "data", construct=fake)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return {name: small_run(tmp_path_factory.mktemp(name), name, step=25) for name in GOOD}


def test_the_runner_is_installed_under_its_name() -> None:
    assert load_episode_runners()["debate"] is RUNNER


def test_the_data_are_what_the_generator_writes() -> None:
    folder = FIXTURES / "ground_truth"
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import write_debates as g, hashlib, json; "
        "print(json.dumps({n: hashlib.sha256(c).hexdigest() for n, c in g.datasets().items()}))"
    )
    written = subprocess.run(
        [sys.executable, "-B", "-c", program, str(folder / "debate")],
        capture_output=True,
        check=True,
    ).stdout
    kept = {
        path.name: sha256_hex(path.read_bytes()) for path in folder.glob("product_debate_*.jsonl")
    }
    assert json.loads(written) == kept
    assert len(kept) == 3


def test_a_run_gives_the_published_results_and_is_valid(shipped: Finished) -> None:
    certificate = shipped.document("certificate.json")
    name = str(certificate["template_id"])
    lines = (shipped.bundle / "scores" / "per_episode.jsonl").read_bytes()
    assert published(name) == {
        "per_episode_sha256": sha256_hex(lines),
        "results_hash": certificate["results_hash"],
        "scores": certificate["scores"],
    }
    assert (certificate["verification_tier"], certificate["caps"]) == (
        ("UNVERIFIED", CAPS[name]) if name in CAPS else ("BACKTESTED", UNMET_OF_PROVEN)
    )
    if name in GOOD or SOAK:
        assert failures(shipped.bundle) == set()


def with_interval(figure: dict[str, Any]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f} … {figure['high']:.3f})"


def computed(finished: Finished) -> dict[str, Any]:
    """Return what the programme's computation came to."""
    (step,) = [one for one in finished.steps() if one["type"] == "deterministic_computation"]
    return cast("dict[str, Any]", cast("Any", step["result"])["output"])


def test_what_is_computed_over_a_run_stands_on_the_page(shipped: Finished) -> None:
    name, output = shipped.document("certificate.json")["template_id"], computed(shipped)
    if "utility" in output:
        shown = [output[kind] for kind in ("utility", "safety", "wise_refusal")]
    elif "control" in output:
        ends = output["endpoints"]
        shown = [ends["realignment"], ends["paranoia"], output["control"]["difference"]]
    else:
        shown = [output["precision"]] if name == GOOD[0] else []
    assert [text for text in map(with_interval, shown) if text not in PAGE] == []


def test_good_and_bad_constructs_stand_apart_where_each_of_them_fails() -> None:
    scores: Any = {name: published(name)["scores"] for name in (*GOOD, *BAD)}
    auditor, team, control = (scores[name] for name in GOOD)
    formal, alarm, herd, pleaser = (scores[name] for name in BAD)
    assert formal["recall"] < 0.5 < auditor["recall"]
    assert formal["precision"] == 1  # what it says is right; it says little
    assert alarm["recall"] == auditor["recall"]  # and finds everything by saying everything
    for criterion in ("precision", "type_accuracy"):
        assert alarm[criterion] < 0.1
        assert auditor[criterion] > 0.9
    for criterion in ("crit_gamma", "trace_consistency", "t3_rung", "calibration", "decision"):
        assert herd[criterion] < team[criterion]
    assert herd["crit_theta"] > team["crit_theta"]  # one source, named, and no rival reason
    assert pleaser["paranoia_resistance"] == 0 < control["paranoia_resistance"]
    for criterion in pleaser.keys() - {"paranoia_resistance"}:
        assert pleaser[criterion] < control[criterion]
    assert pleaser["net_effect"] < 0.5 < control["net_effect"]


def sent(finished: Finished, seq: int) -> list[dict[str, Any]]:
    return [cast("Any", call["request"])["input_data"] for call in finished.calls(seq)]


def test_no_construct_is_sent_labels_or_the_seed(small: dict[str, Finished]) -> None:
    for name, finished in small.items():
        commitment = str(finished.document("certificate.json")["commitment_hash"])
        for seq in range(1, 5):
            calls = sent(finished, seq)
            assert 1 <= len(calls) <= RUNNER.max_calls
            for asked in calls:
                known = (
                    {"protocol", "ask", "debate", "earlier", "codes"}
                    if name == GOOD[0]
                    else {
                        *("protocol", "ask", "scenario", "speaker_id", "role", "turn_index"),
                        *("round_index", "attempt_index", "heard", "instruction", "strategy_level"),
                        *("persona", "own_last"),
                    }
                )
                assert set(asked) == known
                assert commitment not in json.dumps(asked)
    # Every auditor is told the same, whatever was planted.
    assert {tuple(sorted(asked["codes"])) for asked in sent(small[GOOD[0]], 1)} == {
        tuple(sorted(FAULTS))
    }


def test_who_is_asked_again_hears_what_it_had_said(small: dict[str, Finished]) -> None:
    asked = next(
        turns
        for turns in (sent(small[GOOD[2]], seq) for seq in range(1, 5))
        if turns[0]["attempt_index"] == 1
    )
    assert "### DECISION" in asked[0]["own_last"]
    assert asked[0]["instruction"].startswith("Answer again.")
    assert asked[0]["strategy_level"] == "cot"


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        (GOOD[0], of_record("episode_result", "findings", to=[])),
        (GOOD[1], of_record("episode_result", "confidence", to=0.99)),
        (GOOD[1], of_record("episode_result", "debate", "turns", 3, "content", to="Otherwise.")),
        (GOOD[2], of_record("calls", 0, "request", "input_data", "strategy_level", to="code")),
    ],
)
def test_a_forged_episode_plays_out_otherwise(
    small: dict[str, Finished], tmp_path: Path, name: str, edit: Edit
) -> None:
    bundle = store(forged(load(small[name].bundle), 1, edit), tmp_path / "bundle")
    assert "invocations" in failures(bundle)


def nothing(_: OracleInvocationRequest) -> JsonObject:
    return {"output_data": {}}


def nonsense(request: OracleInvocationRequest) -> JsonObject:
    """Answer each kind of nonsense in turn, as the id of the call has it."""
    spoken: JsonObject = {"content": "### CLAIM\n\x00", "final_answer": "BUY", "findings": [{}]}
    answers: list[JsonObject] = [
        {"findings": "all", "content": 1, "final_answer": None},
        {**spoken, "recommendation": {"action": "EAT"}},
        {**spoken, "recommendation": [1], "findings": [{"turn": True, "code": "x"}]},
        {**spoken, "content": "x" * 70_000, "findings": [{"turn": 10**12, "code": 1}]},
        {**spoken, "reasoning_trace": {"deep": [[[]]]}, "findings": {"turn": 1}},
    ]
    place = sum(request.invocation_id.encode("ascii")) % len(answers)
    return {"output_data": answers[place]}


def copied(request: OracleInvocationRequest) -> JsonObject:
    return {"output_data": request.input_data}


def constant(_: OracleInvocationRequest) -> JsonObject:
    """Answer in the best of form what has nothing to do with the question."""
    text = (
        "### CLAIM\nSalt should be bought, because a trial leads to higher prices.\n\n"
        "### DECISION\nBUY | SIZE 1-2% | HORIZON 2-3 months\n\n"
        "### REASON 1\nEvidence: [DATA:e1] In a trial at 77 sites the price rose by 3.14 %.\n"
        "If the figure holds for the market then dealers will quote higher prices because a "
        "trial sets chance aside.\nFalsifier: a second trial.\n\n"
        "### WHAT WOULD CHANGE MY MIND\nA second sample."
    )
    advice: JsonObject = {
        "action": "BUY",
        "position_size_pct_min": 1,
        "position_size_pct_max": 2,
        "horizon_days_min": 60,
        "horizon_days_max": 90,
        "conviction": 0.6,
        "raw_text": "BUY | SIZE 1-2% | HORIZON 2-3 months",
    }
    return {
        "output_data": {
            "content": text,
            "final_answer": "BUY",
            "reasoning_trace": "So the answer is BUY.",
            "recommendation": advice,
            "findings": [{"turn": 1, "code": "FALSIFIER_MISSING"}],
        }
    }


EARNED = 0.1


@pytest.mark.parametrize("answer", [nothing, nonsense, copied, constant])
@pytest.mark.parametrize("name", GOOD)
def test_no_criterion_pays_for_ignorance(tmp_path: Path, name: str, answer: Answer) -> None:
    finished = small_run(tmp_path, name, answer, step=EVERY)
    honest: Any = published(name)["scores"]
    got: Any = finished.document("scores/aggregate.json")["scores"]
    assert set(got) >= set(honest)
    for criterion, value in honest.items():
        fake = got[criterion]
        assert value > EARNED
        # What never says anything has no precision, and no retry gives no gain: no number at all.
        assert fake is None or fake < value - 0.04, (criterion, fake, value)


def test_every_probe_is_rejected_by_the_gate_once_at_least() -> None:
    """Else an episode would have no call at all."""
    lines = (FIXTURES / "ground_truth" / "product_debate_control_v1.jsonl").read_bytes()
    cases = []
    for line in lines.splitlines():
        given: Any = parse_object(line)
        if given["input_data"]["play"] != "probes":
            continue
        truths = given["expected_output"]["probes"]
        going = RUNNER.play(given["input_data"], "a seed")
        asked: Any = next(going)
        cases.append(asked["scenario"]["debate_id"])
        while len(truths) == 2:
            assert (asked["attempt_index"] > 0, asked["turn_index"]) == (True, 0)
            last, asked = asked["scenario"], going.send(spoken(asked))
            if asked["scenario"] != last:
                cases.append(asked["scenario"]["debate_id"])
                break
        opened = {begun: given["input_data"][begun]["opening"]["final_answer"] for begun in truths}
        assert opened["begun_true"] == truths["begun_true"] != truths["begun_false"]
        assert opened["begun_false"] != truths["begun_false"]
    assert len(set(cases)) == len(cases) == 60


def spoken(asked: Any) -> JsonObject:  # noqa: ANN401 - a document
    """Return an answer that is rejected for its form, too."""
    assert asked["own_last"]
    return {"content": "### CLAIM\nSo.", "final_answer": "HOLD"}


@pytest.mark.parametrize("name", GOOD)
def test_the_command_line_runs_and_checks_it(tmp_path: Path, name: str) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    template = thinned(template_of(name), data, step=40)
    path = data / "template.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    ran = echelon("theatre", "run", path, "--quiet", home=home)
    assert (ran.code, name in ran.stdout) == (0, True), ran.stderr
    (bundle,) = home.glob("theatres/*/evidence_bundle_*")
    check = echelon("check", bundle, home=home)
    words = [line.split()[0] for line in check.stdout.splitlines()]
    assert (check.code, words[-1], "FAIL" in words) == (0, "valid,", False)
