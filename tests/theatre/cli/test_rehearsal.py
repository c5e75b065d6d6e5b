"""`echelon theatre run --rehearsal`: a whole run, and neither certificate nor store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.test_adversaries_command import own_theatre
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked


def rehearsed(folder: Path, *options: str | Path) -> Answer:
    """Rehearse the theatre of sums in `folder`; nothing of it may be left."""
    template = folder / "mine" / "template.json"
    answer = forked(
        *("theatre", "run", template, "--rehearsal", "--quiet", *options),
        home=folder / "home",
        more={"ECHELON_DATASET_ROOTS": str(folder / "data")},
    )
    assert not (folder / "home").exists()
    assert not list((folder / "temporary files").iterdir())
    assert not list(folder.rglob("certificate.json"))
    return answer


def write_lines(path: Path, *documents: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents), encoding="utf-8")
    return path


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """A folder with the theatre of sums, of whose 60 episodes each has another answer."""
    own_theatre(tmp_path, lambda seq: [seq, seq * seq])
    return tmp_path


def test_the_construct_is_called_and_the_scores_are_shown(sums: Path) -> None:
    answer = rehearsed(sums, "--json")
    assert (answer.code, answer.stderr) == (0, "")
    report: Any = answer.document
    assert (report["rehearsal"], report["would_be_tier"]) == (True, "BACKTESTED")
    assert report["scores"] == {"addition": 1, "composite_score": 1}
    assert (report["episode_counts"]["scored"], report["failures"]) == (60, 0)


def test_answers_of_a_file_stand_in_for_the_construct_and_can_earn_no_tier(sums: Path) -> None:
    answers = write_lines(
        sums / "answers.jsonl",
        *(
            {"episode_id": f"sum-{seq}", "output_data": {"sum": seq + seq * seq}}
            for seq in range(1, 59)
        ),
        {"episode_id": "sum-59", "status": "error", "error_detail": "cannot add"},
    )
    answer = rehearsed(sums, "--answers", answers, "--json")
    assert (answer.code, answer.stderr) == (0, "")
    report: Any = answer.document
    assert (report["would_be_tier"], report["caps"]) == ("UNVERIFIED", ["mock-adapter"])
    assert report["scores"]["addition"] == pytest.approx(58 / 60)
    assert report["first_failures"] == [
        {"episode_id": "sum-59", "status": "error", "error_detail": "cannot add"},
        {
            "episode_id": "sum-60",
            "status": "error",
            "error_detail": "expected a canned answer to this question, got none",
        },
    ]
    lines = rehearsed(sums, "--answers", answers).stdout.splitlines()
    assert lines[-1] == "a rehearsal: nothing is certified, and nothing is kept"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"output_data": {}}], "line 1: expected an episode_id"),
        ([{"episode_id": "sum-1", "score": 1}], "got a line with score"),
        ([{"episode_id": "sum-1", "construct_id": 3}], "expected construct_id to be a string"),
        ([{"episode_id": "sum-1"}] * 2, "line 2: expected one answer to sum-1, got a second"),
    ],
)
def test_a_file_of_answers_is_read_strictly(sums: Path, lines: list[Any], message: str) -> None:
    answer = rehearsed(sums, "--answers", write_lines(sums / "answers.jsonl", *lines))
    assert (answer.code, answer.stdout) == (5, "")
    assert message in answer.stderr


def test_a_mock_can_be_rehearsed_and_never_run(sums: Path) -> None:
    template = sums / "mine" / "template.json"
    document = json.loads(template.read_text(encoding="utf-8"))
    document["product_theatre_config"]["adapter_type"] = "mock"
    document["version_pins"].pop("adapter_version", None)
    write_lines(template, document)
    home = sums / "home"
    for command in (("validate",), ("run", "--quiet")):
        refused = forked("theatre", *command, template, home=home)
        assert refused.code == 5
        assert "mock-adapter-refused" in refused.stdout + refused.stderr
    assert (
        "mock-adapter-rehearsal"
        in forked("theatre", "validate", template, "--rehearsal", home=home).stdout
    )
    answers = write_lines(
        sums / "answers.jsonl", {"episode_id": "sum-1", "output_data": {"sum": 2}}
    )
    assert rehearsed(sums, "--answers", answers, "--json").document["caps"][-1] == "mock-adapter"
    needs_calls = forked("theatre", "run", template, "--answers", answers, home=home)
    assert (needs_calls.code, needs_calls.stdout) == (2, "")
