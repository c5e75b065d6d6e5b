"""The token of a private repository: sent to its interface, and found nowhere afterwards."""

from pathlib import Path

import pytest

from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import serving
from tests.theatre.verification.github_service import FakeTime, GitHubService
from theatre.engine.canonical_json import parse_object

TOKEN = "ghp_planted0123456789abcdefghijklmnopqrst"  # noqa: S105  # opens nothing
ORACLE = '''
"""Says all that it can see of the run."""

import os
import sys


def summarise(input_data):
    seen = repr((dict(os.environ), sys.argv, input_data))
    return {"summary": seen, "key_claims": ["1 file."], "follow_up_response": "1"}
'''


def ask(folder: Path, *given: str | Path) -> tuple[Answer, GitHubService]:
    """Run a command with the token, against a service that speaks GitHub's REST."""
    service = GitHubService(pulls=10, time=FakeTime())
    with serving(service.respond) as server:
        more = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": f"http://127.0.0.1:{server.port}"}
        return forked(*given, home=folder / "home", more=more), service


def traces(folder: Path, answer: Answer) -> list[str]:
    """Return where the token is found: files by name, and the streams of the command."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = [str(path) for path in files if TOKEN.encode() in path.read_bytes()]
    said = answer.stdout + answer.stderr
    return [*found, *(["the command's own words"] if TOKEN in said else [])]


def test_a_whole_run_leaves_no_trace_of_the_token(tmp_path: Path) -> None:
    (tmp_path / "curious.py").write_text(ORACLE, encoding="utf-8")
    answer, service = ask(
        tmp_path,
        *("verify", "--repo", "https://github.com/o/n", "--construct", "curious:summarise"),
        *("--folder", tmp_path, "--output", tmp_path / "kept", "--min-replays", "8"),
        *("--verbose", "--log-json", tmp_path / "log.jsonl"),
    )
    assert (answer.code, service.tokens) == (0, {f"Bearer {TOKEN}"})
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert len(kept) > 20
    assert any(b"'ECHELON_CONSTRUCT_VERSION':" in path.read_bytes() for path in kept)
    assert traces(tmp_path, answer) == []
    template = parse_object((tmp_path / "kept" / "template.json").read_bytes())
    config = template["product_theatre_config"]
    assert isinstance(config, dict)
    assert (config["disclosure"], config["ground_truth_source"]) == ("hashes", "GITHUB_API")
    certificate = parse_object((tmp_path / "kept" / "verification_certificate.json").read_bytes())
    assert certificate["ground_truth_source"] == "https://github.com/o/n"
    assert certificate["commit_range"] == f"{1:040x}..{9:040x}"


@pytest.mark.parametrize(
    ("repository", "code"),
    [
        ("https://github.com/o/nowhere", 5),
        (f"https://x:{TOKEN}@github.com/o/n", 5),
        (f"https://{TOKEN}@github.com/o/n", 5),
        (f"https://github.com/o/n?access_token={TOKEN}", 0),
        (f"https://github.com/{TOKEN}", 5),
    ],
)
def test_neither_a_refusal_nor_a_careless_url_repeats_it(
    tmp_path: Path, repository: str, code: int
) -> None:
    given = ("ingest", "--repo", repository, "--log-json", tmp_path / "log.jsonl")
    answer, _ = ask(tmp_path, *given, "--output", tmp_path / "kept")
    assert (answer.code, traces(tmp_path, answer)) == (code, [])
