"""`echelon theatre show --plot`: pictures of a certificate, as SVG with its numbers as text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.sealed_evidence import sealed_document, unpacked
from tests.theatre.cli.doubler import double, run, write_theatre
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import serving
from theatre.cli.pictures import certificate_pictures, draw_bundle
from theatre.svg import page, text

SVG = "{http://www.w3.org/2000/svg}"


class Place:
    """A store with a certified theatre whose construct states no probability."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        with serving(double) as server:
            self.template = write_theatre(folder, adapter_type="http", endpoint=server.url)
            ended = run(self.template, allow="127.0.0.1")
        assert ended.code == 0, ended.stdout
        self.doubler = str(ended.document["theatre_id"])

    def show(self, *arguments: str | Path, more: Mapping[str, str] | None = None) -> Answer:
        return forked("theatre", "show", self.doubler, *arguments, home=self.home, more=more)

    def sealed(self, path: str) -> dict[str, Any]:
        (found,) = (self.home / "theatres" / self.doubler).glob(f"evidence_bundle_*/{path}")
        document: dict[str, Any] = json.loads(found.read_bytes())
        return document


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("plots"))


@pytest.fixture(scope="module")
def observer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures of the sealed run of a construct that states probabilities."""
    folder = tmp_path_factory.mktemp("observer")
    drawn = draw_bundle(unpacked("product_observer_v1", folder), folder / "pictures")
    assert [path.name for path in drawn] == ["criteria.svg", "reliability.svg"]
    return folder / "pictures"


def texts(picture: Path) -> list[str]:
    """Return what is written in a picture, which must be well-formed."""
    root = ET.parse(picture).getroot()  # noqa: S314 - our own picture
    assert root.tag == f"{SVG}svg"
    return ["".join(text.itertext()).strip() for text in root.iter(f"{SVG}text")]


def test_show_says_which_pictures_were_written(place: Place, tmp_path: Path) -> None:
    written = tmp_path / "not there yet" / "pictures" / "criteria.svg"
    drawn = place.show("--plot", written.parent)
    assert (drawn.code, drawn.stderr) == (0, "")
    assert drawn.stdout == place.show().stdout + f"plot         {written}\n"
    answer = place.show("--plot", tmp_path / "again", "--json")
    without = place.show("--json").document
    again = tmp_path / "again" / written.name
    assert answer.document == without | {"plots": [str(again)]}
    assert "plots" not in without
    # Without probabilities there is no picture of reliability.
    assert place.sealed("scores/aggregate.json")["calibration"] is None
    assert [*written.parent.iterdir(), *again.parent.iterdir()] == [written, again]
    assert again.read_bytes() == written.read_bytes()


def test_the_picture_of_the_criteria_holds_their_names_scores_and_methods_as_text(
    observer: Path,
) -> None:
    written = texts(observer / "criteria.svg")
    assert {
        *("source_fidelity", "signal_classification", "canvas_enrichment_freshness"),
        "composite",
    } <= set(written)
    assert {
        *(
            "0.497 (cluster_bca, n = 163)",
            "0.318 (cluster_bca, n = 148)",
            "0.706 (cluster_bca, n = 163)",
        ),
        "0.467 (cluster_bca)",
    } <= set(written)
    assert {"train (134 episodes)", "holdout (29 episodes)"} <= set(written)
    assert "product_observer_v1: observer @ ce4148af29c2" in written
    assert {
        "best trivial answer",
        (
            "BACKTESTED; 163 questions, 163 distinct; answers-in-inputs; "
            "within-item-variance-unknown"
        ),
    } <= set(written)


def test_the_picture_of_reliability_holds_brier_and_ece_beside_what_chance_would_show(
    observer: Path,
) -> None:
    written = texts(observer / "reliability.svg")
    assert {
        *("n = 148", "Brier 0.215", "ECE 0.122"),
        "if calibrated: 0.076, 95 % below 0.115",
        "confidence that the construct gave (signal_classification)",
    } <= set(written)


def test_a_labelled_construct_that_states_no_probability_has_no_picture_of_reliability(
    tmp_path: Path,
) -> None:
    scorer = {"scorer": "label_accuracy", "params": {"field": "result", "expected": "double"}}
    with serving(double) as server:
        template = write_theatre(
            tmp_path,
            adapter_type="http",
            endpoint=server.url,
            scoring={"criteria_scorers": {"right": scorer}},
            scorer_pins={"label_accuracy": "1"},
        )
        theatre_id = run(template, allow="127.0.0.1").document["theatre_id"]
    folder = tmp_path / "pictures"
    answer = forked("theatre", "show", theatre_id, "--plot", folder, home=tmp_path / "home")
    assert "calibration" not in answer.stdout
    (aggregate,) = tmp_path.glob("home/theatres/*/*/scores/aggregate.json")
    assert json.loads(aggregate.read_bytes())["calibration"]["probabilities"] == 0
    assert [path.name for path in folder.iterdir()] == ["criteria.svg"]


def test_a_picture_says_of_which_certificate_it_is(observer: Path) -> None:
    certificate = sealed_document("product_observer_v1", "certificate.json")
    for name in ("criteria.svg", "reliability.svg"):
        resolved, expires = (certificate[at][:10] for at in ("theatre_resolved_at", "expires_at"))
        assert texts(observer / name)[-4:] == [
            "n = 163 of 163 episodes scored",
            f"resolved {resolved}, expires {expires}",
            f"commitment {certificate['commitment_hash']}",
            f"results {certificate['results_hash']}",
        ]


RATED = {
    "train": {"episodes": 8, "scores": {"taste": 0.9, "form": 0.6}, "composite_score": 0.75},
    "holdout": {"episodes": 2, "scores": {"taste": 0.9, "form": 0.6}, "composite_score": 0.75},
}


def test_a_score_that_people_have_a_share_in_shows_its_parts(place: Place) -> None:
    certificate = place.sealed("certificate.json") | {
        "baselines": None,
        "criteria": {"criteria_ids": ["taste", "form"], "weights": {"taste": 0.5, "form": 0.5}},
    }
    panel = {"criterion_id": "taste", "share": 0.5, "machine": 0.9, "human": 0.3}
    whole = {"low": 0.5, "high": 0.7, "method": "bca"}
    aggregate = {
        "scores": {"taste": 0.6, "form": 0.6},
        "composite_score": 0.6,
        "score_intervals": dict.fromkeys(("taste", "form", "composite_score"), whole),
        "holdout_scores": RATED,
        "human_scores": {"judge": panel},
        "calibration": None,
    }
    drawn = certificate_pictures(aggregate, certificate)["criteria.svg"]
    picture = ET.fromstring(drawn)  # noqa: S314 - our own picture
    written = [text.text for text in picture.iter(f"{SVG}text")]
    assert {
        *("train (8 episodes, without people)", "holdout (2 episodes, without people)"),
        *("without people", "people alone (0.5 of taste)"),
    } <= set(written)
    # What the machine alone scores, in taste and in all, lies where its train part does.
    bars = {mark.get("d", "")[1:].partition("L")[0] for mark in picture.iter(f"{SVG}path")}
    tops = {mark.get("points", "").split()[0] for mark in picture.iter(f"{SVG}polygon")}
    assert len(bars & {top.replace(",", " ") for top in tops}) == 2


def test_names_are_escaped_and_what_xml_cannot_hold_is_left_out() -> None:
    picture = page(title='<&"\x00', width=100, end=40, elements=[text(1, 1, "a<b>&\x1b[0m")])
    root = ET.fromstring(picture)  # noqa: S314 - our own picture
    assert root.get("aria-label") == '<&"\ufffd'
    assert [one.text for one in root.iter(f"{SVG}text")] == ['<&"\ufffd', "a<b>&\ufffd[0m"]


def test_nothing_is_written_outside_the_store_and_the_folder(place: Place, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    answer = place.show(
        "--plot",
        tmp_path / "pictures",
        more={"HOME": str(own), "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""},
    )
    assert (answer.code, answer.stderr) == (0, "")
    assert list(own.iterdir()) == []
    assert {path.name for path in place.home.iterdir()} == {"theatres"}


def test_a_theatre_without_a_certificate_has_no_picture(place: Place, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "pictures"
    more = {"ECHELON_OUTBOUND_ALLOW": "127.0.0.1"}
    commit = forked("theatre", "commit", place.template, "--json", home=home, more=more)
    theatre_id = commit.document["theatre_id"]
    answer = forked("theatre", "show", theatre_id, "--plot", folder, "--json", home=home)
    assert (answer.code, answer.document) == (
        3,
        {
            "error": {
                "code": "not-found",
                "message": f"expected a certificate of theatre {theatre_id}, got none: "
                "it is COMMITTED: run it to its end first",
            }
        },
    )
    assert not folder.exists()


@pytest.mark.parametrize("name", ["a file", "a file/below"])
def test_a_folder_that_cannot_be_made_is_a_usage_error(
    place: Place, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a file").write_text("not a folder")
    answer = place.show("--plot", tmp_path / name, "--json")
    assert (answer.code, answer.document["error"]["code"]) == (2, "usage")
    assert answer.document["error"]["message"].startswith(
        "Invalid value for --plot: expected a folder, or a place where one can be made, "
        f"got {tmp_path / name}: "
    )
