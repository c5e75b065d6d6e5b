"""Oracles behind a URL: found out by a probe, spoken to plainly where they know no envelope.

No change is too odd for them, and a token leaves no trace.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import PIN
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, envelope, response, serving
from tests.theatre.verification.git_history import Commit, repository
from tests.theatre.verification.github_service import FakeTime, GitHubService
from tests.theatre.verification.verify_command import COMMITS, command, verify
from theatre.engine.canonical_json import parse_object

OUTPUT = {"summary": "", "key_claims": ["1 file."], "follow_up_response": "1"}


async def lenient(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer whatever is asked with a bare output."""
    writer.write(response(json.dumps(OUTPUT).encode()))


async def strict(request: Received, writer: asyncio.StreamWriter) -> None:
    """Answer bare records only."""
    if "diff_content" in json.loads(request.body):
        writer.write(response(json.dumps(OUTPUT).encode()))
    else:
        writer.write(response(b"no record", status="422 Unprocessable Content"))


def bodies(received: list[Received]) -> list[dict[str, Any]]:
    return [dict(json.loads(one.body)) for one in received]


@pytest.mark.parametrize(("oracle", "probes"), [(lenient, 1), (strict, 2)])
def test_a_plain_oracle_is_found_by_the_probe_and_its_certificate_says_so(
    tmp_path: Path,
    oracle: Any,  # noqa: ANN401 - a server's coroutine
    probes: int,
) -> None:
    with serving(oracle) as server:
        answer = verify(tmp_path, "--quiet", construct=server.url)
        asked = bodies(server.received)
    assert (answer.code, answer.document["check"]["verdict"]) == (0, "valid, logged")
    assert answer.document["scores"]["precision"] == 1
    assert answer.document["verification_tier"] == "UNVERIFIED"
    assert "version-unreported" in answer.document["caps"]
    assert len(asked) == probes + COMMITS
    record = asked[-1]
    assert "invocation_id" not in record
    assert {"id", "title", "diff_content", "files_changed", "follow_up_question"} <= record.keys()
    short = parse_object(Path(answer.document["verification_certificate"]).read_bytes())
    assert "version-unreported" in list(short["caps"])  # type: ignore[arg-type]  # an array


def test_one_that_is_said_to_be_plain_is_not_probed(tmp_path: Path) -> None:
    with serving(strict) as server:
        answer = verify(
            tmp_path, "--quiet", "--plain", "--construct-version", PIN, construct=server.url
        )
        asked = bodies(server.received)
    assert (answer.code, len(asked)) == (0, COMMITS)
    # A version that only its user claims is reported by nobody.
    assert "version-unreported" in answer.document["caps"]


