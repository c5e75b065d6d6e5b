"""`echelon ingest`, `score` and `inspect`: the steps of a verification one by one."""

import hashlib
import json
import re
import shutil
import signal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.theatre.echelon_process import ended, started, until
from tests.theatre.verification.confident_oracle import Verified
from tests.theatre.verification.oracle_scores import shipped_oracle
from tests.theatre.verification.verify_command import (
    COMMITS,
    EXTRACTIVE,
    HELD_CALL,
    REFUSING,
    arguments,
    command,
    held_oracle,
    history,
    variables,
    verify,
    write_oracle,
)
from theatre.engine.canonical_json import canonical_line, parse_object


@pytest.fixture(scope="module")
def run(confident: Verified) -> Verified:
    return confident


def ingested(folder: Path) -> Path:
    """Return a folder with ground truth, read by the command."""
    history(folder / "repo")
    data = folder / "data"
    answer = command(folder, "ingest", "--repo", folder / "repo", "--output", data, "--json")
    assert answer.code == 0
    assert answer.document["records"] == COMMITS
    return data


def test_ground_truth_is_kept_with_its_hash_and_verified_without_the_repository(
    tmp_path: Path,
) -> None:
    data = ingested(tmp_path)
    source = parse_object((data / "source.json").read_bytes())
    lines = (data / "ground_truth.jsonl").read_bytes()
    assert source["ground_truth_sha256"] == hashlib.sha256(lines).hexdigest()
    assert source["repository"] == "local-clone"
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    answer = command(
        tmp_path,
        *("verify", "--data", data, "--construct", EXTRACTIVE),
        *("--min-replays", "1", "--json"),
    )
    assert (answer.code, answer.document["replay_count"]) == (0, COMMITS)


def test_ground_truth_that_was_changed_is_refused(tmp_path: Path) -> None:
    data = ingested(tmp_path)
    kept = data / "dataset.jsonl"
    kept.write_bytes(kept.read_bytes().replace(b"Change 3", b"Change 9"))
    answer = command(tmp_path, "verify", "--data", data, "--dry-run", "--json")
    assert (answer.code, answer.document["error"]["code"]) == (5, "repository-unreadable")


def test_answers_without_a_commitment_get_a_report_and_no_certificate(tmp_path: Path) -> None:
    data = ingested(tmp_path)
    oracle = shipped_oracle("extractive")
    episodes = [parse_object(x) for x in (data / "dataset.jsonl").read_bytes().splitlines()]
    answers = [
        {"ground_truth_id": one["episode_id"], "output": oracle(dict(one["input_data"]))}  # type: ignore[arg-type]  # JSON
        for one in episodes[1:]
    ]
    answers[-1]["output"] = {"summary": "no claims, no reply"}
    (data / "answers.jsonl").write_bytes(b"".join(canonical_line(x) for x in answers))
    target = tmp_path / "report.json"
    answer = command(tmp_path, "score", "--data", data, "--output", target, "--json")
    report = answer.document
    assert (answer.code, report["is_certificate"]) == (0, False)
    assert report["why"] == "no commitment was made before these answers"
    # Of five answers four are right, and one is none; the sixth change was never answered.
    assert (report["changes"], report["replay_count"]) == (COMMITS, COMMITS - 2)
    assert report["scores"] == {"precision": 0.8, "recall": 0.8, "reply_accuracy": 0.8}
    assert report["composite_score"] == 0.8
    assert [one["outcome"] for one in report["individual_scores"]] == ["scored"] * 4 + ["missing"]
    assert parse_object(target.read_bytes()) == report
    shown = command(tmp_path, "inspect", target, "--json")
    assert (shown.code, shown.document["error"]["code"]) == (5, "no-verification")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"ground_truth_id": "x"}\n', "expected ground_truth_id and output in line 1"),
        (b"[]\n", "line 1 of the answers"),
        (b'{"ground_truth_id": "x", "output": {}}\n' * 2, "another in line 2"),
    ],
)
def test_answers_of_another_form_are_refused_by_line(
    tmp_path: Path, line: bytes, message: str
) -> None:
    data = ingested(tmp_path)
    (data / "answers.jsonl").write_bytes(line)
    answer = command(tmp_path, "score", "--data", data, "--output", tmp_path / "r", "--json")
    assert (answer.code, message in answer.document["error"]["message"]) == (5, True)


@pytest.mark.parametrize("place", ["kept", "theatre", "bundle"])
def test_a_sealed_run_is_scored_again_to_the_same_certificate(
    run: Verified, tmp_path: Path, place: str
) -> None:
    folder = {"kept": run.folder / "kept", "theatre": run.bundle.parent, "bundle": run.bundle}
    target = tmp_path / "certificate.json"
    answer = command(run.folder, "score", "--data", folder[place], "--output", target)
    assert (answer.code, target.read_bytes()) == (0, run.certificate_file.read_bytes())
    assert f"written      {target}" in answer.stdout


