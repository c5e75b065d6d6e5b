"""Oracles behind a URL: found out by a probe, spoken to plainly where they know no envelope."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import PIN
from tests.theatre.oracles.loopback import Received, envelope, response, serving
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
