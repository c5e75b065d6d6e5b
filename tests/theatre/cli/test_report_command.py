"""`echelon report`: one file for people, and none for what does not hold."""

import asyncio
import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.sealed_evidence import sealed_document, unpacked
from tests.theatre.cli.doubler import EPISODES, double, run, write_theatre
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, Respond, envelope, response, serving
from tests.theatre.transparency.issued_bundle import issue_bundle
from theatre.api.certificate_report import page_of_bundle
from theatre.api.workspace import utc_now
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentProtocol
from theatre.pages.certificate_page import render_report


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "trust"))
    return tmp_path


def test_a_bundle_is_checked_and_becomes_one_file(
    at_work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = unpacked("product_easel_requests_v1", at_work)
    assert run_guarded(cli, ["report", str(bundle), "-o", "page.html", "--json"]) is ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    page = (at_work / "page.html").read_text(encoding="utf-8")
    assert said["bytes"] == len(page.encode())
    assert (said["tier"], said["episodes_listed"], said["episodes"]) == ("UNVERIFIED", 48, 48)
    assert said["verdict"].startswith("consistent")
    # What keeps it from a tier, and that nothing vouches for it, stand above the scores.
    verdict = page.partition('id="scores"')[0]
    assert "Fewer than 50 episodes were scored" in verdict
    assert "nothing vouches for it" in verdict


def test_a_bundle_that_fails_its_check_gets_no_page(
    at_work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = issue_bundle(at_work).bundle
    certificate = bundle / "certificate.json"
    certificate.write_bytes(certificate.read_bytes().replace(b"UNVERIFIED", b"BACKTESTED"))
    assert run_guarded(cli, ["report", str(bundle)]) is ExitCode.CHECK_FAILED
    assert "FAIL" in capsys.readouterr().out
    assert not (at_work / "report.html").exists()


def test_of_a_certificate_alone_the_page_says_that_nothing_was_checked(
    at_work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = sealed_document("product_observer_v1", "certificate.json")
    (at_work / "kept.json").write_text(json.dumps(document), encoding="utf-8")
    assert run_guarded(cli, ["report", "kept.json"]) is ExitCode.OK
    assert "not checked" in capsys.readouterr().out
    page = (at_work / "report.html").read_text(encoding="utf-8")
    assert "Not checked for this page" in page
    assert '<section class="verdict good"' not in page


@pytest.mark.usefixtures("at_work")
def test_where_no_file_can_be_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept.json").write_text(
        json.dumps(sealed_document("product_observer_v1", "certificate.json")), encoding="utf-8"
    )
    call = ["report", "kept.json", "-o", "nowhere/page.html"]
    assert run_guarded(cli, call) is ExitCode.INVALID
    assert "name another path" in capsys.readouterr().err


@pytest.mark.usefixtures("at_work")
def test_without_its_extra_the_command_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("theatre.cli.exits.find_spec", lambda _: None)
    assert run_guarded(cli, ["report", "anything"]) is ExitCode.FAILURE
    assert "pip install 'echelon-theatre[pages]'" in capsys.readouterr().err


def test_what_the_template_withholds_is_on_no_page(at_work: Path) -> None:
    bundle = unpacked("product_easel_requests_v1", at_work)
    template = json.loads((bundle / "template.json").read_bytes())
    report = CheckReport(checks=())
    open_page = page_of_bundle(bundle, report, record=None, now=utc_now())
    assert open_page.episodes is not None
    secret = open_page.episodes.lines[0]
    template["product_theatre_config"]["disclosure"] = "withheld"
    template["product_theatre_config"]["withheld"] = {"episodes": [secret.episode_id]}
    (bundle / "template.json").write_text(json.dumps(template), encoding="utf-8")
    page = page_of_bundle(bundle, report, record=None, now=utc_now())
    assert page.episodes is not None
    found = {line.episode_id: line for line in page.episodes.lines}
    line = found[secret.episode_id]
    assert (line.is_withheld, line.asked, line.answered, line.expected) == (True, None, None, None)
    assert sum(one.is_withheld for one in page.episodes.lines) == 1
    assert "Question and answer are withheld" in render_report(page)


SCORING: dict[str, Any] = {
    "holdout_split": 0.5,
    "criteria_scorers": {
        "right": {"scorer": "exact_match", "params": {"field": "result", "expected": "double"}}
    },
}
NOTE = "note         {name}: train part 1.000 above the holdout, beyond sampling error"


def held_out(template: Path) -> set[str]:
    """Return the ids of the holdout, as docs/contract/scoring.md draws it."""
    commitment_hash = CommitmentProtocol.hash_template(parse_object(template.read_bytes()))
    drawn = {}
    for number in range(1, EPISODES + 1):
        digest = hashlib.sha256(f"{commitment_hash}:e{number}".encode()).hexdigest()
        drawn[f"e{number}"] = int(digest[:16], 16) / 2**64
    return {episode_id for episode_id, share in drawn.items() if share < SCORING["holdout_split"]}


def drawn_theatre(folder: Path, url: str) -> tuple[Path, set[str]]:
    """Write a template whose draw leaves at least two episodes on either side."""
    for number in count():
        template = write_theatre(
            folder,
            adapter_type="http",
            endpoint=url,
            scoring=SCORING,
            display_name=f"Doubler, draw {number}",
        )
        unseen = held_out(template)
        if 2 <= len(unseen) <= EPISODES - 2:
            return template, unseen
    raise AssertionError("expected a draw that suits")


def right_but_on(unseen: set[str]) -> Respond:
    """Answer as who knows by heart all episodes but these."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if f"e{request.envelope['input_data']['number']}" not in unseen:
            await double(request, writer)
        else:
            writer.write(response(envelope(request, output_data={"result": None})))

    return respond


def shown_of(folder: Path, *, fails_on_the_holdout: bool) -> str:
    """Run the doubler on loopback; return what `show` prints."""
    wrong_on: set[str] = set()
    with serving(right_but_on(wrong_on)) as server:
        template, unseen = drawn_theatre(folder, server.url)
        wrong_on |= unseen if fails_on_the_holdout else set()
        answer = run(template, allow="127.0.0.1")
    assert answer.code == 0, answer.stdout
    return forked("theatre", "show", answer.document["theatre_id"], home=folder / "home").stdout


def test_a_construct_that_fails_on_the_holdout_alone_gets_a_note_on_each_score(
    tmp_path: Path,
) -> None:
    lines = shown_of(tmp_path, fails_on_the_holdout=True).splitlines()
    assert [line for line in lines if line.startswith("note")] == [
        NOTE.format(name="composite"),
        NOTE.format(name="right"),
    ]


def test_a_construct_that_is_right_everywhere_gets_none_and_without_confidence_no_calibration(
    tmp_path: Path,
) -> None:
    shown = shown_of(tmp_path, fails_on_the_holdout=False)
    assert "right" in shown
    assert "note" not in shown
    assert "calibration" not in shown
