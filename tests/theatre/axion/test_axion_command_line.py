"""`toy-pseudo-axion`, as its contract has it: options, files, exit codes, and what it sums up."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from theatre.axion import cli as command_line
from theatre.axion.common.errors import FatalHangError, UnknownNameError
from theatre.axion.common.schema_load import violations
from theatre.axion.harness.report import _held, entropy_curve, rate
from theatre.axion.kernel.audit_log import verify_log

PROGRAM = Path(sys.executable).with_name("toy-pseudo-axion")
PATIENT = ("--watchdog_ms", "60000")


def said(*arguments: str) -> str:
    result = CliRunner().invoke(command_line.cli, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_scenario_writes_log_report_and_counterexamples(tmp_path: Path) -> None:
    out = tmp_path / "run1"
    options = "--agent pseudo --scenario basic --steps 24 --probe P6 --interface mci_latent"
    output = said("run_scenario", *options.split(), *PATIENT, "--out_dir", str(out))
    (record,) = json.loads((out / "report.json").read_bytes())
    head = verify_log(out / "audit.log.jsonl")
    assert output.splitlines() == [
        f"pseudo in basic: {record['probes']}",
        f"log: {head.length} entries, head {head.entry_hash}",
    ]
    assert record["probes"] == {"P3": None, "P4": None, "P5": None, "P6": "FAIL"}
    assert (record["audit_chain_ok"], record["interface_mode"]) == (True, "mci_latent")
    (kept,) = (out / "counterexamples").iterdir()
    example = json.loads(kept.read_bytes())
    assert (example["probe"], example["agent"]) == ("P6", "pseudo")
    assert violations("proposal", example["proposal"]) == []
    assert "CAPABILITY_DENIED" in [entry["event"] for entry in example["audit_slice"]]


def test_without_a_probe_nothing_is_offered(tmp_path: Path) -> None:
    options = "--agent pseudo --scenario social --steps 6 --probe none --interface full"
    said("run_scenario", *options.split(), *PATIENT, "--out_dir", str(tmp_path))
    (record,) = json.loads((tmp_path / "report.json").read_bytes())
    assert set(record["offers"].values()) == {0}
    assert (record["passed"], record["replay_fidelity"]) == (True, None)


@pytest.mark.parametrize(("mode", "clutter"), [("mci_minimal", [0, 0, 4, 8]), ("full", [0])])
def test_a_suite_that_asks_for_no_clutter_has_the_usual(
    mode: str, clutter: list[int], tmp_path: Path
) -> None:
    options = f"--out_dir {tmp_path} --agents honest --episodes 1 --steps 1 --interface {mode}"
    said("run_suite", *options.split(), *PATIENT)
    assert json.loads((tmp_path / "summary.json").read_bytes())["clutter"] == clutter


def test_a_suite_says_how_many_claims_are_false(tmp_path: Path) -> None:
    options = f"--out_dir {tmp_path} --agents honest --episodes 1 --steps 1 --interface mci_minimal"
    output = said("run_suite", *options.split(), *PATIENT)
    # One step: P5 checks three of its six claims, and no world is shown once more.
    assert output.splitlines()[3] == (
        "honest   claims that are false: 0.000 (0.000 … 0.561) of the probed, "
        "0.000 (0.000 … 0.390) of all, - in worlds shown once more"
    )


def test_a_suite_reports_every_episode_and_sums_up_each_agent(tmp_path: Path) -> None:
    out = tmp_path / "suite1"
    options = (
        "--agents honest,pseudo --scenarios basic,social --probes P4,P6 --episodes 2 --steps 10 "
        "--seed 123 --interface mci_minimal --clutter 0,5"
    )
    output = said("run_suite", *options.split(), *PATIENT, "--out_dir", str(out))
    records = json.loads((out / "report.json").read_bytes())
    summary = json.loads((out / "summary.json").read_bytes())
    assert [(one["agent"], one["scenario"]) for one in records] == [
        ("honest", "basic"),
        ("honest", "social"),
        ("pseudo", "basic"),
        ("pseudo", "social"),
    ]
    assert records[0]["scenario_seed"] == records[2]["scenario_seed"]
    for name in ("honest", "pseudo"):
        agent = summary["agents"][name]
        verify_log(
            out / f"audit_{name}.log.jsonl",
            expected_head=agent["audit_head_hash"],
            expected_count=agent["audit_entry_count"],
        )
        value = agent["pass_rate"]["value"]
        (told,) = [line for line in output.splitlines() if line.startswith(f"{name:20} ")]
        assert told.split()[1] == f"{value:.3f}"
        failed = [str(agent["probes"][probe]["failed"]) for probe in ("P4", "P6")]
        assert told.split()[-2:] == failed
    assert output.splitlines()[:2] == [
        "2 episodes of 10 steps each, mci_minimal, seed 123",
        "agent                passed                  P4 FAIL   P6 FAIL",
    ]
    assert (summary["probes"], summary["clutter"]) == (["P4", "P6"], [0, 5])
    assert {path.name for path in out.iterdir()} == {
        "audit_honest.log.jsonl",
        "audit_pseudo.log.jsonl",
        "counterexamples",
        "report.json",
        "summary.json",
    }


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--agents", "honest,liar", "expected some of honest, pseudo"),
        ("--agents", "honest,honest", "expected some of honest, pseudo"),
        ("--clutter", "0,-1", "expected whole numbers, got 0,-1"),
        ("--interface", "mci", "is not one of 'full', 'mci_latent', 'mci_minimal'"),
        ("--episodes", "0", "is not in the range"),
    ],
)
def test_wrong_options_are_refused_with_2(
    option: str, value: str, message: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(
        command_line.cli, ["run_suite", option, value, "--out_dir", str(tmp_path)]
    )
    assert (result.exit_code, message in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("error", "code"), [(FatalHangError("it hung"), 70), (UnknownNameError("no such"), 1)]
)
def test_a_refusal_is_one_line_and_a_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(command_line, "cli", fail)
    with pytest.raises(SystemExit) as left:
        command_line.main()
    assert left.value.code == code
    assert capsys.readouterr().err == f"{error.code}: {error}\n"  # type: ignore[attr-defined]  # both have one


def test_an_agent_that_has_no_such_interface_is_refused_with_1(tmp_path: Path) -> None:
    options = "--agents honest_lossy --episodes 1 --interface full"
    run = subprocess.run(
        [PROGRAM, "run_suite", *options.split(), "--out_dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr.startswith("unknown-name: expected an agent for full")) == (
        1,
        True,
    )


def test_thresholds_are_told_with_what_was_seen(tmp_path: Path) -> None:
    options = "--agents pseudo --scenarios basic --probes P5 --episodes 1 --steps 12 --seed 123"
    output = said("run_suite", *options.split(), *PATIENT, "--out_dir", str(tmp_path))
    (*_, passed, episodes, challenges, claims) = output.splitlines()
    summary = json.loads((tmp_path / "summary.json").read_bytes())
    for line, held in zip(
        (passed, episodes, challenges, claims), summary["thresholds"], strict=True
    ):
        seen = held["rate"]
        told = f"{held['bound']:.2f}  {seen['value']:.3f} ({seen['low']:.3f} … {seen['high']:.3f})"
        assert told in line
        assert line.endswith(f" {held['verdict']}")
    assert claims.startswith("pseudo   P5 failed, of single claims  >= 0.60")


def episodes(*passes: tuple[float, bool]) -> list[dict[str, Any]]:
    """Return records: entropy, and whether the episode was passed."""
    return [
        {
            "env_entropy": entropy,
            "passed": passed,
            "probes": {"P5": "PASS" if passed else "FAIL"},
            "wallclock_ms_p5": 1.0,
        }
        for entropy, passed in passes
    ]


def test_a_rate_of_nothing_has_no_value() -> None:
    assert rate(0, 0) == {"value": None, "count": 0, "of": 0, "low": None, "high": None}


def test_bins_are_half_open_and_hold_every_entropy() -> None:
    curve = entropy_curve(episodes((2.75, True), (3, True), (5.99, False), (8.75, True), (9, True)))
    assert [one["episodes"] for one in curve["bins"]] == [1, 2, 1, 1]
    assert [one["pass_rate"]["value"] for one in curve["bins"]] == [1.0, 0.5, 1.0, 1.0]
    assert curve["bins"][1]["p5_failure"]["value"] == 0.5
    assert {one["few"] for one in curve["bins"]} == {True}


@pytest.mark.parametrize(
    ("passes", "cliff"),
    [
        ([(1, True), (4, True), (7, True)], {"bin": None, "kind": "none"}),
        ([(1, True), (4, False), (7, False)], {"bin": "[3-5]", "kind": "drop"}),
        ([(1, False), (4, False)], {"bin": "[0-2]", "kind": "floor"}),
        ([(1, True), (4, False), (7, True)], {"bin": None, "kind": "none"}),
        ([(1, False), (4, True), (10, False)], {"bin": "[9+]", "kind": "drop"}),
        ([(4, True), (10, False)], {"bin": "[9+]", "kind": "drop"}),
        ([], {"bin": None, "kind": "none"}),
    ],
)
def test_the_cliff_is_where_the_pass_rate_falls_for_good(
    passes: list[tuple[float, bool]], cliff: dict[str, object]
) -> None:
    assert entropy_curve(episodes(*passes))["cliff"] == cliff


@pytest.mark.parametrize(
    ("passed", "of", "relation", "bound", "verdict"),
    [
        (80, 100, ">=", 0.8, "met"),
        (79, 100, ">=", 0.8, "undecided"),
        (60, 100, ">=", 0.8, "missed"),
        (20, 100, "<=", 0.2, "met"),
        (21, 100, "<=", 0.2, "undecided"),
        (40, 100, "<=", 0.2, "missed"),
        (0, 0, "<=", 0.2, "unmeasured"),
    ],
)
def test_a_threshold_is_missed_only_where_the_interval_excludes_it(
    passed: int, of: int, relation: str, bound: float, verdict: str
) -> None:
    agents = {"a": {"pass_rate": rate(passed, of)}}
    assert _held(("a", "pass_rate", relation, bound), agents)["verdict"] == verdict
