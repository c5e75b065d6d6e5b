"""`echelon demo`: certifies three theatres, catches a forgery, and leaves only its home."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.echelon_process import (
    CARTOGRAPH,
    ECHELON,
    Answer,
    echelon,
    environment,
    processes_that_mention,
    until,
)
from theatre.cli.baselines import with_construct
from theatre.cli.demo_command import FORGED_FILE
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.files.theatre_store import FileTheatreStore

OBSERVER = CARTOGRAPH.with_name("product_observer_v1.json")
EASEL = CARTOGRAPH.with_name("product_easel_v1.json")
TEMPLATES = {"cartograph": CARTOGRAPH, "observer": OBSERVER, "easel": EASEL}
RATINGS = CARTOGRAPH.parents[1] / "ratings" / "product_easel_v1"
COMMITMENTS = {
    name: template.with_name(f"{template.stem}.commitment.txt").read_text().strip()
    for name, template in TEMPLATES.items()
}
BASELINES = ["observer_majority", "observer_keywords"]
PATIENCE_SECONDS = 300


def demonstrate(*options: str, home: Path, temporary: Path) -> Answer:
    ended = subprocess.run(
        [ECHELON, "demo", *options],
        env=environment(home, more={"TMPDIR": str(temporary)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    return Answer(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrations:
    """The demo as a text and as a document, one after the other in the same store."""

    home: Path
    text: Answer
    document: Answer
    left_in_temporary_folder: list[Path]

    def step(self, number: int) -> str:
        """Return what was printed from the heading of a step to the next."""
        return self.text.stdout.partition(f"── {number} ")[2].partition("\n── ")[0]

    def certificates(self) -> dict[str, dict[str, Any]]:
        """Return every certificate in the store by its id."""
        found = [json.loads(path.read_bytes()) for path in self.home.rglob("certificate.json")]
        return {certificate["certificate_id"]: certificate for certificate in found}


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Demonstrations:
    home, temporary = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("temporary")
    text = demonstrate(home=home, temporary=temporary)
    document = demonstrate("--json", home=home, temporary=temporary)
    until(lambda: not processes_that_mention(temporary), "the end of all processes")
    return Demonstrations(
        home=home,
        text=text,
        document=document,
        left_in_temporary_folder=list(temporary.iterdir()),
    )


def test_the_demo_succeeds_twice_in_a_row_and_leaves_nothing_but_its_home(
    demos: Demonstrations,
) -> None:
    assert (demos.text.code, demos.document.code) == (0, 0)
    assert demos.left_in_temporary_folder == []
    assert {path.name for path in demos.home.iterdir()} == {"cache", "plots", "theatres"}
    assert len(FileTheatreStore(demos.home).theatre_ids()) == 10


def test_the_demo_tells_its_steps_in_order(demos: Demonstrations) -> None:
    steps = [line for line in demos.text.stdout.splitlines() if line.startswith("── ")]
    assert [step.split()[1] for step in steps] == [*map(str, range(1, 12)), "The"]
    assert steps[-1] == "── The honest bundles passed, the forged one did not."
    told = {line.split()[0] for line in demos.text.stderr.splitlines()}
    assert told == {template.stem for template in TEMPLATES.values()}


@pytest.mark.parametrize(("step", "name"), [(2, "cartograph"), (4, "observer"), (8, "easel")])
def test_the_demo_shows_the_certificates_that_are_in_the_bundles(
    demos: Demonstrations, step: int, name: str
) -> None:
    shown = demos.step(step)
    (certificate_id,) = re.findall(r"^certificate  (\S+)$", shown, re.MULTILINE)
    certificate = demos.certificates()[certificate_id]
    assert f"commitment   {COMMITMENTS[name]}" in shown
    assert f"results      {certificate['results_hash']}" in shown
    assert f"tier         {certificate['verification_tier']}" in shown
    for criterion, score in certificate["scores"].items():
        assert re.search(rf"^{criterion}  +{score:.3f}  ", shown, re.MULTILINE)
    missing = re.findall(r"^  missing for \w+: (\S+) ", shown, re.MULTILINE)
    assert missing == certificate["caps"]


def test_the_demo_says_how_far_the_observers_confidence_can_be_trusted(
    demos: Demonstrations,
) -> None:
    assert "calibration" not in demos.step(2)
    assert (
        "calibration  Brier 0.215, ECE 0.122 (if calibrated: 0.076 expected, 95 % below 0.115)"
        in demos.step(4).splitlines()
    )


def test_the_demo_shows_two_baselines_with_their_intervals_beside_the_observer(
    demos: Demonstrations,
) -> None:
    table = [re.split(r"  +", line) for line in demos.step(5).splitlines()[1:] if line]
    assert table[0] == ["criterion", "observer", *BASELINES]
    rows = {row[0]: row[1:] for row in table[2:]}
    run = {c["construct_id"]: c for c in demos.certificates().values()}
    for name in ("source_fidelity", "signal_classification", "canvas_enrichment_freshness"):
        assert rows.pop(name) == [
            f"{one['scores'][name]:.3f} "
            f"({one['score_intervals'][name]['low']:.3f} … "
            f"{one['score_intervals'][name]['high']:.3f})"
            for one in (run[construct] for construct in ("observer", *BASELINES))
        ]
    assert [cell.split()[0] for cell in rows.pop("composite")] == ["0.467", "0.151", "0.164"]
    assert rows == {}


def recorded_ratings() -> dict[str, dict[str, float]]:
    """Return what the files beside the fixtures hold: reviewer → episode → score."""
    return {
        path.stem: {
            line["episode_id"]: line["score"]
            for line in map(json.loads, path.read_bytes().splitlines())
        }
        for path in RATINGS.glob("*.jsonl")
    }


def test_easels_run_stops_at_the_rubric_which_the_demo_shows_with_one_of_the_answers(
    demos: Demonstrations,
) -> None:
    shown = demos.step(6)
    rating = json.loads(EASEL.read_bytes())["hitl_steps"][0]
    assert re.search(r"^outcome   pending \(pending_hitl:judge_taste\)$", shown, re.MULTILINE)
    assert " ".join(rating["rubric"].split()) in " ".join(shown.split())
    for point, label in rating["scoring_scale"]["labels"].items():
        assert re.search(rf"^ +{point}  {re.escape(label)}$", shown, re.MULTILINE)
    assert "asked of at least 2 people, of whom none is an author, about each of 24" in shown
    (item,) = re.findall(r"^item      (\S+)$", shown, re.MULTILINE)
    assert item == next(iter(recorded_ratings()["demo-reviewer-a"]))
    for part in ("brief", "wants", "avoids", "sheet"):
        assert re.search(rf"^{part} {{4,5}}\S", shown, re.MULTILINE)


def test_two_stand_ins_who_are_named_so_score_every_item(demos: Demonstrations) -> None:
    recorded = recorded_ratings()
    shown = " ".join(demos.step(7).split())
    for name, scores in recorded.items():
        assert f"{name} {' '.join(f'{score:g}' for score in scores.values())}" in shown
    assert demos.document.document["ratings"] == recorded
    assert {len(scores) for scores in recorded.values()} == {24}


def test_easels_certificate_tells_who_scored_and_where_decisions_were_lost(
    demos: Demonstrations,
) -> None:
    lines = demos.step(8).splitlines()
    (people,) = [n for n, line in enumerate(lines) if line.startswith("people       judge_taste: ")]
    assert ", alpha 0.177; share 0.2 of downstream_compliance, machine 0.938" in lines[people]
    assert lines[people + 1].split() == ["they", "are", "demo-reviewer-a,", "demo-reviewer-b"]
    assert [line.split()[1] for line in lines if line.startswith("with  ")] == ["artisan"]
    (start,) = [n for n, line in enumerate(lines) if line.startswith("hop ")]
    assert [line.split() for line in lines[start + 2 : start + 5]] == [
        ["easel", "451", "50", "0", "23", "-", "-"],
        ["artisan", "451", "0", "0", "0", "409", "0"],
        ["mint", "451", "0", "0", "0", "498", "0"],
    ]


def test_the_demo_finds_honest_bundles_sound_and_names_what_is_wrong_with_the_forged_one(
    demos: Demonstrations,
) -> None:
    honest, forged = demos.step(9), demos.step(10)
    assert "FAIL" not in honest
    assert len(re.findall(r"^valid: \d+ checks, 0 failed$", honest, re.MULTILINE)) == 3
    assert FORGED_FILE in forged
    assert re.search(r"^FAIL {9}sums$", forged, re.MULTILINE)
    assert re.search(r"^FAIL {9}scores$", forged, re.MULTILINE)
    assert re.search(r"^NOT VALID: \d+ checks, [1-9]\d* failed$", forged, re.MULTILINE)


def test_the_demo_draws_all_three_and_says_where(demos: Demonstrations) -> None:
    drawn = {
        demos.home / "plots" / name
        for name in (
            "product_cartograph_v1/criteria.svg",
            "product_easel_v1/criteria.svg",
            "product_observer_v1/criteria.svg",
            "product_observer_v1/reliability.svg",
        )
    }
    assert {Path(line) for line in demos.step(11).splitlines()[1:] if line} == drawn
    assert set(demos.home.glob("plots/*/*")) == drawn


def test_the_demo_as_a_document_holds_runs_checks_plots_baselines_and_forgery(
    demos: Demonstrations,
) -> None:
    assert demos.document.stderr == ""
    document = demos.document.document
    assert set(document) == {*TEMPLATES, "baselines", "ratings", "forgery"}
    for name, commitment in COMMITMENTS.items():
        assert set(document[name]) == {"run", "check", "plots"}
        assert document[name]["run"]["outcome"] == "certified"
        assert document[name]["run"]["commitment_hash"] == commitment
        assert document[name]["check"]["valid"] is True
        assert all(Path(path).is_file() for path in document[name]["plots"])
        assert document[name]["run"]["results_hash"] in demos.text.stdout
    baselines = document["baselines"]
    assert {name: run["outcome"] for name, run in baselines.items()} == dict.fromkeys(
        BASELINES, "certified"
    )
    assert document["forgery"]["valid"] is False
    failed = {check["id"] for check in document["forgery"]["checks"] if check["ok"] is False}
    assert failed >= {"sums", "audit-episodes", "scores"}


def differences(one: Any, other: Any, place: str = "") -> set[str]:  # noqa: ANN401 - any JSON
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        return {
            found
            for name in names
            for found in differences(one.get(name), other.get(name), f"{place}/{name}")
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = enumerate(zip(one, other, strict=True))
        return {found for n, pair in items for found in differences(*pair, f"{place}/{n}")}
    return set() if one == other else {place}


def test_a_baseline_is_measured_by_the_same_template_but_for_who_is_measured(
    demos: Demonstrations,
) -> None:
    template = parse_object(OBSERVER.read_bytes())
    for name in BASELINES:
        run = demos.document.document["baselines"][name]
        committed: JsonObject = parse_object(
            (Path(run["bundle_path"]) / "template.json").read_bytes()
        )
        pin = json.loads((Path(run["bundle_path"]) / "certificate.json").read_bytes())
        assert committed == with_construct(template, name, version=pin["construct_version"])
        assert differences(template, committed) == {
            "/version_pins/constructs/observer",
            f"/version_pins/constructs/{name}",
            "/resolution_programme/0/construct_id",
            "/product_theatre_config/construct_under_test",
            "/product_theatre_config/adapter_endpoint",
        }


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_bundles_of_the_demo_can_be_checked_by_their_path(
    demos: Demonstrations, tmp_path: Path, name: str
) -> None:
    bundle = demos.document.document[name]["run"]["bundle_path"]
    moved = shutil.copytree(bundle, tmp_path / "elsewhere")
    assert echelon("check", moved, home=tmp_path / "home").code == 0