def test_a_forged_answer_gets_neither_report_nor_certificate(run: Verified, tmp_path: Path) -> None:
    bundle = shutil.copytree(run.bundle, tmp_path / "bundle")
    forged = bundle / "invocations" / "episode_000001.json"
    forged.write_bytes(forged.read_bytes().replace(b'"status":"success"', b'"status":"refused"'))
    target = tmp_path / "certificate.json"
    scored = command(tmp_path, "score", "--data", bundle, "--output", target)
    assert (scored.code, target.exists(), "not valid (" in scored.stdout) == (10, False, True)


def test_a_run_that_was_too_short_gets_a_report(tmp_path: Path) -> None:
    refusing = write_oracle(tmp_path, REFUSING)
    answer = verify(tmp_path, "--output", str(tmp_path / "kept"), construct=refusing)
    assert (answer.code, answer.document["replay_count"]) == (8, 3)
    assert answer.document["episode_counts"]["refused"] == 3
    assert "this is no verification" in answer.stderr
    assert not (tmp_path / "kept" / "verification_certificate.json").exists()
    target = tmp_path / "report.json"
    scored = command(tmp_path, "score", "--data", tmp_path / "kept", "--output", target, "--json")
    assert (scored.code, scored.document["is_certificate"]) == (8, False)
    assert scored.document["scores"] == answer.document["scores"]
    assert scored.document["replay_count"] == 3


def test_an_unfinished_run_gets_a_report_of_what_is_in(tmp_path: Path) -> None:
    construct, door = held_oracle(tmp_path)
    given = arguments(tmp_path, "--output", str(tmp_path / "kept"), construct=construct)
    with started(*given, home=tmp_path / "home", more=variables(tmp_path)) as process:
        until(lambda: len(door.calls) == HELD_CALL, "a call that waits")
        process.send_signal(signal.SIGINT)
        ended(process)
    target = tmp_path / "report.json"
    scored = command(tmp_path, "score", "--data", tmp_path / "kept", "--output", target, "--json")
    assert (scored.code, scored.document["is_certificate"]) == (8, False)
    assert (scored.document["replay_count"], scored.document["changes"]) == (3, COMMITS)
    assert "echelon verify --resume" in scored.document["why"]


def test_a_folder_without_answers_is_not_found(tmp_path: Path) -> None:
    answer = command(
        tmp_path, "score", "--data", tmp_path, "--output", tmp_path / "r.json", "--json"
    )
    assert (answer.code, answer.document["error"]["code"]) == (3, "not-found")


def findings_in(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if line.startswith("finding")]


def test_a_certificate_is_shown_with_intervals_and_drawn(run: Verified, tmp_path: Path) -> None:
    shown = command(run.folder, "inspect", run.certificate_file, "--plot", tmp_path / "plots")
    certificate = run.certificate
    interval = certificate["score_intervals"]["precision"]
    row = next(line for line in shown.stdout.splitlines() if line.startswith("precision"))
    assert f"{certificate['precision']:.3f}" in row
    assert f"{interval['low']:.3f} … {interval['high']:.3f}" in row
    # 38 answered, of which one claimed nothing; one failed.
    assert row.split()[-2:] == ["37", "1"]
    assert f"Brier {certificate['brier']:.3f}" in shown.stdout
    assert "  precision: share of claims whose words occur in the change\n" in shown.stdout
    assert certificate["theatre_certificate"]["sha256"] in shown.stdout
    assert [f"finding      {code}" for code in certificate["findings"]] == findings_in(shown.stdout)
    picture = tmp_path / "plots" / "reliability.svg"
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314  # our own picture
    words = picture.read_text(encoding="utf-8")
    assert f"n = {certificate['claim_calibration']['stated']} claims" in words


def test_the_certificate_of_a_theatre_is_shown_too(run: Verified) -> None:
    theirs = run.bundle / "certificate.json"
    shown = command(run.folder, "inspect", theirs)
    assert (shown.code, "composite" in shown.stdout) == (0, True)
    stated = json.loads(theirs.read_bytes())["findings"]
    assert stated
    assert [f"finding      {code}" for code in stated] == findings_in(shown.stdout)
    undrawable = command(run.folder, "inspect", theirs, "--plot", run.folder / "p", "--json")
    assert (undrawable.code, "--plot" in undrawable.document["error"]["message"]) == (2, True)


def test_what_is_no_certificate_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"schema_version": "1.0.0"}), encoding="utf-8")
    answer = command(tmp_path, "inspect", tmp_path / "c.json", "--json")
    message = answer.document["error"]["message"]
    assert (answer.code, "certificate_id" in message) == (5, True)
    assert re.search(r"; and \d+ more$", message), message
