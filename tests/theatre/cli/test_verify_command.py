"""`echelon verify`: from a repository to a checked certificate, stopped and gone on with."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.theatre.cli.doubler import PIN
from tests.theatre.echelon_process import ended, started, until
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, envelope, response, serving
from tests.theatre.verification.verify_command import (
    COMMITS,
    HELD_CALL,
    arguments,
    held_oracle,
    history,
    variables,
    verify,
    write_oracle,
)


def test_a_callable_is_verified_and_certified_and_the_bundle_checks(tmp_path: Path) -> None:
    kept = ("--output", str(tmp_path / "kept"))
    construct = write_oracle(tmp_path, "pass")
    by_default = verify(tmp_path, *kept, construct=construct)
    by_name = verify(tmp_path, *kept, "--judge", "lexical", construct=construct)
    first, again = by_default.document, by_name.document
    # Without a key the words score, and say so.
    assert "ANTHROPIC_API_KEY is not set" in by_default.stderr
    assert "ANTHROPIC_API_KEY" not in by_name.stderr
    assert (first["outcome"], first["check"]["verdict"]) == ("certified", "valid, logged")
    assert (first["replay_count"], first["scores"]["precision"]) == (COMMITS, 1)
    assert first["scores"] == {"precision": 1, "recall": 0.833333333, "reply_accuracy": 0.5}
    assert again["theatre_id"] != first["theatre_id"]
    for name in ("results_hash", "commitment_hash"):
        assert again[name] == first[name]
    template = json.loads((tmp_path / "kept" / "template.json").read_bytes())
    assert template["theatre_id"] == "community_oracle_v1"
    assert template["version_pins"]["scorer_version"] == "lexical@2"
    assert template["product_theatre_config"]["disclosure"] == "hashes"
    assert str(tmp_path) not in json.dumps(template)


def test_a_registered_oracle_is_verified_with_committed_weights(tmp_path: Path) -> None:
    answer = verify(
        tmp_path,
        "--weights=precision=2,recall=1,reply_accuracy=1",
        "--output",
        str(tmp_path / "kept"),
        construct="construct:change_omitting",
    )
    assert (answer.code, answer.document["check"]["verdict"]) == (0, "valid, logged")
    template = json.loads((tmp_path / "kept" / "template.json").read_bytes())
    assert template["criteria"]["weights"] == {
        "precision": 0.5,
        "recall": 0.25,
        "reply_accuracy": 0.25,
    }
    assert list(template["version_pins"]["constructs"]) == ["change_omitting"]


def test_a_service_is_asked_for_its_version_before_the_commitment(tmp_path: Path) -> None:
    async def oracle(request: Received, writer: asyncio.StreamWriter) -> None:
        output = {"summary": "", "key_claims": ["1 file."], "follow_up_response": "1"}
        answer = envelope(request, construct_version=PIN, output_data=output)
        writer.write(response(answer))

    with serving(oracle) as server:
        answer = verify(tmp_path, "--quiet", construct=server.url)
        asked = [received.envelope["episode_id"] for received in server.received]
    assert (answer.code, answer.document["scores"]["precision"]) == (0, 1)
    assert (asked[0], len(asked)) == ("probe", 1 + COMMITS)


def test_a_dry_run_keeps_the_ground_truth_and_calls_nobody(tmp_path: Path) -> None:
    history(tmp_path / "repo")
    answer = forked(
        "verify", "--repo", tmp_path / "repo", "--dry-run", "--json", home=tmp_path / "home"
    )
    kept = Path(answer.document["folder"])
    assert (answer.code, answer.document["records"]) == (0, COMMITS)
    assert sorted(path.name for path in kept.iterdir()) == [
        "dataset.jsonl",
        "ground_truth.jsonl",
        "source.json",
    ]
    assert not (tmp_path / "home" / "theatres").exists()


def test_with_too_few_changes_nobody_is_called(tmp_path: Path) -> None:
    answer = verify(tmp_path, "--limit", str(COMMITS - 1))
    assert (answer.code, answer.document["error"]["code"]) == (8, "replays-below-minimum")
    assert not (tmp_path / "home" / "theatres").exists()


def test_the_same_command_goes_on_with_a_run_that_was_stopped(tmp_path: Path) -> None:
    construct, door = held_oracle(tmp_path)
    command = arguments(tmp_path, "--json", construct=construct)
    with started(*command, home=tmp_path / "home", more=variables(tmp_path)) as process:
        until(lambda: len(door.calls) == HELD_CALL, "a call that waits")
        process.send_signal(signal.SIGINT)
        stopped = ended(process)
    assert (stopped.code, stopped.document["error"]["code"]) == (8, "interrupted")
    answer = verify(tmp_path, construct=construct)
    assert (answer.code, answer.document["replay_count"]) == (0, COMMITS)
    assert answer.document["theatre_id"] in stopped.document["error"]["message"]


def test_a_folder_with_another_ground_truth_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    history(tmp_path / "repo")
    repo = ("verify", "--repo", tmp_path / "repo", "--dry-run", "--output", kept)
    first = forked(*repo, home=tmp_path / "home")
    before = (kept / "dataset.jsonl").read_bytes()
    other = forked(*repo, "--limit", "2", "--json", home=tmp_path / "home")
    assert (first.code, other.code, other.document["error"]["code"]) == (0, 5, "output-taken")
    assert (kept / "dataset.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weights", "precision=1"), "expected precision=NUMBER"),
        (("--weights", "precision=0,recall=0,reply_accuracy=0"), "not all of them 0"),
        (("--weights", "precision=nan,recall=1,reply_accuracy=1"), "expected precision=NUMBER"),
        (("--weights", "precision=x,recall=1,reply_accuracy=1"), "expected precision=NUMBER"),
    ],
)
def test_weights_that_are_none_are_a_usage_error(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    answer = verify(tmp_path, *options)
    assert (answer.code, message in answer.document["error"]["message"]) == (2, True)


def test_without_a_construct_only_a_dry_run_is_possible(tmp_path: Path) -> None:
    answer = forked("verify", "--repo", tmp_path, "--json", home=tmp_path / "home")
    assert (answer.code, "--dry-run" in answer.document["error"]["message"]) == (2, True)
