"""`echelon demo`: certifies a real construct, catches a forgery, and leaves only the store."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.theatre.echelon_process import (
    CARTOGRAPH,
    Answer,
    echelon,
    processes_that_mention,
    until,
)
from theatre.cli.demo_command import FORGED_FILE
from theatre.files.theatre_store import FileTheatreStore

COMMITMENT = CARTOGRAPH.with_name("product_cartograph_v1.commitment.txt").read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrations:
    """The demo as a text and as a document, one after the other in the same store."""

    home: Path
    text: Answer
    document: Answer
    left_in_temporary_folder: list[Path]


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Demonstrations:
    home, temporary = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("temporary")
    more = {"TMPDIR": str(temporary)}
    text = echelon("demo", home=home, more=more)
    document = echelon("demo", "--json", home=home, more=more)
    until(lambda: not processes_that_mention(temporary), "the end of all processes")
    return Demonstrations(
        home=home,
        text=text,
        document=document,
        left_in_temporary_folder=list(temporary.iterdir()),
    )


def test_the_demo_succeeds_twice_in_a_row_and_leaves_nothing_but_the_store(
    demos: Demonstrations,
) -> None:
    assert (demos.text.code, demos.document.code) == (0, 0)
    assert demos.left_in_temporary_folder == []
    assert [path.name for path in demos.home.iterdir()] == ["theatres"]
    assert len(FileTheatreStore(demos.home).theatre_ids()) == 2


def test_the_demo_tells_its_four_steps_in_order(demos: Demonstrations) -> None:
    steps = [line for line in demos.text.stdout.splitlines() if line.startswith("── ")]
    assert [step.split()[1] for step in steps] == ["1", "2", "3", "4", "The"]
    assert steps[-1] == "── The honest bundle passed, the forged one did not."
    assert demos.text.stderr.splitlines()[-1].startswith("product_cartograph_v1 ")


def test_the_demo_shows_the_certificate_that_is_in_the_bundle(demos: Demonstrations) -> None:
    shown = demos.text.stdout.partition("── 3")[0]
    (certificate_id,) = re.findall(r"^certificate  (\S+)$", shown, re.MULTILINE)
    certificates = {
        certificate["certificate_id"]: certificate
        for path in demos.home.rglob("certificate.json")
        for certificate in [json.loads(path.read_bytes())]
    }
    certificate = certificates[certificate_id]
    assert f"commitment   {COMMITMENT}" in shown
    assert f"results      {certificate['results_hash']}" in shown
    assert f"tier         {certificate['verification_tier']}" in shown
    for criterion, score in certificate["scores"].items():
        assert re.search(rf"^{criterion}  +{score:.3f}  ", shown, re.MULTILINE)
    assert all(f"missing for BACKTESTED: {cap}" in shown for cap in certificate["caps"])


def test_the_demo_finds_the_honest_bundle_sound_and_names_what_is_wrong_with_the_forged_one(
    demos: Demonstrations,
) -> None:
    honest, _, forged = demos.text.stdout.partition("── 3")[2].partition("── 4")
    assert "FAIL" not in honest
    assert re.search(r"^valid: \d+ checks, 0 failed$", honest, re.MULTILINE)
    assert FORGED_FILE in forged
    assert re.search(r"^FAIL {9}sums$", forged, re.MULTILINE)
    assert re.search(r"^FAIL {9}scores$", forged, re.MULTILINE)
    assert re.search(r"^NOT VALID: \d+ checks, [1-9]\d* failed$", forged, re.MULTILINE)


def test_the_demo_as_a_document_holds_run_check_and_forgery(demos: Demonstrations) -> None:
    assert demos.document.stderr == ""
    document = demos.document.document
    assert set(document) == {"run", "check", "forgery"}
    assert document["run"]["outcome"] == "certified"
    assert document["run"]["commitment_hash"] == COMMITMENT
    assert (document["check"]["valid"], document["forgery"]["valid"]) == (True, False)
    failed = {check["id"] for check in document["forgery"]["checks"] if check["ok"] is False}
    assert failed >= {"sums", "audit-episodes", "scores"}
    assert document["run"]["results_hash"] in demos.text.stdout


def test_the_bundle_of_the_demo_can_be_checked_by_its_path(
    demos: Demonstrations, tmp_path: Path
) -> None:
    moved = shutil.copytree(demos.document.document["run"]["bundle_path"], tmp_path / "elsewhere")
    assert echelon("check", moved, home=tmp_path).code == 0
