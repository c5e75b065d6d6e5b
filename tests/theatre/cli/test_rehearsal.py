"""`echelon theatre run --rehearsal`: a whole run, and neither certificate nor store."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.test_adversaries_command import own_theatre
from tests.theatre.echelon_process import Answer, ended, started, until
from tests.theatre.forked_echelon import forked
from theatre.oracles.construct_registry import ConstructRegistry, construct_version


def rehearsed(folder: Path, *options: str | Path) -> Answer:
    """Rehearse the theatre of sums in `folder`; nothing of it may be left, nor logged."""
    return left_nothing(folder, "theatre", "run", TEMPLATE, "--rehearsal", "--quiet", *options)


def left_nothing(folder: Path, *command: str | Path) -> Answer:
    """Return what a command says of the template, if it leaves nothing."""
    answer = forked(
        *(folder / one if one == TEMPLATE else one for one in command),
        home=folder / "home",
        more={"ECHELON_DATASET_ROOTS": str(folder / "data")},
    )
    assert not (folder / "home").exists()
    assert not (folder / "issuer").exists()
    assert not list((folder / "temporary files").iterdir())
    assert not list(folder.rglob("certificate.json"))
    return answer


TEMPLATE = Path("mine", "template.json")


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
    assert report["findings"] == ["within-item-variance-unknown"]
    assert report["scores"] == {"addition": 1, "composite_score": 1}
    assert (report["episode_counts"]["scored"], report["failures"]) == (60, 0)


def test_a_rehearsal_is_the_pilot_of_a_plan_that_names_none(sums: Path) -> None:
    answer = left_nothing(sums, "plan", TEMPLATE, "--width", "0.2", "--json")
    assert answer.code == 0, answer.stderr
    document: Any = answer.document
    pilot = document["pilot"]
    assert (pilot["theatre_id"], pilot["items"], pilot["repeats"]) == (None, 60, 1)
    best = document["fewest_answers"]
    assert (best["repeats"], best["calls"], best["judge_calls"]) == (1, best["items"], 0)
    assert best["expected_width"] <= 0.2


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
    found = [line.split()[1] for line in lines if line.startswith("finding")]
    assert found == ["within-item-variance-unknown"]
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


def test_what_a_killed_rehearsal_left_is_held_to_the_same_refusal(tmp_path: Path) -> None:
    """A liar lists the answers, kills his rehearsal, and runs its store on to a certificate."""
    template = own_theatre(tmp_path, lambda seq: [seq, seq * seq])
    mine = tmp_path / "mine"
    shutil.copyfile(tmp_path / "data" / "sums.jsonl", mine / "answers.jsonl")
    registry = mine / "constructs.toml"
    for path, old, new in (
        (mine / "sums.py", 'if do == "hang":', 'if request["input_data"]["numbers"][0] > 30:'),
        (registry, '["sums.py"]', '["sums.py", "answers.jsonl"]'),
    ):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    document = json.loads(template.read_text(encoding="utf-8"))
    version = construct_version(ConstructRegistry.load(registry).find("sums"))
    document["version_pins"]["constructs"] = {"sums": version}
    write_lines(template, document)
    more = {"ECHELON_DATASET_ROOTS": str(tmp_path / "data")}
    arguments = ("theatre", "run", template, "--rehearsal", "--quiet")
    with started(*arguments, home=tmp_path / "home", more=more) as rehearsal:
        journal = until(lambda: _journal_below(tmp_path), "a batch")
        rehearsal.kill()
        ended(rehearsal)
    theatre = journal.parent
    answer = forked(
        *("theatre", "run", theatre.name, "--quiet"), home=theatre.parents[1], more=more
    )
    assert (answer.code, "dataset-copy" in answer.stderr) == (5, True), answer.stderr


def _journal_below(folder: Path) -> Path | None:
    # Folders of constructs come and go while they are looked through.
    with contextlib.suppress(FileNotFoundError):
        return next(filter(_has_lines, folder.rglob("journal.jsonl")), None)
    return None


def _has_lines(journal: Path) -> bool:
    return journal.stat().st_size > 0