def test_an_answer_of_another_shape_is_an_error_of_that_change(tmp_path: Path) -> None:
    calls = 0

    async def moody(_: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        odd = b'["no object"]' if calls == 3 else json.dumps(OUTPUT).encode()
        writer.write(response(odd))

    with serving(moody) as server:
        answer = verify(tmp_path, "--quiet", "--plain", construct=server.url)
    # It is tried again, as every error is, and the second answer counts.
    assert (answer.code, calls) == (0, COMMITS + 1)
    bundle = Path(answer.document["bundle_path"])
    record: Any = parse_object((bundle / "invocations" / "episode_000003.json").read_bytes())
    attempts = record["calls"][0]["attempts"]
    assert [one["reason"] for one in attempts] == ["not-envelope", None]
    assert record["calls"][0]["adapter"] == "plain_http@1"


def test_one_that_answers_in_no_known_way_is_refused_before_the_commitment(tmp_path: Path) -> None:
    async def other(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"hello": "world"}'))

    with serving(other) as server:
        answer = verify(tmp_path, "--quiet", construct=server.url)
    assert (answer.code, answer.document["error"]["code"]) == (8, "construct-unreachable")
    assert "--plain" in answer.document["error"]["message"]
    assert not (tmp_path / "home" / "theatres").exists()


@pytest.mark.parametrize("hangs_at", ["the envelope", "the bare record"])
def test_one_that_hangs_is_waited_for_no_longer_than_the_time_limit(
    tmp_path: Path, hangs_at: str
) -> None:
    async def hanging(request: Received, writer: asyncio.StreamWriter) -> None:
        if hangs_at == "the envelope" or "diff_content" in json.loads(request.body):
            await asyncio.Event().wait()
        writer.write(response(b"no record", status="422 Unprocessable Content"))

    with serving(hanging) as server:
        answer = verify(tmp_path, "--quiet", "--timeout", "1", construct=server.url)
    error = answer.document["error"]
    assert (answer.code, error["code"]) == (8, "construct-unreachable")
    assert "to report its version within 1 s, got no answer" in error["message"]
    assert not (tmp_path / "home" / "theatres").exists()


def test_a_service_whose_version_is_given_is_not_probed(tmp_path: Path) -> None:
    async def oracle(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(envelope(request, construct_version=PIN, output_data=OUTPUT)))

    with serving(oracle) as server:
        answer = verify(tmp_path, "--quiet", "--construct-version", PIN, construct=server.url)
        asked = len(server.received)
    assert (answer.code, asked) == (0, COMMITS)
    assert "version-unreported" not in answer.document["caps"]


def test_what_runs_here_cannot_be_plain(tmp_path: Path) -> None:
    answer = verify(tmp_path, "--plain")
    assert (answer.code, "expected a service" in answer.document["error"]["message"]) == (5, True)


def test_the_version_of_a_plain_oracle_cannot_be_taken_from_its_bundle(tmp_path: Path) -> None:
    """The cap is a part of the evidence: without it the check says so."""
    with serving(lenient) as server:
        answer = verify(tmp_path, "--quiet", construct=server.url)
    bundle = Path(answer.document["bundle_path"])
    tier = bundle / "tier.json"
    tier.write_bytes(tier.read_bytes().replace(b'"version-unreported"', b'"episodes-not-run"'))
    check = command(tmp_path, "check", bundle, "--json")
    failed = {line["id"] for line in check.document["checks"] if line["ok"] is False}
    assert (check.code, "tier" in failed) == (10, True)


# As records, 10,000 files are always made (test_local_history.py).
MANY = 10_000 if os.environ.get("ECHELON_SOAK") == "1" else 1_000
BIG = (b"x" * 999 + b"\n") * 3_100
ODD = [
    Commit(message=b"Begin", files={b"a.py": b"def one(): pass\n", b"old.txt": b"text\n" * 20}),
    Commit(message=b"Three megabytes", files={b"big.py": BIG}),
    Commit(message=b"A picture", files={b"logo.png": b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"}),
    Commit(message=b"Only a name", renames={b"old.txt": b"new.txt"}),
    Commit(message=b"", files={b"a.py": b"def two(): pass\n"}),
    Commit(message=b"Gr\xfc\xdfe \x00"[:-1], files={b"l\xe4nge.txt": b"caf\xe9 \xff\xfe\n"}),
    Commit(message=b"Many files", files={b"many/f%05d.txt" % n: b"%d\n" % n for n in range(MANY)}),
    Commit(message=b"A branch", files={b"b.py": b"def branch(): pass\n"}, parents=[0]),
    Commit(
        message=b"Merge it",
        files={b"b.py": b"def branch(): pass\n", b"c.py": b"def both(): pass\n"},
        parents=[6, 7],
    ),
]


def test_no_change_is_too_odd_for_a_run(tmp_path: Path) -> None:
    repository(tmp_path / "repo", ODD)
    answer = command(
        tmp_path,
        *("verify", "--repo", tmp_path / "repo", "--history", "first-parent"),
        *("--construct", "construct:change_extractive", "--min-replays", "8"),
        *("--output", tmp_path / "kept", "--json", "--quiet"),
    )
    assert (answer.code, answer.document["check"]["verdict"]) == (0, "valid, logged")
    assert answer.document["episode_counts"]["scored"] == 8
    lines = (tmp_path / "kept" / "ground_truth.jsonl").read_bytes().splitlines()
    records: list[Any] = [parse_object(line) for line in lines]
    assert [record["title"] for record in records] == [
        *("Begin", "Three megabytes", "A picture", "Only a name", ""),
        *("Gr\\xfc\\xdfe", "Many files", "Merge it"),
    ]
    assert len(records[1]["diff_content"]) > 3_000_000
    assert records[1]["omitted"]["diff_bytes"] == 0
    assert "Binary files" in records[2]["diff_content"]
    assert records[3]["files_changed"] == ["new.txt"]
    assert records[5]["files_changed"] == ["l\\xe4nge.txt"]
    assert len(records[6]["files_changed"]) == MANY
    assert records[7]["files_changed"] == ["b.py", "c.py"]


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
